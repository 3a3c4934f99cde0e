package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// pollEvery is how often those ways look that no server wakes.
const pollEvery = 100 * time.Millisecond

// The server's errors that this program knows.
const (
	duplicateEntry  = 1062
	unknownThread   = 1094
	lockWaitTimeout = 1205
	deadlock        = 1213
	unknownZone     = 1298
)

// errTaken means that another client holds the lock.
var errTaken = errors.New("mysqllocks: the lock is taken")

// Way is one way of having a lock in MySQL. It is safe for concurrent use.
type Way interface {
	// Name is what the table of results calls it.
	Name() string
	// Lock returns once it has the lock. When ctx ends first, the error
	// matches that of ctx, and what the last attempt saw.
	Lock(ctx context.Context, key string) (Held, error)
}

// Held is a lock that its holder believes to have.
type Held interface {
	// Context ends when the lock is known to be lost.
	Context() context.Context
	// Token is a number that grows from holder to holder, by which a write of
	// an older one can be refused. 0: this way has none.
	Token() uint64
	// Unlock gives the lock back.
	Unlock(ctx context.Context) error
}

// sharer is a way with read locks: its readers share the lock and exclude writers.
type sharer interface {
	RLock(ctx context.Context, key string) (Held, error)
}

// maintainer is a way that comes with a task which is run from time to time to
// free what was left behind.
type maintainer interface {
	// Maintain runs the task once, and returns how many locks it freed.
	Maintain(ctx context.Context) (int64, error)
}

// trier is a way that can try once instead of waiting.
type trier interface {
	// TryLock returns errTaken when another client holds the lock.
	TryLock(ctx context.Context, key string) (Held, error)
}

// closer is a way that has to be closed. Close releases what it holds.
type closer interface {
	Close(ctx context.Context) error
}

// kind is how to come by a way.
type kind struct {
	name string
	// prepare makes the tables in an empty schema.
	prepare func(ctx context.Context, db *sql.DB) error
	// open returns the way on these connections. The lease is how long a lock
	// lives, where locks end by themselves, in whole seconds.
	open func(db *sql.DB, lease time.Duration) (Way, error)
	// table has the rows that are the locks, if there is one.
	table string
	// session: the lock lives and dies with a connection.
	session bool
	// realTime: it refuses a session whose clock stands still.
	realTime bool
	// beside: it is tried with every scenario, and none may break it.
	beside bool
}

var kinds = []kind{insertDelete, insertIgnore, upsert, forUpdate, counter, getLock, getLockPooled, ours}

func kindOf(name string) (kind, error) {
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("mysqllocks: no way is named %q", name)
}

// create returns a prepare of these statements.
func create(statements ...string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		for _, s := range statements {
			if _, err := db.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
}

// hold takes the lock to work under it: shared, if the way can.
func hold(ctx context.Context, w Way, key string) (Held, error) {
	if s, ok := w.(sharer); ok {
		return s.RLock(ctx, key)
	}
	return w.Lock(ctx, key)
}

// poll tries until the lock is free.
func poll(ctx context.Context, try func() (Held, error)) (Held, error) {
	look := time.NewTimer(pollEvery)
	defer look.Stop()
	for {
		held, err := try()
		if !errors.Is(err, errTaken) {
			return held, err
		}
		select {
		case <-look.C:
			look.Reset(pollEvery)
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// told is a lock of a way that tells its holder nothing.
type told struct{ unlock func(context.Context) error }

func (told) Context() context.Context           { return context.Background() }
func (told) Token() uint64                      { return 0 }
func (t told) Unlock(ctx context.Context) error { return t.unlock(ctx) }

// one reports whether a statement changed one row.
func one(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// isError reports whether the server answered with that number.
func isError(err error, number uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == number
}

// newOwner returns a name that nobody else has.
func newOwner() string { return rand.Text() }

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
