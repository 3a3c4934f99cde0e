package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

var errAway = errors.New("the database is away")

// link is a replica's way to the database. Operations go by the names of the
// methods.
type link struct {
	faulty.Leases
	faulty.Ledger
	rest

	mu     sync.Mutex
	wrong  time.Duration  // by which the wall clock of the replica's machine is
	cut    bool           // no statement gets through any more
	away   time.Time      // none does until then
	fail   map[string]int // so many fail without effect
	lose   map[string]int // the replies of so many are lost
	denied bool           // the replica may not tell of itself
	full   bool           // of the statements to the ledger, two in three are refused, for now

	hold  map[string]time.Duration // how long statements are under way
	delay map[string]time.Duration // and their replies

	// refused is a job whose rows fail the statements named here as a whole.
	refused    string
	refusedOps string
	refusedKey jobs.Key       // of a run: moves fail that have its row
	gone       jobs.Key       // of a run whose row is gone
	sent       map[string]int // statements, by operation

	stale []jobs.Snapshot // what the next Loads answer

	// nodes is of how many the database is: each Load is on the next one, and claims and moves are taken on all.
	nodes int

	// late takes a claim that then never gets an answer.
	late func(store.Holder, store.ClaimID, []store.Claim) bool

	// doomed is how many statements the replica still sends before it is killed in the middle
	// of one, which takes effect or not; zero: any number.
	doomed  int
	effect  bool
	onDeath func()

	noArgs bool // no run has a row with arguments
	liar   bool // request signals come for nothing
	locked bool // heartbeats that look at the ledger get no answer

	stubborn time.Duration // how long Changes takes, whatever its context says
	underWay int
}

// rest is what the scheduler and its jobs ask of the store and what never fails.
type rest struct{ *memdb.Store }

var _ store.Jobs = (*link)(nil)

func newLink(to *memdb.Store) *link {
	l := &link{
		rest: rest{to}, fail: map[string]int{}, lose: map[string]int{},
		hold: map[string]time.Duration{}, delay: map[string]time.Duration{}, sent: map[string]int{},
	}
	l.Leases = faulty.Leases{To: to, Send: l.send}
	l.Ledger = faulty.Ledger{To: refusing{to, l}, Send: l.send}
	return l
}

func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// send sends a statement.
func (l *link) send(ctx context.Context, op string, run func(context.Context) error) error {
	l.mu.Lock()
	f := faulty.Fault{Hold: l.hold[op], Reply: l.delay[op]}
	switch {
	case l.cut || time.Now().Before(l.away) || l.fail[op] > 0:
		f = faulty.Fault{Err: errAway}
	case l.denied && op == "Refresh":
		f = faulty.Fault{Err: fmt.Errorf("%w: no right", lease.ErrNotReady)}
	case l.full && (op == "Claim" || op == "Move") && l.sent[op]%3 != 0:
		f = faulty.Fault{Err: errFull}
	case l.lose[op] > 0:
		l.lose[op]--
		f = faulty.Fault{Hold: l.hold[op], Err: errAway, Applied: true}
	}
	if l.doomed > 0 && !l.cut {
		if l.doomed--; l.doomed == 0 {
			f, l.cut = faulty.Fault{Err: errAway, Applied: l.effect}, true
			go l.onDeath()
		}
	}
	if op == "Changes" {
		f.Before = func() { time.Sleep(l.stubborn) }
	}
	l.fail[op]--
	l.sent[op]++
	l.underWay++
	l.mu.Unlock()
	defer l.set(func(l *link) { l.underWay-- })
	if err := ctx.Err(); err != nil && f.Err == nil {
		return err
	}
	return f.Send(ctx, run)
}

// AskResign is a statement of the replica's, too.
func (l *link) AskResign(ctx context.Context, group string, token uint64) error {
	return l.send(ctx, "AskResign", func(ctx context.Context) error { return l.Leases.AskResign(ctx, group, token) })
}

// Pause is a statement of a replica that finds the ledger gone back.
func (l *link) Pause(ctx context.Context, group, job string) error {
	return l.send(ctx, "Pause", func(ctx context.Context) error { return l.Store.Pause(ctx, group, job) })
}

// Load is the ledger's, or a stale reading.
func (l *link) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	l.mu.Lock()
	if len(l.stale) > 0 {
		defer l.mu.Unlock()
		s := l.stale[0]
		l.stale = l.stale[1:]
		return s, nil
	}
	l.mu.Unlock()
	return l.Ledger.Load(ctx, group)
}

// LoadOf is the store's, where it does not fail.
func (l *link) LoadOf(ctx context.Context, group string, names []string) (s jobs.Snapshot, err error) {
	err = l.send(ctx, "LoadOf", func(ctx context.Context) error {
		s, err = l.rest.LoadOf(ctx, group, names)
		return err
	})
	return s, err
}

// Args is the ledger's.
func (l *link) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	l.mu.Lock()
	gone := l.noArgs
	l.mu.Unlock()
	if gone {
		return nil, jobs.ErrNoRun
	}
	return l.Ledger.Args(ctx, group, key)
}

// count is how many statements of a kind were sent.
// Newest counts the starts of pools.
func (l *link) Newest(ctx context.Context, group string, of jobs.Newest) (newest map[string][]jobs.Record, err error) {
	err = l.send(ctx, "Newest", func(ctx context.Context) error {
		newest, err = l.Store.Newest(ctx, group, of)
		return err
	})
	return newest, err
}

func (l *link) count(op string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[op]
}

// Claim is the ledger's, but for a claim that is late.
func (l *link) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	l.mu.Lock()
	late := l.late != nil && l.late(h, id, claims)
	l.mu.Unlock()
	if late {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.Ledger.Claim(ctx, h, id, claims)
}

var (
	errRefused = errors.New("the row is refused")
	errFull    = fmt.Errorf("%w: the server is full", lease.ErrNotReady)
)

// refusing is a ledger that refuses the rows of some jobs.
type refusing struct {
	*memdb.Store
	link *link
}

func (r refusing) refuses(op, job string) bool {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return strings.HasPrefix(job, r.link.refused) && r.link.refused != "" && r.link.refusedOps == op
}

// onAnyNode is the holder as a node of a cluster takes it.
func (r refusing) onAnyNode(h store.Holder) store.Holder {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.link.nodes > 0 {
		h.Server = ""
	}
	return h
}

func (r refusing) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	s, err := r.Store.Load(ctx, group)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.link.nodes > 0 {
		s.Cluster = "cluster"
		s.Server += fmt.Sprint(" node ", r.link.sent["Load"]%r.link.nodes)
	}
	return s, err
}

func (r refusing) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	for _, c := range claims {
		if r.refuses("Claim", c.Job) {
			return nil, errRefused
		}
	}
	return r.Store.Claim(ctx, r.onAnyNode(h), id, claims)
}

func (r refusing) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	r.link.mu.Lock()
	refused, gone := r.link.refusedKey, r.link.gone
	r.link.mu.Unlock()
	moves = slices.Clone(moves)
	for i, m := range moves {
		if r.refuses("Move", m.Job) || m.Key == refused {
			return nil, errRefused
		}
		if m.Key == gone {
			moves[i].Trigger++
		}
	}
	return r.Store.Move(ctx, r.onAnyNode(h), moves)
}
