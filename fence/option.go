package fence

import (
	"database/sql"
	"time"
)

const (
	defaultBound = 2 * time.Second
	maxBound     = time.Minute
)

// settings are what options change.
type settings struct {
	bound time.Duration
	tx    *sql.TxOptions
}

// An Option changes a default of [Do] and [Commit].
type Option func(*settings)

// WithBound sets how long a process that stands still between the check of its
// term and the end of its transaction can hold up a takeover: whole seconds from
// 1 s to 1 min, default 2 s. After it MySQL and MariaDB end its connection and roll
// the transaction back. SQLite has no such bound.
func WithBound(d time.Duration) Option { return func(s *settings) { s.bound = d } }

// WithTxOptions sets how [Do] begins its transaction. Default nil: the server's
// isolation level. [Commit], whose transaction has begun, does without it.
func WithTxOptions(o *sql.TxOptions) Option { return func(s *settings) { s.tx = o } }
