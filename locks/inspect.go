package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/store"
)

// Info is a lock as one look at the database showed it.
type Info struct {
	Name string
	// Holders are one writer, or any number of readers. It is empty for a free
	// lock.
	Holders []Place
	// Waiting are the waiters, the next one first.
	Waiting []Place
	// Now is the database's clock at the look.
	Now time.Time
	// Err says why the lock's row cannot be read, and how to mend it; nil: it can. Only
	// [List] returns such a lock, without holders and waiters: nobody can take it before the row
	// is repaired or deleted.
	Err error
}

// Place is that of one holder or waiter of a lock. Its instants are of the
// database's clock, as the place's process knew it.
type Place struct {
	// Owner is "label/host/pid/random"; Started is when that program was
	// started, by its own clock.
	Owner   string
	Started time.Time
	// Label is what the caller said with the option of that name.
	Label string
	Read  bool
	// Token is the fencing token, 0 while waiting.
	Token uint64
	// Since is when the place was taken, and Held when the lock was granted to
	// it; zero while waiting.
	Since, Held time.Time
	// Until is when the place expires unless its process renews it, or when its
	// LockFor limit ends, if that is sooner. If Until is before [Info.Now], the
	// process has stopped renewing, as after a crash: its places are removed once
	// a waiter has watched it for its TTL. Zero means that its session is over.
	Until time.Time
}

// Inspect lists the holders and waiters of the lock of that name. It only reads.
func (c *Client) Inspect(ctx context.Context, name string) (Info, error) {
	if err := errors.Join(c.check(), store.CheckName("lock", name)); err != nil {
		return Info{}, err
	}
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	found, err := inspect(ctx, c.store, name)
	if err != nil {
		return Info{}, fmt.Errorf("locks: inspect %q: %w", name, err)
	}
	if err := found[0].Err; err != nil {
		return Info{}, fmt.Errorf("locks: inspect %q: %w", name, err)
	}
	return found[0], nil
}

// List lists the locks that have holders or waiters: at most limit of them, the first that
// follow the name after, in the order of their bytes. It only reads, and needs no
// client. A lock that is freed at that moment may be among them, without holders and waiters. One
// whose row cannot be read is among them with [Info.Err].
func List(ctx context.Context, s store.Locks, after string, limit int) ([]Info, error) {
	if s == nil {
		return nil, errors.New("locks: list: store is nil")
	}
	// Rows that were written lately count, too.
	names, err := s.HeldLocks(ctx, -time.Hour, after, limit)
	if err == nil && len(names) > 0 {
		var found []Info
		if found, err = inspect(ctx, s, names...); err == nil {
			return found, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("locks: list: %w", ctxerr.With(ctx, err))
	}
	return nil, nil
}

// inspect reads some locks, in the order of their names: one reading of the rows, and one of the
// sessions that they name.
func inspect(ctx context.Context, s store.Locks, names ...string) ([]Info, error) {
	reading, err := s.ReadLocks(ctx, names...)
	if err != nil {
		return nil, ctxerr.With(ctx, err)
	}
	queues, broken := make([]queue, len(names)), make([]error, len(names))
	at := map[string]int{} // of a session's group, in groups
	var groups []string
	for i, name := range names {
		if queues[i], err = decode(name, reading.Rows[i].Queue); err != nil {
			queues[i], broken[i] = queue{}, err
		}
		for _, p := range queues[i].Processes {
			if _, ok := at[p.Group]; !ok {
				at[p.Group] = len(groups)
				groups = append(groups, p.Group)
			}
		}
	}
	var sessions []store.Reading
	if len(groups) > 0 {
		if sessions, err = s.Read(ctx, groups...); err != nil {
			return nil, ctxerr.With(ctx, err)
		}
	}
	found := make([]Info, len(names))
	for i, q := range queues {
		info := Info{Name: names[i], Now: reading.Now, Err: broken[i]}
		for _, p := range q.Places {
			of := q.Processes[p.Process]
			shown := Place{
				Owner: of.Owner, Started: time.Unix(of.Started, 0).UTC(), Label: p.Label, Read: p.Read, Token: p.Granted,
				Since: micros(p.Since), Held: p.given(), Until: until(of, p, sessions[at[of.Group]].Lease),
			}
			if p.Granted > 0 {
				info.Holders = append(info.Holders, shown)
			} else {
				info.Waiting = append(info.Waiting, shown)
			}
		}
		found[i] = info
	}
	return found, nil
}

func micros(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}

// given is when the lock was granted to the place; zero while it waits.
func (p place) given() time.Time {
	if p.Granted == 0 {
		return time.Time{}
	}
	return micros(max(p.Since, p.Got))
}

// until is when a place ends, by what its session's lease says.
func until(of process, p place, row *store.Lease) time.Time {
	if row == nil || row.Token != of.Token || row.Released {
		return time.Time{}
	}
	end := row.RenewedAt.Add(row.TTL)
	if limit := p.given().Add(p.For); p.Granted > 0 && p.For > 0 && limit.Before(end) {
		return limit
	}
	return end
}
