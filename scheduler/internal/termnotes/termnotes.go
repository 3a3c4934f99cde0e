// Package termnotes writes down the terms of a replica.
package termnotes

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
)

const (
	// noteLast is how long the end of a term may take to be written down when Run ends.
	noteLast = 2 * time.Second
	// noteMost is how long it is tried for while Run goes on: by then the next term has
	// written something of it.
	noteMost = 10 * time.Minute
)

// Notes write down the terms of this replica, for people ([jobs.Group.Terms]), beside
// everything else: nothing waits for them but the end of Run, for a moment.
type Notes struct {
	db      store.Archive // nil where the store has none
	log     *zap.Logger
	timeout time.Duration // of a statement
	over    chan struct{} // closed when Run ends
	wait    sync.WaitGroup

	writing context.Context // of all statements; ends noteLast after over was closed
	stop    context.CancelFunc
}

// New returns notes in db, nil for none, each of whose statements ends after timeout.
func New(db store.Archive, log *zap.Logger, timeout time.Duration) *Notes {
	n := &Notes{db: db, log: log, timeout: timeout, over: make(chan struct{})}
	n.writing, n.stop = context.WithCancel(context.Background())
	return n
}

// ended is when a term ended, and why.
type ended struct {
	at  time.Time
	why error
}

// Begin notes that a term has begun. The caller calls end when nothing of it runs any more,
// with the reason why it ended.
func (n *Notes) Begin(ctx context.Context, h store.Holder) (end func(why error)) {
	if n.db == nil {
		return func(error) {}
	}
	held, began := keeper.HeldOf(ctx), time.Now()
	note := store.TermNote{Holder: h, Early: held.PreviousStands() > 0, Before: held.Previous().RenewedAt}
	ends := make(chan ended, 1)
	n.wait.Go(func() {
		wait := retry.Forever(time.Second, time.Minute)
		var at time.Time // of the end
		for {
			note.Began = time.Since(began)
			if note.Over {
				note.Ended = time.Since(at)
			}
			err := n.write(note)
			if err == nil && note.Over {
				return
			}
			if note.Over && (n.isOver() || time.Since(at) > noteMost) {
				n.log.Debug("the end of a term is not written down", zap.Uint64("token", h.Token), zap.Error(err))
				return
			}
			var again <-chan time.Time // not once it is told
			timer := time.NewTimer(wait.NextBackOff())
			if err != nil {
				again = timer.C
			}
			over := n.over
			if !note.Over {
				over = nil // the term ends soon
			}
			select {
			case <-again:
			case <-over:
			case <-n.writing.Done(): // the term goes on after Run
				timer.Stop()
				return
			case end := <-ends:
				at, note.Over = end.at, true
				if end.why != nil {
					note.Why = end.why.Error()
				}
				wait.Reset()
			}
			timer.Stop()
		}
	})
	return func(why error) {
		// A run that ignores its context goes on after the lease was lost, and so does a
		// process that stood still: by then another replica leads.
		ends <- ended{time.Now().Add(-held.OverFor()), why}
	}
}

func (n *Notes) write(note store.TermNote) error {
	ctx, cancel := context.WithTimeout(n.writing, n.timeout)
	defer cancel()
	return n.db.NoteTerm(ctx, note)
}

func (n *Notes) isOver() bool {
	select {
	case <-n.over:
		return true
	default:
		return false
	}
}

// Finish waits for the last notes, for a moment at most. A term that has not ended by then tells nothing of its end.
func (n *Notes) Finish() {
	close(n.over)
	defer time.AfterFunc(noteLast, n.stop).Stop()
	n.wait.Wait()
	n.stop()
}
