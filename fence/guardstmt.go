package fence

import (
	"context"
	"database/sql/driver"
	"errors"
)

// guardStmt is a prepared statement of a guard.
type guardStmt struct {
	raw  driver.Stmt
	g    *guard
	text string
}

var (
	_ driver.NamedValueChecker = (*guardStmt)(nil)
	_ driver.StmtExecContext   = (*guardStmt)(nil)
	_ driver.StmtQueryContext  = (*guardStmt)(nil)
)

// Close implements [driver.Stmt]. It is let through in a broken transaction too.
func (s *guardStmt) Close() error {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if s.g.left {
		return nil
	}
	err := s.raw.Close()
	s.g.note(err)
	return err
}

// NumInput implements [driver.Stmt].
func (s *guardStmt) NumInput() int { return s.raw.NumInput() }

// Exec implements [driver.Stmt].
func (s *guardStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements [driver.Stmt].
func (s *guardStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

// ExecContext implements [driver.StmtExecContext].
func (s *guardStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	err = s.g.do(func() error {
		looked, err := s.g.look(ctx, s.text)
		if err != nil {
			return err
		}
		if e, ok := s.raw.(driver.StmtExecContext); ok {
			ctx, end := s.g.kill.watch(ctx)
			result, err = e.ExecContext(ctx, args)
			return looked(end(err))
		}
		values, err := unnamed(ctx, args)
		if err == nil {
			result, err = s.raw.Exec(values) //nolint:staticcheck // older drivers have nothing else
		}
		return looked(err)
	})
	return result, err
}

// QueryContext implements [driver.StmtQueryContext].
func (s *guardStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.g.do(func() error {
		looked, err := s.g.look(ctx, s.text)
		if err != nil {
			return err
		}
		ctx, end := s.g.kill.watch(ctx)
		var raw driver.Rows
		if q, ok := s.raw.(driver.StmtQueryContext); ok {
			raw, err = q.QueryContext(ctx, args)
		} else {
			var values []driver.Value
			if values, err = unnamed(ctx, args); err == nil {
				raw, err = s.raw.Query(values) //nolint:staticcheck // older drivers have nothing else
			}
		}
		if err != nil {
			return looked(end(err))
		}
		rows = &guardRows{raw: raw, g: s.g, end: end, looked: looked}
		return nil
	})
	return rows, err
}

// CheckNamedValue implements [driver.NamedValueChecker]: the statement's, or
// else the connection's, as database/sql would ask them.
func (s *guardStmt) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := s.raw.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	return s.g.CheckNamedValue(v)
}

// ColumnConverter implements [driver.ColumnConverter].
func (s *guardStmt) ColumnConverter(i int) driver.ValueConverter {
	if c, ok := s.raw.(driver.ColumnConverter); ok { //nolint:staticcheck // older drivers have nothing else
		return c.ColumnConverter(i)
	}
	return driver.DefaultParameterConverter
}

func named(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}

func unnamed(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("fence: the driver has no named parameters")
		}
		values[i] = a.Value
	}
	return values, ctx.Err()
}
