package locks_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

// ensemble is a link to a database whose plain readings lag, up to what [store.Peeker]
// allows, and whose writes notify, as [store.Waker] has it.
type ensemble struct {
	*link
	notifier store.Notifier // of the database, for the writes

	mu     sync.Mutex
	rng    *rand.Rand
	server string
	shown  map[string]seen
}

// seen is a row as this process has seen it last, and until when a peek may show it.
type seen struct {
	row   store.LockRow
	until time.Time
}

var _ store.Peeker = (*ensemble)(nil)

func newEnsemble(l *link, seed uint64) *ensemble {
	return &ensemble{link: l, notifier: l.notifiers.Notifier(), rng: rand.New(rand.NewPCG(seed, 2)), shown: map[string]seen{}}
}

// saw notes what this process has seen of rows.
func (e *ensemble) saw(server string, rows ...store.LockRow) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if server != e.server {
		clear(e.shown)
		e.server = server
	}
	for _, row := range rows {
		e.see(row)
	}
}

// see is called with mu held.
func (e *ensemble) see(row store.LockRow) {
	e.shown[row.Name] = seen{row, time.Now().Add(time.Duration(e.rng.Int64N(int64(time.Second))))}
}

// ReadLocks implements [store.Locks].
func (e *ensemble) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	r, err := e.link.ReadLocks(ctx, names...)
	if err == nil {
		e.saw(r.Server, r.Rows...)
	}
	return r, err
}

// PeekLocks implements [store.Peeker].
func (e *ensemble) PeekLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	r, err := e.link.ReadLocks(ctx, names...)
	if err != nil {
		return r, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, name := range names {
		was, ok := e.shown[name]
		if ok && r.Server == e.server && time.Now().Before(was.until) {
			r.Rows[i] = was.row
			continue
		}
		e.see(r.Rows[i])
	}
	return r, nil
}

// WriteLocks implements [store.Locks].
func (e *ensemble) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	done, err := e.link.WriteLocks(ctx, server, writes)
	for i, w := range writes {
		switch {
		case err != nil:
		case done[i]:
			e.saw(server, store.LockRow{Name: w.Name, Version: w.Version, Queue: w.Queue})
			err = e.notifier.Notify(ctx, w.Wake...)
		default:
			e.mu.Lock()
			delete(e.shown, w.Name)
			e.mu.Unlock()
		}
	}
	return done, err
}

// Notifier implements [store.Notifiers].
func (e *ensemble) Notifier() store.Notifier { return ensembleNotifier{e.link.Notifier(), e} }

type ensembleNotifier struct {
	store.Notifier
	ensemble *ensemble
}

var _ store.Waker = ensembleNotifier{}

func (ensembleNotifier) WakesWithWrites() {}

func (n ensembleNotifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	err := n.Notifier.Wait(ctx, rows, limit)
	n.ensemble.mu.Lock()
	defer n.ensemble.mu.Unlock()
	clear(n.ensemble.shown)
	return err
}
