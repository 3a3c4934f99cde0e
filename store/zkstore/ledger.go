package zkstore

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var _ store.Spreads = (*Store)(nil)

// mirror is what a store knows of a group's ledger: how it was when it last looked. A transaction that compares the group's node tells
// whether it still is.
type mirror struct {
	turn chan struct{} // full while a call has the ledger

	current bool   // may be as it is; else it has to be read again
	server  string // that has shown it
	node    node
	fence   node
	terms   []string // the nodes below the fence
	asked   node
	head    head
	parts   map[part]*content
	group   *ledger.Content
	refs    map[uint64]refs
	stale   []any // deletes of the parts that this client has replaced last
}

// keepStale is how many replaced parts a leader leaves for those who have just read that they count, and have yet to read them.
const keepStale = 32

// ledgers are those of a store.
type ledgers struct {
	mu      sync.Mutex
	byGroup map[string]*mirror
}

func (l *ledgers) of(group string) *mirror {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byGroup == nil {
		l.byGroup = map[string]*mirror{}
	}
	known := l.byGroup[group]
	if known == nil {
		known = &mirror{turn: make(chan struct{}, 1), parts: map[part]*content{}, group: ledger.NewContent()}
		l.byGroup[group] = known
	}
	return known
}

// rules are the methods that write to a ledger, and reads those that only read.
type (
	rules = ledger.Ledger
	reads = ledger.Reads
)

// ledgerRows are the rows of a store's ledgers.
type ledgerRows struct{ *Store }

// Do implements [ledger.Rows]: on the ledger as it is at one instant. What f has put is written by one transaction, if the ledger and the
// fence are still as they were.
func (s ledgerRows) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	return s.on(ctx, group, need.Doing, false, func(l *mirror, st stamp) error {
		of, terms := l.fence, l.terms
		if need.By.Session != "" {
			// A read after the transaction that has proven the rest is no older than the call.
			var err error
			if of, terms, err = s.readFence(ctx, need.By.Session); err != nil {
				return err
			}
		}
		fence, err := fenceOf(of)
		if err != nil {
			return err
		}
		tx := l.group.Page(need, st.now, st.server)
		tx.Fence = fence
		f(tx)
		var ended []jobs.Key
		for _, a := range tx.Attempts {
			ended = append(ended, a.Key)
		}
		if err := s.loadAttempts(ctx, group, l, ended); err != nil {
			return err
		}
		return s.commit(ctx, group, l, need.Held, tx, s.asFence(of, terms))
	})
}

// view shows a ledger: see [ledger.Viewer].
func (s *Store) view(ctx context.Context, group, doing string, attempts []jobs.Key, f func(*ledger.View) error) (answer error) {
	err := s.on(ctx, group, doing, true, func(l *mirror, st stamp) error {
		if err := s.loadAttempts(ctx, group, l, attempts); err != nil {
			return err
		}
		answer = f(&ledger.View{Content: l.group, Now: st.now, Server: st.server})
		return nil
	})
	return cmp.Or(err, answer)
}

// on calls f with a ledger as it is at one instant, and again if f says that it is not any more.
func (s *Store) on(ctx context.Context, group, doing string, reads bool, f func(*mirror, stamp) error) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	l := s.ledgers.of(group)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return failed(doing, ctx.Err())
	}
	conflicts := 0
	return failed(doing, repeat(func() error {
		if conflicts++; conflicts > 1 && !reads || conflicts > patient+1 {
			// Others are at it. A call that waits a while lets them come first.
			select {
			case <-time.After(rand.N(time.Duration(min(5*conflicts, 50)) * time.Millisecond)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		st, err := s.present(ctx, group, reads, l, conflicts)
		if err != nil {
			return err
		}
		return f(l, st)
	}))
}

// patient is how often a call that only reads tries to prove what it has read, while others write.
const patient = 2

// present brings what is known of a ledger up to date, and returns an instant at which it is. Where others write so
// often that a call which only reads cannot prove that in time, as over a slow network, the ledger is one of an instant
// between the one that it returns and now.
func (s *Store) present(ctx context.Context, group string, reads bool, l *mirror, try int) (stamp, error) {
	if !reads {
		return s.proven(ctx, group, l)
	}
	if try <= patient {
		return s.prove(ctx, group, l)
	}
	st, err := s.tick(ctx)
	if err != nil {
		return stamp{}, err
	}
	if l.server != st.server {
		l.server, l.parts = st.server, map[part]*content{}
	}
	return st, s.load(ctx, group, l)
}

// proven brings what is known of a ledger up to date, and returns an instant at which it is.
func (s *Store) proven(ctx context.Context, group string, l *mirror) (st stamp, err error) {
	err = repeat(func() error {
		st, err = s.prove(ctx, group, l)
		return err
	})
	return st, err
}

// prove is proven, once: errConflict says that what is known, or was just read, is old.
func (s *Store) prove(ctx context.Context, group string, l *mirror) (stamp, error) {
	if !l.current {
		if err := s.load(ctx, group, l); err != nil {
			return stamp{}, err
		}
	}
	st, _, err := s.settle(ctx, anyServer, append(s.as(l.node), s.asFence(l.fence, l.terms)...)...)
	if err == nil && (l.server == st.server || l.server == "") {
		l.server = st.server
		return st, nil
	}
	l.current = false
	if err == nil {
		// It may have lost what the server before had, and give the revisions of those parts to others.
		l.server, l.parts = st.server, map[part]*content{}
		err = errConflict
	}
	return stamp{}, err
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (store.Changes, error) {
	st, err := s.tick(ctx)
	if err != nil {
		return store.Changes{}, failed("look for requests", err)
	}
	number, err := s.changes(ctx, group)
	return store.Changes{Number: number, Now: st.now, Server: st.server}, failed("look for requests", err)
}

func (s *Store) changes(ctx context.Context, group string) (uint64, error) {
	n, err := s.get(ctx, s.path("asked", group))
	if err != nil {
		return 0, err
	}
	return changesOf(n)
}

func changesOf(n node) (uint64, error) {
	if len(n.data) == 0 {
		return 0, nil
	}
	return strconv.ParseUint(string(n.data), 10, 64)
}
