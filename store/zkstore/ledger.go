package zkstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Jobs = (*Store)(nil)

// ledger is what a store knows of a group's ledger: how it was when it last looked. A transaction that compares the group's node tells
// whether it still is.
type ledger struct {
	turn chan struct{} // full while a call has the ledger

	current bool   // may be as it is; else it has to be read again
	server  string // that has shown it
	node    node
	fence   node
	terms   []string // the nodes below the fence
	asked   node
	head    head
	parts   map[part]*content
	group   memdb.Group
	refs    map[uint64]refs
	stale   []any // deletes of the parts that this client has replaced last
}

// keepStale is how many replaced parts a leader leaves for those who have just read that they count, and have yet to read them.
const keepStale = 32

// ledgers are those of a store.
type ledgers struct {
	mu      sync.Mutex
	byGroup map[string]*ledger
}

func (l *ledgers) of(group string) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byGroup == nil {
		l.byGroup = map[string]*ledger{}
	}
	known := l.byGroup[group]
	if known == nil {
		known = &ledger{turn: make(chan struct{}, 1), parts: map[part]*content{}}
		l.byGroup[group] = known
	}
	return known
}

// isAnswer reports whether an error of a ledger is one of its answers.
func isAnswer(err error) bool {
	return errors.Is(err, store.ErrReplaced) || errors.Is(err, store.ErrOtherServer) || errors.Is(err, store.ErrChanged) || ledgerrows.Refuses(err)
}

// scope is what a call to a ledger is about.
type scope struct {
	doing string
	group string
	lease *store.Lease // that the database in memory has
	// jobs are those that the call is about; nil: all, and the archive too.
	jobs map[string]bool
	// attempts are the runs whose attempts are needed.
	attempts []jobs.Key
	// reads: it changes nothing.
	reads bool
	// often: a leader does so all the time.
	often bool
}

// about is a call about one group.
func about(doing, group string) scope { return scope{doing: doing, group: group} }

// reading is about, for a call that changes nothing.
func reading(doing, group string) scope { return scope{doing: doing, group: group, reads: true} }

// with adds the jobs of a run and of those that follow it.
func (of *scope) with(job string, then []store.Follower) {
	if of.jobs == nil {
		of.jobs = map[string]bool{}
	}
	of.jobs[job] = true
	for _, f := range then {
		of.jobs[f.Job] = true
	}
}

// some is what a ledger has of some jobs.
func (l *ledger) some(names map[string]bool) memdb.Group {
	if names == nil {
		return l.group
	}
	g := memdb.Group{
		Changes: l.group.Changes, Paused: l.group.Paused, Opened: l.group.Opened, Audits: l.group.Audits,
		Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{}, Runs: map[string][]memdb.Run{},
	}
	for name := range names {
		if pauses, ok := l.group.Pauses[name]; ok {
			g.Pauses[name] = pauses // which are in a job's row
		}
		if known, ok := l.group.Jobs[name]; ok {
			g.Jobs[name] = known
		}
		if runs, ok := l.group.Runs[name]; ok {
			g.Runs[name] = runs
		}
	}
	return g
}

