// Package memdb is the database in memory that memstore gives to users. Tests of this module change its rows, its clock
// and its server behind the replicas' backs.
package memdb

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var (
	_ store.Leases          = (*Store)(nil)
	_ store.HandoverSignals = (*Store)(nil)
	_ store.PresenceSignal  = (*signal)(nil)
)

// Store is a database in memory. It is safe for concurrent use. Replicas in one
// process share a Store.
type Store struct {
	rules
	reads

	mu      sync.Mutex
	leases  map[string]store.Lease
	fences  map[string]store.Fence
	groups  map[string]*ledger.Content // their ledgers
	signals map[string]chan struct{}   // of capacity 1; full while a signal has it
	present map[term]*signal
	locks   map[string]lockRow
	// lockFloor is the highest version of all lock rows that were pruned.
	lockFloor uint64
	offset    time.Duration // of the database's clock
	server    int

	notifiers map[string]*notifier // by address
	numbered  int                  // how many there ever were

	asked map[string]chan struct{} // by group; closed with the next request
	woken map[string]int           // how often, by group

	replicas map[string]map[string]jobs.Replica // by group and owner
}

// New returns an empty store.
func New() *Store {
	s := &Store{
		leases:  map[string]store.Lease{},
		fences:  map[string]store.Fence{},
		groups:  map[string]*ledger.Content{},
		signals: map[string]chan struct{}{},
		present: map[term]*signal{},
		locks:   map[string]lockRow{},

		notifiers: map[string]*notifier{},
		asked:     map[string]chan struct{}{},
		woken:     map[string]int{},
		replicas:  map[string]map[string]jobs.Replica{},
	}
	s.rules, s.reads = ledger.New("memstore", rows{s}), ledger.NewReads(s.view)
	return s
}

// StepClock steps the database's clock, as an operator or NTP may.
func (s *Store) StepClock(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += by
}

// Restart makes the store answer as another start of its server: the rows
// stay, the identity and the sessions are new.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server++
	clear(s.present)
}

// FailBack makes the server of before the last Restart answer again, which has not
// been restarted.
func (s *Store) FailBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server--
	clear(s.present)
}

// Update changes the rows of a group behind the replicas' backs, as an operator or
// a restored backup may. A row that change sets to nil is deleted.
func (s *Store) Update(group string, change func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reading(group, s.now())
	l, f := change(r.Lease, r.Fence)
	delete(s.leases, group)
	delete(s.fences, group)
	if l != nil {
		s.leases[group] = *l
	}
	if f != nil {
		s.fences[group] = *f
	}
}

// Rename gives a job of a group any other name behind the replicas' backs: others may write to a database.
func (s *Store) Rename(group, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(group)
	if known, ok := g.Jobs[from]; ok {
		g.Jobs[to] = known
		delete(g.Jobs, from)
	}
	for _, r := range g.Runs[from] {
		r.Job = to
		g.Runs[to] = append(g.Runs[to], r)
	}
	delete(g.Runs, from)
}

// Backup copies the rows of all groups, leases and ledgers, and returns a function
// that puts the copy back, as often as it is called: a restored backup, or a
// failover to a server that lacks the last writes. Locks are left as they are.
func (s *Store) Backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases, fences, groups := maps.Clone(s.leases), maps.Clone(s.fences), cloneGroups(s.groups)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leases, s.fences, s.groups = maps.Clone(leases), maps.Clone(fences), cloneGroups(groups)
	}
}

func (s *Store) now() time.Time {
	return time.Now().Add(s.offset).UTC().Round(time.Microsecond)
}

func (s *Store) reading(group string, now time.Time) store.Reading {
	r := store.Reading{Group: group, Now: now, Server: s.identity(), Session: uint64(s.server)}
	if l, ok := s.leases[group]; ok {
		r.Lease = &l
	}
	if f, ok := s.fences[group]; ok {
		r.Fence = &f
	}
	return r
}

// Read implements [store.Leases].
func (s *Store) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	readings, now := make([]store.Reading, len(groups)), s.now()
	for i, group := range groups {
		readings[i] = s.reading(group, now)
	}
	return readings, nil
}

// Prepare implements [store.Leases].
func (s *Store) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, hasLease := s.leases[group]
	f, hasFence := s.fences[group]
	if !hasLease {
		l = store.Lease{RenewedAt: s.now(), TTL: ttl, Released: true}
		if hasFence {
			l.Released = false
			l.Token = max(f.Token+1, uint64(s.now().UnixMicro()))
		}
		s.leases[group] = l
	}
	if !hasFence {
		s.fences[group] = store.Fence{Owner: l.Owner, Token: l.Token}
	}
	return nil
}

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return s.acquire(ctx, a, func(l store.Lease) bool { return l.Heartbeat == a.Read.Lease.Heartbeat })
}

func (s *Store) acquire(ctx context.Context, a store.Acquire, may func(store.Lease) bool) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := store.CheckName("owner", a.Owner); err != nil {
		return 0, err
	}
	if a.Read.Lease == nil || a.Read.Fence == nil {
		return 0, store.ErrChanged
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, hasLease := s.leases[a.Read.Group]
	f, hasFence := s.fences[a.Read.Group]
	if !hasLease || !hasFence || a.Read.Session != uint64(s.server) || l.Token != a.Read.Lease.Token ||
		!may(l) || f.Token != a.Read.Fence.Token {
		return 0, store.ErrChanged
	}
	token := max(l.Token+1, f.Token+1, a.Floor+1, uint64(s.now().UnixMicro()))
	s.fences[a.Read.Group] = store.Fence{Owner: a.Owner, Token: token}
	s.leases[a.Read.Group] = store.Lease{Owner: a.Owner, Token: token, Heartbeat: a.Heartbeat, RenewedAt: s.now(), TTL: a.TTL}
	return token, nil
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, r store.Renew) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renew(r), nil
}

// renew is called with mu held.
func (s *Store) renew(r store.Renew) int {
	renewed := 0
	for _, want := range r.Leases {
		l := s.leases[want.Group]
		if l.Released || l.Owner == "" || l.Owner != r.Owner || l.Token != want.Token || l.Heartbeat != want.Heartbeat || l.ResignAsked != want.ResignAsked {
			continue
		}
		l.Heartbeat, l.RenewedAt = r.Heartbeat, s.now()
		s.leases[want.Group] = l
		renewed++
	}
	return renewed
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[group]
	if owner == "" || l.Owner != owner || l.Token != token {
		return store.ErrChanged
	}
	l.Released = true
	s.leases[group] = l
	return nil
}

// AskResign implements [store.Leases].
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.leases[group]
	result := jobs.Done
	switch {
	case !ok || l.Released || l.Token != token:
		result = jobs.Refused
	case l.ResignAsked:
		result = jobs.Unchanged
	}
	tx := s.page(group, ledger.Need{})
	tx.NoteResign(ctx, token, result)
	s.group(group).Take(tx)
	if result == jobs.Refused {
		return store.ErrChanged
	}
	l.ResignAsked = true
	s.leases[group] = l
	s.ask(group)
	return nil
}
