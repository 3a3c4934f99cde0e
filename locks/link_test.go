package locks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/store"
)

// link is one process's way to a database.
type link struct {
	faulty.Line
	faulty.Leases
	faulty.Locks
	notifiers store.Notifiers
	t         *testing.T

	mu       sync.Mutex
	rows     []int // of each write
	waits    int   // that are under way
	mostEver int   // of waits
	// at is the bubble's time, and spun how many statements of a kind there were
	// since then: a client that never rests would keep time from passing.
	at   time.Time
	spun map[string]int
	told bool
}

var (
	_ store.Locks     = (*link)(nil)
	_ store.Notifiers = (*link)(nil)
)

func newLink(d *database) *link {
	l := &link{notifiers: d, t: d.t}
	l.Leases = faulty.Leases{To: d, Send: l.send}
	l.Locks = faulty.Locks{To: d, Send: l.send}
	return l
}

// tooMany is more statements of a kind than any client sends at one instant.
const tooMany = 5000

// spins counts a statement, and reports whether there are too many.
func (l *link) spins(op string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Equal(l.at) {
		l.at, l.spun = now, map[string]int{}
	}
	l.spun[op]++
	if l.spun[op] == tooMany && !l.told {
		l.told = true
		l.t.Errorf("%v: %d statements of the kind %q at one instant", l.at, tooMany, op)
	}
	return l.spun[op] >= tooMany
}

// send is that of the line, but lets time pass where the client does not.
func (l *link) send(ctx context.Context, op string, run func(context.Context) error) error {
	if ctx.Err() == nil && l.spins(op) {
		l.Once(op, faulty.Fault{Late: 100 * time.Millisecond})
	}
	return l.Line.Send(ctx, op, run)
}

// WriteLocks implements [store.Locks].
func (l *link) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	l.mu.Lock()
	l.rows = append(l.rows, len(writes))
	l.mu.Unlock()
	return l.Locks.WriteLocks(ctx, server, writes)
}

// Notifier is the database's, behind this link.
func (l *link) Notifier() store.Notifier {
	return linkNotifier{l, faulty.Notifier{To: l.notifiers.Notifier(), Send: l.send}}
}

type linkNotifier struct {
	link *link
	faulty.Notifier
}

func (n linkNotifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	n.link.mu.Lock()
	n.link.waits++
	n.link.mostEver = max(n.link.mostEver, n.link.waits)
	n.link.mu.Unlock()
	defer func() {
		n.link.mu.Lock()
		n.link.waits--
		n.link.mu.Unlock()
	}()
	return n.Notifier.Wait(ctx, rows, limit)
}
