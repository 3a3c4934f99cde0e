package locks

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/store"
)

// notifier wakes the processes whose waiters were granted a lock, by the store's
// notifier.
type notifier struct {
	*background
	log            *zap.Logger
	store.Notifier               // nil when the store has none
	calls          chan struct{} // capacity 1: some process has to be notified

	mu        *sync.Mutex     // the client's; guards what follows
	address   string          // where this process is notified
	pending   map[string]bool // addresses that are to be notified
	watched   map[string]bool // the locks that the present Wait watches; nil when there is none
	repeating bool            // see notifySelf
}

func newNotifier(b *background, log *zap.Logger, mu *sync.Mutex) *notifier {
	return &notifier{background: b, log: log, mu: mu, calls: make(chan struct{}, 1), pending: map[string]bool{}}
}

// add has an address notified. It is called with mu held.
func (w *notifier) add(address string) {
	w.pending[address] = true
	poke(w.calls)
}

// deliver notifies the addresses that are pending.
func (w *notifier) deliver() {
	for last := false; !last; {
		last = w.running.Err() != nil // one more round, for those that the last unlock granted
		w.mu.Lock()
		var addresses []string
		for address := range w.pending {
			addresses = append(addresses, address)
		}
		clear(w.pending)
		w.mu.Unlock()
		if len(addresses) == 0 || w.Notifier == nil {
			w.pause(w.calls, time.Hour)
			continue
		}
		ctx, cancel := w.attempt(context.WithoutCancel(w.running))
		if err := w.Notify(ctx, addresses...); err != nil && w.running.Err() == nil {
			w.log.Debug("a waiter could not be woken", zap.Error(err)) // it polls anyway
		}
		cancel()
	}
}

func (w *notifier) setWatched(watched map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = watched
}

// notifySelf notifies this process for as long as it waits for a lock that the
// present Wait does not watch: a Wait that was sent before a place was taken may not
// yet have begun when the notification for that place comes. It is called with mu
// held.
func (w *notifier) notifySelf(rs *rows) {
	if w.repeating || !w.misses(rs) {
		return
	}
	w.repeating = true
	w.group.Go(func() {
		for {
			w.mu.Lock()
			w.repeating = w.running.Err() == nil && w.misses(rs)
			if !w.repeating {
				w.mu.Unlock()
				return
			}
			w.add(w.address)
			w.mu.Unlock()
			w.pause(nil, notifyEvery)
		}
	})
}

// misses reports whether this process waits for a lock that the present Wait
// does not watch. It is called with mu held.
func (w *notifier) misses(rs *rows) bool {
	if w.watched == nil || w.address == "" {
		return false
	}
	for n := range rs.requests.locks() {
		if !w.watched[n.text] && n.waits() != nil {
			return true
		}
	}
	return false
}
