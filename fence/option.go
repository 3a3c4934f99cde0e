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
	close bool

	kill     bool
	killPool *sql.DB // nil: the transaction's
	killWait time.Duration
}

// An Option changes a default of [Do] and [Commit].
type Option func(*settings)

// WithBound sets how long a process that stands still between the check of its
// term and the end of its transaction can hold up a takeover: whole seconds from
// 1 s to 1 min, default 2 s. After it MySQL, MariaDB and PostgreSQL end its connection and roll
// the transaction back. SQLite has no such bound.
func WithBound(d time.Duration) Option { return func(s *settings) { s.bound = d } }

// WithTxOptions sets how [Do] begins its transaction. Default nil: the server's
// isolation level. [Commit], whose transaction has begun, does without it.
func WithTxOptions(o *sql.TxOptions) Option { return func(s *settings) { s.tx = o } }

// WithClose makes [Do] close the connection after the transaction instead of
// giving it back to the pool: for functions that change their session (SET, USE,
// temporary tables, user variables), which its next user would find changed.
func WithClose() Option { return func(s *settings) { s.close = true } }

// WithKill makes [Do] end a statement on the server when its context ends, and wait
// for that for up to wait, more than 0. Without it the connection is closed, and
// MySQL and MariaDB run the statement to its end all the same, with all that it
// has locked.
//
// The statement is ended by KILL QUERY over a connection of pool. Nil stands for
// the transaction's own pool; one of its own is better, because a pool with a
// limit may have no connection left when many transactions end at once. Both
// log in as the same user, which needs no privilege for this.
// If the context has a deadline, the session gets a limit as well that is a
// little longer (max_statement_time on MariaDB; max_execution_time on MySQL,
// which knows it for SELECT alone), for when this process dies.
//
// It costs a round trip for each transaction, and has no effect on SQLite and PostgreSQL, which
// end statements by themselves, and in [Commit].
func WithKill(pool *sql.DB, wait time.Duration) Option {
	return func(s *settings) { s.kill, s.killPool, s.killWait = true, pool, wait }
}
