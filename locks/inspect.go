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
	reading, err := c.store.ReadLocks(ctx, name)
	if err != nil {
		return Info{}, fmt.Errorf("locks: inspect %q: %w", name, ctxerr.With(ctx, err))
	}
	q, err := decode(name, reading.Rows[0].Queue)
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: name, Now: reading.Now}
	if len(q.Processes) == 0 {
		return info, nil
	}
	groups := make([]string, len(q.Processes))
	for i, p := range q.Processes {
		groups[i] = p.Group
	}
	sessions, err := c.store.Read(ctx, groups...)
	if err != nil {
		return Info{}, fmt.Errorf("locks: inspect %q: %w", name, ctxerr.With(ctx, err))
	}
	for _, p := range q.Places {
		of := q.Processes[p.Process]
		shown := Place{
			Owner: of.Owner, Started: time.Unix(of.Started, 0).UTC(), Label: p.Label, Read: p.Read, Token: p.Granted,
			Since: micros(p.Since), Held: p.given(), Until: until(of, p, sessions[p.Process].Lease),
		}
		if p.Granted > 0 {
			info.Holders = append(info.Holders, shown)
		} else {
			info.Waiting = append(info.Waiting, shown)
		}
	}
	return info, nil
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
