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
	_, err = s.g.run(ctx, s.text, func(ctx context.Context) (driver.Rows, error) {
		if e, ok := s.raw.(driver.StmtExecContext); ok {
			result, err = e.ExecContext(ctx, args)
			return nil, err
		}
		values, err := unnamed(ctx, args)
		if err == nil {
			result, err = s.raw.Exec(values) //nolint:staticcheck // older drivers have nothing else
		}
		return nil, err
	})
	return result, err
}

// QueryContext implements [driver.StmtQueryContext].
func (s *guardStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.g.run(ctx, s.text, func(ctx context.Context) (driver.Rows, error) {
		if q, ok := s.raw.(driver.StmtQueryContext); ok {
			return q.QueryContext(ctx, args)
		}
		values, err := unnamed(ctx, args)
		if err != nil {
			return nil, err
		}
		return s.raw.Query(values) //nolint:staticcheck // older drivers have nothing else
	})
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