// on carries out a call on a group's ledger: on a database in memory that is as the ledger is at one instant. What that has changed is written by
// one transaction, if the ledger and the fence are still as they were.
func on[T any](ctx context.Context, s *Store, of scope, f func(db *memdb.Store) (T, error)) (result T, err error) {
	if err := store.CheckName("group", of.group); err != nil {
		return result, err
	}
	l := s.ledgers.of(of.group)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return result, failed(of.doing, ctx.Err())
	}
	var answer error
	conflicts := 0
	err = repeat(func() error {
		if conflicts++; conflicts > 1 && !of.reads || conflicts > patient+1 {
			// Others are at it. A call that waits a while lets them come first.
			select {
			case <-time.After(rand.N(time.Duration(min(5*conflicts, 50)) * time.Millisecond)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		st, err := s.present(ctx, of, l, conflicts)
		if err != nil {
			return err
		}
		if err := s.loadAttempts(ctx, of.group, l, of.attempts); err != nil {
			return err
		}
		was := l.some(of.jobs)
		g := was
		g.Lease = of.lease
		if g.Fence, err = fenceOf(l.fence); err != nil {
			return err
		}
		db := memdb.Of(of.group, g, st.now, st.server)
		result, answer = f(db)
		if answer != nil && !isAnswer(answer) {
			return answer
		}
		if of.reads {
			return nil
		}
		return s.commit(ctx, of, l, st.now, differenceOf(l.head, l.parts, was, db.Group(of.group)))
	})
	if err != nil {
		var none T
		return none, failed(of.doing, err)
	}
	return result, answer
}

// patient is how often a call that only reads tries to prove what it has read, while others write.
const patient = 2

// present brings what is known of a ledger up to date, and returns an instant at which it is. Where others write so often that a call which only
// reads cannot prove that in time, as over a slow network, the ledger is one of an instant between the one that it returns and now.
func (s *Store) present(ctx context.Context, of scope, l *ledger, try int) (stamp, error) {
	if !of.reads {
		return s.proven(ctx, of.group, l)
	}
	if try <= patient {
		return s.prove(ctx, of.group, l)
	}
	st, err := s.tick(ctx)
	if err != nil {
		return stamp{}, err
	}
	if l.server != st.server {
		l.server, l.parts = st.server, map[part]*content{}
	}
	return st, s.load(ctx, of.group, l)
}

// proven brings what is known of a ledger up to date, and returns an instant at which it is.
func (s *Store) proven(ctx context.Context, group string, l *ledger) (st stamp, err error) {
	err = repeat(func() error {
		st, err = s.prove(ctx, group, l)
		return err
	})
	return st, err
}

// prove is proven, once: errConflict says that what is known, or was just read, is old.
func (s *Store) prove(ctx context.Context, group string, l *ledger) (stamp, error) {
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

type nothing = struct{}

// doing makes an action a call with a result.
func doing(f func(db *memdb.Store) error) func(db *memdb.Store) (nothing, error) {
	return func(db *memdb.Store) (nothing, error) { return nothing{}, f(db) }
}

// Declare implements [store.Ledger].
func (s *Store) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	_, err := on(ctx, s, about("declare jobs", h.Group), doing(func(db *memdb.Store) error { return db.Declare(ctx, h, declared) }))
	return err
}

// Load implements [store.Ledger].
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return on(ctx, s, reading("load the ledger", group), func(db *memdb.Store) (jobs.Snapshot, error) { return db.Load(ctx, group) })
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
	if err != nil || len(n.data) == 0 {
		return 0, err
	}
	return strconv.ParseUint(string(n.data), 10, 64)
}

// Claim implements [store.Ledger].
func (s *Store) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	for _, c := range claims {
		if err := ledgerrows.CheckClaim("zkstore", c); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 {
		return nil, ctx.Err()
	}
	of := about("claim", h.Group)
	of.often = true
	for _, c := range claims {
		of.with(c.Job, c.Then)
	}
	return on(ctx, s, of, func(db *memdb.Store) ([]store.Claimed, error) { return db.Claim(ctx, h, id, claims) })
}

// Move implements [store.Ledger].
func (s *Store) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	of := about("move runs", h.Group)
	of.often = true
	for _, m := range moves {
		if err := ledgerrows.CheckMove("zkstore", m); err != nil {
			return nil, err
		}
		of.with(m.Job, m.Then)
		of.attempts = append(of.attempts, m.Key)
	}
	if len(moves) == 0 {
		return nil, ctx.Err()
	}
	return on(ctx, s, of, func(db *memdb.Store) ([]bool, error) { return db.Move(ctx, h, moves) })
}

// PassOver implements [store.Ledger].
func (s *Store) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	of := about("pass over runs", h.Group)
	of.with(job, nil)
	return on(ctx, s, of, func(db *memdb.Store) (int, error) { return db.PassOver(ctx, h, job, after) })
}

// Prune implements [store.Ledger].
func (s *Store) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	of := about("prune runs", group)
	of.with(job, nil)
	return on(ctx, s, of, func(db *memdb.Store) (int, error) { return db.Prune(ctx, group, job, history, batch) })
}
