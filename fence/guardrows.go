package fence

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// guardRows are the rows of a query: an error can come with any of them.
type guardRows struct {
	raw  driver.Rows
	g    *guard
	text string // of the query
	// Called once, in this order, when the query has ended; nil: there is nothing
	// to do.
	end, looked func(error) error
}

var (
	_ driver.RowsNextResultSet              = (*guardRows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*guardRows)(nil)
	_ driver.RowsColumnTypeLength           = (*guardRows)(nil)
	_ driver.RowsColumnTypeNullable         = (*guardRows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*guardRows)(nil)
	_ driver.RowsColumnTypeScanType         = (*guardRows)(nil)
)

// read runs f, also when the transaction is broken: rows that were sent may be
// read. Their end is no error of the transaction.
func (r *guardRows) read(f func() error) error {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if r.g.left {
		return errLeft
	}
	err := f()
	if !errors.Is(err, io.EOF) {
		r.g.doubt(context.Background(), r.text, err)
		r.g.note(err)
	}
	return err
}

// Columns implements [driver.Rows].
func (r *guardRows) Columns() []string { return r.raw.Columns() }

// Close implements [driver.Rows].
func (r *guardRows) Close() error {
	end, looked := r.end, r.looked
	if end == nil {
		return r.read(r.raw.Close)
	}
	r.end = nil
	ended := false
	err := r.read(func() error {
		ended = true
		return looked(end(r.raw.Close()))
	})
	if !ended { // the connection was given back before
		return end(err)
	}
	return err
}

// Next implements [driver.Rows].
func (r *guardRows) Next(to []driver.Value) error {
	return r.read(func() error { return r.raw.Next(to) })
}

// HasNextResultSet implements [driver.RowsNextResultSet].
func (r *guardRows) HasNextResultSet() bool {
	n, ok := r.raw.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

// NextResultSet implements [driver.RowsNextResultSet].
func (r *guardRows) NextResultSet() error {
	n, ok := r.raw.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	return r.read(n.NextResultSet)
}

// ColumnTypeDatabaseTypeName implements [driver.RowsColumnTypeDatabaseTypeName].
func (r *guardRows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.raw.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// ColumnTypeLength implements [driver.RowsColumnTypeLength].
func (r *guardRows) ColumnTypeLength(i int) (length int64, ok bool) {
	if t, has := r.raw.(driver.RowsColumnTypeLength); has {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

// ColumnTypeNullable implements [driver.RowsColumnTypeNullable].
func (r *guardRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, has := r.raw.(driver.RowsColumnTypeNullable); has {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

// ColumnTypePrecisionScale implements [driver.RowsColumnTypePrecisionScale].
func (r *guardRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, has := r.raw.(driver.RowsColumnTypePrecisionScale); has {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// ColumnTypeScanType implements [driver.RowsColumnTypeScanType].
func (r *guardRows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.raw.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}
