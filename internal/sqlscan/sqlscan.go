// Package sqlscan scans columns that can hold more than Go's types do. Other
// programs write rows too, and one value that does not fit must not keep a whole
// group from being read.
//
// A pointer to a variable is converted: (*sqlscan.Bool)(&paused).
package sqlscan

import (
	"database/sql"
	"math"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
)

// Bool scans a number: every one but 0 is true.
type Bool bool

// Scan implements [sql.Scanner].
func (b *Bool) Scan(value any) error {
	var n sql.Null[int64]
	err := n.Scan(value)
	*b = n.V != 0
	return err
}

// Count scans a number of things. A negative one is 0, and what an int32 does not
// hold, which is far above all that is counted, is its largest number: so it can
// be added to.
type Count int

// Scan implements [sql.Scanner].
func (c *Count) Scan(value any) error {
	var n Uint
	err := n.Scan(value)
	*c = Count(min(n, math.MaxInt32))
	return err
}

// Details scans the details of a run: text as [ledgerrows.ParseDetails] reads it, or NULL.
type Details jobs.Details

// Scan implements [sql.Scanner].
func (d *Details) Scan(value any) error {
	var text sql.Null[string]
	err := text.Scan(value)
	*d = Details(ledgerrows.ParseDetails(text.V))
	return err
}

// Uint scans a number. A negative one is 0.
type Uint uint64

// Scan implements [sql.Scanner].
func (u *Uint) Scan(value any) error {
	if n, ok := value.(int64); ok {
		*u = Uint(max(0, n))
		return nil
	}
	var n sql.Null[uint64]
	err := n.Scan(value)
	*u = Uint(n.V)
	return err
}
