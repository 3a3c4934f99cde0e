package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

var errAway = errors.New("the database is away")

// link is a replica's way to the database. Operations go by the names of the
// methods.
type link struct {
	*memstore.Store

	mu    sync.Mutex
	wrong time.Duration  // by which the wall clock of the replica's machine is
	cut   bool           // no statement gets through any more
	away  time.Time      // none does until then
	fail  map[string]int // so many fail without effect
	lose  map[string]int // the replies of so many are lost

	hold  map[string]time.Duration // how long statements are under way
	delay map[string]time.Duration // and their replies

	// refused is a job whose rows fail the statements named here as a whole.
	refused    string
	refusedOps string
	sent       map[string]int // statements, by operation

	// late takes a claim that then never gets an answer.
	late func(store.Holder, store.ClaimID, []store.Claim) bool

	stubborn time.Duration // how long Changes takes, whatever its context says
	underWay int
	loads    int
}

func newLink(store *memstore.Store) *link {
	return &link{Store: store, fail: map[string]int{}, lose: map[string]int{}, hold: map[string]time.Duration{}, delay: map[string]time.Duration{}, sent: map[string]int{}}
}

func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

var errRefused = errors.New("the row is refused")

func (l *link) refuses(op, job string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.HasPrefix(job, l.refused) && l.refused != "" && l.refusedOps == op
}

// call sends a statement.
func (l *link) call(ctx context.Context, op string, statement func() error) error {
	l.mu.Lock()
	failed := l.cut || time.Now().Before(l.away) || l.fail[op] > 0
	lost := !failed && l.lose[op] > 0
	l.fail[op]--
	l.sent[op]++
	if lost {
		l.lose[op]--
	}
	hold, delay := l.hold[op], l.delay[op]
	if op == "Load" {
		l.loads++
	}
	l.underWay++
	l.mu.Unlock()
	defer l.set(func(l *link) { l.underWay-- })
	if op == "Changes" {
		time.Sleep(l.stubborn)
	}
	if failed {
		return errAway
	}
	if err := wait(ctx, hold); err != nil {
		return err
	}
	err := statement()
	if lost {
		return errAway
	}
	if lateErr := wait(ctx, delay); lateErr != nil {
		return lateErr
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) Read(ctx context.Context, groups ...string) (result []store.Reading, err error) {
	err = l.call(ctx, "Read", func() error { result, err = l.Store.Read(ctx, groups...); return err })
	return result, err
}

func (l *link) Acquire(ctx context.Context, a store.Acquire) (result uint64, err error) {
	err = l.call(ctx, "Acquire", func() error { result, err = l.Store.Acquire(ctx, a); return err })
	return result, err
}

func (l *link) Renew(ctx context.Context, r store.Renew) (result int, err error) {
	err = l.call(ctx, "Renew", func() error { result, err = l.Store.Renew(ctx, r); return err })
	return result, err
}

func (l *link) Release(ctx context.Context, group, owner string, token uint64) error {
	return l.call(ctx, "Release", func() error { return l.Store.Release(ctx, group, owner, token) })
}

func (l *link) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	return l.call(ctx, "Declare", func() error { return l.Store.Declare(ctx, h, declared) })
}

func (l *link) Load(ctx context.Context, group string) (result jobs.Snapshot, err error) {
	err = l.call(ctx, "Load", func() error { result, err = l.Store.Load(ctx, group); return err })
	return result, err
}

func (l *link) Changes(ctx context.Context, group string) (result store.Changes, err error) {
	err = l.call(ctx, "Changes", func() error { result, err = l.Store.Changes(ctx, group); return err })
	return result, err
}

func (l *link) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) (result []store.Claimed, err error) {
	l.mu.Lock()
	late := l.late != nil && l.late(h, id, claims)
	l.mu.Unlock()
	if late {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	err = l.call(ctx, "Claim", func() error {
		for _, c := range claims {
			if l.refuses("Claim", c.Job) {
				return errRefused
			}
		}
		result, err = l.Store.Claim(ctx, h, id, claims)
		return err
	})
	return result, err
}

func (l *link) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (result int, err error) {
	err = l.call(ctx, "PassOver", func() error { result, err = l.Store.PassOver(ctx, h, job, after); return err })
	return result, err
}

func (l *link) Move(ctx context.Context, h store.Holder, moves []store.Move) (result []bool, err error) {
	err = l.call(ctx, "Move", func() error {
		for _, m := range moves {
			if l.refuses("Move", m.Job) {
				return errRefused
			}
		}
		result, err = l.Store.Move(ctx, h, moves)
		return err
	})
	return result, err
}

func (l *link) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (result int, err error) {
	err = l.call(ctx, "Prune", func() error { result, err = l.Store.Prune(ctx, group, job, history, batch); return err })
	return result, err
}
