package leasetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// flaws are the ways in which a flawed store breaks the contract, one at a
// time. Each leaves out one condition or one effect of one statement.
var flaws = []string{
	"read: absent rows are empty rows",
	"read: sorted",
	"read: once per group",
	"read: an instant for each group",
	"read: groups one after the other",
	"read: no server",
	"read: local time",
	"read: whole seconds",
	"read: RenewedAt in whole seconds",
	"read: lease only beside a fence",
	"read: fence only beside a lease",
	"read: fails without groups",
	"read: server is the replica",
	"read: fails after a restart",
	"restart: server stays",
	"restart: session stays",
	"update: lease stays",
	"update: fence stays",
	"update: hides absence",

	"names: case",
	"names: trailing",
	"names: numbers",
	"names: truncated groups",
	"names: truncated owners",
	"names: any group",
	"names: any owner",
	"names: the empty owner is a name",

	"prepare: a new group is held",
	"prepare: a new group has a fence ahead",
	"prepare: a new group has a fence behind",
	"prepare: no instant",
	"prepare: other TTL",
	"prepare: TTL in milliseconds",
	"prepare: overwrites the TTL",
	"prepare: overwrites released rows",
	"prepare: overwrites held rows",
	"prepare: overwrites expired rows",
	"prepare: overwrites a resignation",
	"prepare: a deleted lease is released",
	"prepare: a deleted lease is asked to resign",
	"prepare: a deleted lease gets the owner of the fence",
	"prepare: a deleted lease gets the fence's token + 1",
	"prepare: a deleted lease gets the clock's token",
	"prepare: a deleted lease moves the fence",
	"prepare: a deleted fence is empty",
	"prepare: fence first",
	"prepare: other groups too",
	"prepare: ten at once fail",

	"acquire: ignores the lease token",
	"acquire: ignores an older lease token",
	"acquire: ignores a newer lease token",
	"acquire: ignores the heartbeat",
	"acquire: ignores an older heartbeat",
	"acquire: ignores a newer heartbeat",
	"acquire: ignores the fence token",
	"acquire: ignores an older fence token",
	"acquire: ignores a newer fence token",
	"acquire: ignores the session",
	"acquire: ignores that a row is absent",
	"acquire: compares expiry",
	"acquire: compares released",
	"acquire: token not above the lease's",
	"acquire: token not above the fence's",
	"acquire: token not above the floor",
	"acquire: token not from the clock",
	"acquire: token from the clock in milliseconds",
	"acquire: token is only the clock's",
	"acquire: returns another token",
	"acquire: leaves the fence",
	"acquire: leaves the fence's owner",
	"acquire: writes the fence later",
	"acquire: leaves the heartbeat",
	"acquire: leaves RenewedAt",
	"acquire: leaves the TTL",
	"acquire: TTL in seconds",
	"acquire: leaves released",
	"acquire: leaves the resignation",
	"acquire: takes all groups",
	"acquire: is not atomic",
	"acquire: answers that it is locked",

	"renew: ignores the owner",
	"renew: ignores the owner's case",
	"renew: ignores the owner's end",
	"renew: ignores the token",
	"renew: ignores an older token",
	"renew: ignores a newer token",
	"renew: ignores the heartbeat",
	"renew: ignores an older heartbeat",
	"renew: ignores a newer heartbeat",
	"renew: ignores released",
	"renew: ignores the resignation",
	"renew: clears the resignation",
	"renew: refuses all resignations",
	"renew: compares expiry",
	"renew: needs the fence",
	"renew: writes the fence",
	"renew: inserts",
	"renew: leaves the heartbeat",
	"renew: counts the heartbeat up",
	"renew: leaves RenewedAt",
	"renew: RenewedAt only grows",
	"renew: changes the TTL",
	"renew: all or none",
	"renew: counts all",
	"renew: the owner's other groups too",
	"renew: any token of the list",
	"renew: any heartbeat of the list",
	"renew: fails with none",
	"renew: at most a hundred",
	"renew: one after the other",
	"renew: waits for a locked row",
	"renew: fails beside a locked row",
	"renew: ignores that a row is locked",
	"renew: the empty owner holds what nobody does",

	"release: ignores the owner",
	"release: ignores the owner's case",
	"release: ignores the owner's end",
	"release: ignores an empty owner",
	"release: the empty owner holds what nobody does",
	"release: ignores the token",
	"release: ignores an older token",
	"release: ignores a newer token",
	"release: ignores that the row is absent",
	"release: does nothing",
	"release: clears the owner",
	"release: deletes",
	"release: only once",
	"release: compares expiry",
	"release: needs the fence",
	"release: the owner's other groups too",
	"release: renews",

	"resign: ignores the token",
	"resign: ignores an older token",
	"resign: ignores a newer token",
	"resign: ignores released",
	"resign: ignores that the row is absent",
	"resign: does nothing",
	"resign: counts the heartbeat up",
	"resign: only once",
	"resign: all groups",

	"context: read",
	"context: prepare",
	"context: acquire",
	"context: renew",
	"context: release",
	"context: resign",
	"context: ErrChanged",

	"clock: does not step",
	"store: not for two groups at once",

	"bell: never rings",
	"bell: rings all",
	"bell: Pass by anybody",
	"bell: Close does not pass",
	"bell: Close does not end Wait",
	"bell: Wait goes on after Close",
	"bell: a closed bell stays in line",
	"bell: Wait ignores the context",
	"bell: unusable after a context",
	"bell: one for all groups",
	"bell: one for groups that differ by case",
	"bell: one for groups that differ at the end",
	"bell: Pass fails before Wait",
	"bell: Wait blocks for its own holder",
	"bell: Wait passes it",
	"bell: a closed store keeps it",
	"bell: a lost connection keeps it",
	"bell: Wait does not ask whether it was lost",
}

// database is a store in memory with one of the flaws, or none.
type database struct {
	flaw string

	mu      sync.Mutex
	leases  map[string]store.Lease
	fences  map[string]store.Fence
	locked  map[string]chan struct{} // closed when the row is free
	bells   map[string]chan struct{}
	had     map[string]*bell // by whom
	offset  time.Duration
	server  int
	busy    int
	replica int
}

// replica is a store of the database.
type replica struct {
	*database
	number int
	bells  []*bell
}

// Close passes the bells of the store.
func (s *replica) Close() error {
	s.mu.Lock()
	bells := s.bells
	s.mu.Unlock()
	for _, b := range bells {
		if !s.has("bell: a closed store keeps it") {
			_ = b.Close()
		}
	}
	return nil
}

func newDatabase(flaw string) *database {
	return &database{
		flaw: flaw, leases: map[string]store.Lease{}, fences: map[string]store.Fence{}, locked: map[string]chan struct{}{},
		bells: map[string]chan struct{}{}, had: map[string]*bell{},
	}
}

func (d *database) quickHarness() Harness {
	h := d.harness()
	h.quick, h.Patience = true, time.Second
	return h
}

func (d *database) harness() Harness {
	return Harness{
		Open: func(testing.TB) store.Leases {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.replica++
			return &replica{database: d, number: d.replica}
		},
		Update: func(_ testing.TB, group string, change Change) { d.update(group, change) },
		StepClock: func(_ testing.TB, by time.Duration) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.has("clock: does not step") {
				d.offset += by
			}
		},
		LockLease: func(_ testing.TB, group string) func() { return d.lockLease(group) },
		LoseBell:  func(_ testing.TB, group string) { d.loseBell(group) },
		Restart: func(testing.TB) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.server++
		},
	}
}

func (d *database) lockLease(group string) (free func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	locked := make(chan struct{})
	d.locked[group] = locked
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locked, group)
		close(locked)
	})
}

func (d *database) loseBell(group string) {
	d.mu.Lock()
	b := d.had[group]
	d.mu.Unlock()
	if b == nil || d.has("bell: a lost connection keeps it") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has {
		b.leave()
		b.has = d.has("bell: Wait does not ask whether it was lost")
	}
}

func (d *database) has(flaw string) bool { return d.flaw == flaw }

// or is the condition, unless it is the flaw to leave it out.
func (d *database) or(flaw string, condition bool) bool { return condition || d.has(flaw) }

// same compares two numbers, unless the flaw is to ignore a difference.
func (d *database) same(got, want uint64, statement, what string) bool {
	switch {
	case d.has(statement + ": ignores the " + what):
		return true
	case want < got && d.has(statement+": ignores an older "+what):
		return true
	case want > got && d.has(statement+": ignores a newer "+what):
		return true
	}
	return got == want
}

func (d *database) key(name string) string {
	if len(name) > store.MaxName && d.has("names: truncated groups") {
		name = name[:store.MaxName]
	}
	if len(name) == store.MaxName && d.has("names: trailing") {
		name = name[:store.MaxName-1]
	}
	if d.has("names: case") {
		return strings.ToLower(name)
	}
	if d.has("names: trailing") {
		return strings.TrimRight(name, "-. ")
	}
	if d.has("names: numbers") {
		return strings.TrimSuffix(strings.TrimPrefix(name, "0"), ".0")
	}
	return name
}

func (d *database) owner(name string) string {
	if len(name) > store.MaxName && d.has("names: truncated owners") {
		name = name[:store.MaxName]
	}
	return name
}

// elsewhere lets others in, in the middle of what should be one statement.
func (d *database) elsewhere() {
	d.mu.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	<-time.After(50 * time.Microsecond)
	d.mu.Lock()
}

func (d *database) update(group string, change Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.key(group)
	var l *store.Lease
	var f *store.Fence
	if row, ok := d.leases[k]; ok {
		l = &row
	}
	if row, ok := d.fences[k]; ok {
		f = &row
	}
	if d.has("update: hides absence") && l == nil {
		l = &store.Lease{}
	}
	l, f = change(l, f)
	if !d.has("update: lease stays") {
		delete(d.leases, k)
	}
	if !d.has("update: fence stays") {
		delete(d.fences, k)
	}
	if l != nil {
		d.leases[k] = *l
	}
	if f != nil {
		d.fences[k] = *f
	}
}

func (d *database) now() time.Time {
	return time.Now().Add(d.offset).UTC().Truncate(time.Microsecond)
}

func (d *database) clockToken() uint64 { return uint64(d.now().UnixMicro()) }

func (d *database) session(number int) uint64 {
	server := d.server
	if d.has("restart: session stays") {
		server = 0
	}
	return uint64(number)<<16 + uint64(server)
}

func (d *database) ended(ctx context.Context, what string) error {
	if d.has("context: "+what) || ctx.Err() == nil {
		return nil
	}
	if d.has("context: ErrChanged") {
		return store.ErrChanged
	}
	return ctx.Err()
}

func (s *replica) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if err := s.ended(ctx, "read"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(groups) == 0 && s.has("read: fails without groups") {
		return nil, errors.New("syntax error near ')'")
	}
	if s.has("read: fails after a restart") && s.server > 0 {
		return nil, errors.New("connection refused")
	}
	now := s.now()
	var rs []store.Reading
	seen := map[string]bool{}
	for i, group := range groups {
		if s.has("read: groups one after the other") && i > 0 {
			s.elsewhere()
		}
		if s.has("read: an instant for each group") && i > 0 {
			now = now.Add(time.Microsecond)
		}
		if seen[group] && s.has("read: once per group") {
			continue
		}
		seen[group] = true
		rs = append(rs, s.reading(group, now))
	}
	if s.has("read: sorted") {
		for i := range rs {
			for j := range i {
				if rs[i].Group < rs[j].Group {
					rs[i], rs[j] = rs[j], rs[i]
				}
			}
		}
	}
	return rs, nil
}

func (s *replica) reading(group string, now time.Time) store.Reading {
	r := store.Reading{Group: group, Now: now, Server: fmt.Sprint("server", s.server), Session: s.session(s.number)}
	if s.has("restart: server stays") {
		r.Server = "server"
	}
	if s.has("read: server is the replica") {
		r.Server += fmt.Sprint("/", s.number)
	}
	if s.has("read: no server") {
		r.Server = ""
	}
	if s.has("read: local time") {
		r.Now = r.Now.In(time.FixedZone("CET", 3600))
	}
	if s.has("read: whole seconds") {
		r.Now = r.Now.Truncate(time.Second)
	}
	l, hasLease := s.leases[s.key(group)]
	f, hasFence := s.fences[s.key(group)]
	if s.has("read: RenewedAt in whole seconds") {
		l.RenewedAt = l.RenewedAt.Truncate(time.Second)
	}
	if s.has("read: absent rows are empty rows") || hasLease && (!s.has("read: lease only beside a fence") || hasFence) {
		r.Lease = &l
	}
	if s.has("read: absent rows are empty rows") || hasFence && (!s.has("read: fence only beside a lease") || hasLease) {
		r.Fence = &f
	}
	return r
}

func (s *replica) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := s.ended(ctx, "prepare"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has("prepare: ten at once fail") {
		s.busy++
		defer func() { s.busy-- }()
		if s.elsewhere(); s.busy > 1 {
			return errors.New("deadlock")
		}
	}
	if err := store.CheckName("group", group); err != nil && !s.has("names: any group") &&
		(!s.has("names: truncated groups") || len(group) <= store.MaxName) && (!s.has("names: the empty owner is a name") || group != "") {
		return err
	}
	k := s.key(group)
	l, hasLease := s.leases[k]
	f, hasFence := s.fences[k]
	if s.has("prepare: TTL in milliseconds") {
		ttl = ttl.Truncate(time.Millisecond)
	}
	if s.has("prepare: other TTL") {
		ttl = 15 * time.Second
	}
	if s.has("prepare: other groups too") {
		s.leases["indexing"] = store.Lease{}
	}
	switch {
	case !hasLease:
		l = store.Lease{RenewedAt: s.now(), TTL: ttl, Released: !hasFence}
		if s.has("prepare: no instant") {
			l.RenewedAt = time.UnixMicro(0)
		}
		if s.has("prepare: a new group is held") {
			l.Released = false
		}
		if hasFence {
			l.Token = max(f.Token+1, s.clockToken())
			if s.has("prepare: a deleted lease gets the fence's token + 1") {
				l.Token = f.Token + 1
			}
			if s.has("prepare: a deleted lease gets the clock's token") {
				l.Token = s.clockToken()
			}
			if s.has("prepare: a deleted lease gets the owner of the fence") {
				l.Owner = f.Owner
			}
			if s.has("prepare: a deleted lease moves the fence") {
				s.fences[k] = store.Fence{Token: l.Token}
			}
			l.Released = s.has("prepare: a deleted lease is released")
			l.ResignAsked = s.has("prepare: a deleted lease is asked to resign")
		}
		s.leases[k] = l
	case s.has("prepare: overwrites the TTL"),
		s.has("prepare: overwrites released rows") && l.Released && l.Owner != "",
		s.has("prepare: overwrites held rows") && !l.Released,
		s.has("prepare: overwrites expired rows") && s.now().Sub(l.RenewedAt) > l.TTL,
		s.has("prepare: overwrites a resignation") && l.ResignAsked:
		l.TTL, l.ResignAsked = ttl, false
		s.leases[k] = l
	}
	if !hasFence {
		f = store.Fence{Owner: l.Owner, Token: l.Token}
		if s.has("prepare: a deleted fence is empty") && hasLease {
			f = store.Fence{}
		}
		if s.has("prepare: a new group has a fence ahead") {
			f.Token++
		}
		if s.has("prepare: a new group has a fence behind") && !hasLease {
			l.Token++
			s.leases[k] = l
		}
		if s.has("prepare: fence first") && !hasLease {
			// Two statements: one that comes second finds a lone fence.
			delete(s.leases, k)
			s.fences[k] = f
			if s.elsewhere(); s.leases[k] == (store.Lease{}) {
				s.leases[k] = l
			}
			return nil
		}
		s.fences[k] = f
	}
	return nil
}

func (s *replica) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	if err := s.ended(ctx, "acquire"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has("acquire: answers that it is locked") {
		s.busy++
		defer func() { s.busy-- }()
		if s.elsewhere(); s.busy > 1 {
			return 0, errors.New("database is locked")
		}
	}
	if err := store.CheckName("owner", a.Owner); err != nil && !s.has("names: any owner") &&
		(!s.has("names: truncated owners") || len(a.Owner) <= store.MaxName) && (!s.has("names: the empty owner is a name") || a.Owner != "") {
		return 0, err
	}
	k := s.key(a.Read.Group)
	l, hasLease := s.leases[k]
	f, hasFence := s.fences[k]
	if !s.has("acquire: ignores that a row is absent") {
		if a.Read.Lease == nil || a.Read.Fence == nil || !hasLease || !hasFence {
			return 0, store.ErrChanged
		}
	} else if a.Read.Lease == nil || a.Read.Fence == nil {
		a.Read.Lease, a.Read.Fence = &l, &f
	}
	if !s.same(l.Token, a.Read.Lease.Token, "acquire", "lease token") ||
		!s.same(l.Heartbeat, a.Read.Lease.Heartbeat, "acquire", "heartbeat") ||
		!s.same(f.Token, a.Read.Fence.Token, "acquire", "fence token") ||
		!s.or("acquire: ignores the session", a.Read.Session == s.session(s.number)) ||
		s.has("acquire: compares expiry") && !l.Released && s.now().Sub(l.RenewedAt) < l.TTL ||
		s.has("acquire: compares released") && l.Owner != "" && !l.Released {
		return 0, store.ErrChanged
	}
	if s.has("acquire: is not atomic") {
		s.elsewhere()
	}
	above := func(what string, n uint64) uint64 {
		if s.has("acquire: token not above the "+what) || s.has("acquire: token is only the clock's") {
			return 0
		}
		return n + 1
	}
	clock := s.clockToken()
	switch {
	case s.has("acquire: token not from the clock"):
		clock = 0
	case s.has("acquire: token from the clock in milliseconds"):
		clock /= 1000
	}
	token := max(above("lease's", l.Token), above("fence's", f.Token), above("floor", a.Floor), clock)
	next := store.Lease{Owner: s.owner(a.Owner), Token: token, Heartbeat: a.Heartbeat, RenewedAt: s.now(), TTL: a.TTL}
	if s.has("acquire: leaves the heartbeat") {
		next.Heartbeat = l.Heartbeat
	}
	if s.has("acquire: leaves RenewedAt") {
		next.RenewedAt = l.RenewedAt
	}
	if s.has("acquire: leaves the TTL") {
		next.TTL = l.TTL
	}
	if s.has("acquire: TTL in seconds") {
		next.TTL = next.TTL.Truncate(time.Second)
	}
	next.Released = s.has("acquire: leaves released") && l.Released
	next.ResignAsked = s.has("acquire: leaves the resignation") && l.ResignAsked
	s.leases[k] = next
	if s.has("acquire: takes all groups") {
		for name := range s.leases {
			s.leases[name] = next
		}
	}
	if s.has("acquire: writes the fence later") {
		s.elsewhere()
	}
	switch {
	case s.has("acquire: leaves the fence"):
	case s.has("acquire: leaves the fence's owner"):
		s.fences[k] = store.Fence{Owner: f.Owner, Token: token}
	default:
		s.fences[k] = store.Fence{Owner: s.owner(a.Owner), Token: token}
	}
	if s.has("acquire: returns another token") {
		return token + 1, nil
	}
	return token, nil
}

// sameOwner compares two owners, unless the flaw is to ignore a difference.
func (s *replica) sameOwner(got, want, statement string) bool {
	switch {
	case s.has(statement + ": ignores the owner"):
		return true
	case s.has(statement + ": ignores the owner's case"):
		return strings.EqualFold(got, want)
	case s.has(statement + ": ignores the owner's end"):
		return strings.TrimRight(got, "-") == strings.TrimRight(want, "-")
	case s.has(statement+": ignores an empty owner") && want == "":
		return true
	}
	return got == want
}

func (s *replica) Renew(ctx context.Context, r store.Renew) (int, error) {
	if err := s.ended(ctx, "renew"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.Leases) == 0 && s.has("renew: fails with none") {
		return 0, errors.New("syntax error near ')'")
	}
	if s.has("store: not for two groups at once") {
		s.busy++
		defer func() { s.busy-- }()
		if s.elsewhere(); s.busy > 1 {
			return 0, errors.New("busy")
		}
	}
	var matching []string
	for i, want := range r.Leases {
		if i >= 100 && s.has("renew: at most a hundred") {
			break
		}
		if free := s.locked[want.Group]; free != nil && !s.has("renew: ignores that a row is locked") {
			switch {
			case s.has("renew: fails beside a locked row"):
				return 0, errors.New("lock wait timeout")
			case !s.has("renew: waits for a locked row"):
				continue
			}
			s.mu.Unlock()
			select {
			case <-free:
			case <-ctx.Done():
			}
			s.mu.Lock()
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
		}
		if s.renewable(r, want) {
			matching = append(matching, want.Group)
		}
	}
	if s.has("renew: all or none") && len(matching) < len(r.Leases) {
		return 0, nil
	}
	n := len(matching)
	if s.has("renew: the owner's other groups too") && n > 0 {
		matching = nil
		for name, l := range s.leases {
			if l.Owner == r.Owner {
				matching = append(matching, name)
			}
		}
	}
	for i, name := range matching {
		if i > 0 && i < 5 && s.has("renew: one after the other") {
			s.elsewhere()
		}
		s.beat(name, r)
	}
	if s.has("renew: counts all") {
		n = len(r.Leases)
	}
	return n, nil
}

// renewable reports whether a row is as the renewal expects it.
func (s *replica) renewable(r store.Renew, want store.Renewal) bool {
	l, ok := s.leases[s.key(want.Group)]
	if !ok {
		return s.has("renew: inserts")
	}
	_, hasFence := s.fences[s.key(want.Group)]
	sameToken := s.same(l.Token, want.Token, "renew", "token")
	sameBeat := s.same(l.Heartbeat, want.Heartbeat, "renew", "heartbeat")
	for _, other := range r.Leases {
		sameToken = sameToken || s.has("renew: any token of the list") && other.Token == l.Token
		sameBeat = sameBeat || s.has("renew: any heartbeat of the list") && other.Heartbeat == l.Heartbeat
	}
	return sameToken && sameBeat && s.sameOwner(l.Owner, r.Owner, "renew") &&
		s.or("renew: the empty owner holds what nobody does", r.Owner != "") &&
		s.or("renew: ignores released", !l.Released) &&
		s.or("renew: ignores the resignation", l.ResignAsked == want.ResignAsked) &&
		(!s.has("renew: refuses all resignations") || !l.ResignAsked) &&
		(!s.has("renew: compares expiry") || s.now().Sub(l.RenewedAt) < l.TTL) &&
		(!s.has("renew: needs the fence") || hasFence)
}

func (s *replica) beat(name string, r store.Renew) {
	k := s.key(name)
	l := s.leases[k]
	switch {
	case s.has("renew: leaves the heartbeat"):
	case s.has("renew: counts the heartbeat up"):
		l.Heartbeat++
	default:
		l.Heartbeat = r.Heartbeat
	}
	switch now := s.now(); {
	case s.has("renew: leaves RenewedAt"):
	case s.has("renew: RenewedAt only grows") && now.Before(l.RenewedAt):
	default:
		l.RenewedAt = now
	}
	if s.has("renew: changes the TTL") {
		l.TTL = 15 * time.Second
	}
	if s.has("renew: clears the resignation") {
		l.ResignAsked = false
	}
	if s.has("renew: writes the fence") {
		s.fences[k] = store.Fence{Owner: l.Owner, Token: l.Token}
	}
	s.leases[k] = l
}

func (s *replica) Release(ctx context.Context, group, owner string, token uint64) error {
	if err := s.ended(ctx, "release"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key(group)
	l, ok := s.leases[k]
	_, hasFence := s.fences[k]
	if !ok && s.has("release: ignores that the row is absent") {
		return nil
	}
	if !ok || !s.sameOwner(l.Owner, owner, "release") || !s.same(l.Token, token, "release", "token") ||
		owner == "" && !s.has("release: the empty owner holds what nobody does") && !s.has("release: ignores an empty owner") && !s.has("release: ignores the owner") ||
		s.has("release: only once") && l.Released ||
		s.has("release: compares expiry") && s.now().Sub(l.RenewedAt) > l.TTL ||
		s.has("release: needs the fence") && !hasFence {
		return store.ErrChanged
	}
	l.Released = !s.has("release: does nothing")
	if s.has("release: clears the owner") {
		l.Owner = ""
	}
	if s.has("release: renews") {
		l.RenewedAt = s.now()
	}
	s.leases[k] = l
	if s.has("release: deletes") {
		delete(s.leases, k)
	}
	if s.has("release: the owner's other groups too") {
		for name, other := range s.leases {
			other.Released = other.Released || other.Owner == owner
			s.leases[name] = other
		}
	}
	return nil
}

func (s *replica) AskResign(ctx context.Context, group string, token uint64) error {
	if err := s.ended(ctx, "resign"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key(group)
	l, ok := s.leases[k]
	if !ok && s.has("resign: ignores that the row is absent") {
		return nil
	}
	if !ok || !s.or("resign: ignores released", !l.Released) || !s.same(l.Token, token, "resign", "token") ||
		s.has("resign: only once") && l.ResignAsked {
		return store.ErrChanged
	}
	l.ResignAsked = !s.has("resign: does nothing")
	if s.has("resign: counts the heartbeat up") {
		l.Heartbeat++
	}
	s.leases[k] = l
	if s.has("resign: all groups") {
		for name, other := range s.leases {
			other.ResignAsked = true
			s.leases[name] = other
		}
	}
	return nil
}

// bell is one of a database.
type bell struct {
	d      *database
	group  string
	line   chan struct{}
	closed chan struct{}

	mu    sync.Mutex
	has   bool
	shut  bool
	spent bool
}

func (s *replica) HandoverSignal(group string) store.HandoverSignal {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := group
	switch {
	case s.has("bell: one for all groups"):
		name = ""
	case s.has("bell: one for groups that differ by case"):
		name = strings.ToLower(name)
	case s.has("bell: one for groups that differ at the end"):
		name = name[:min(len(name), 64)]
	}
	if s.database.bells[name] == nil {
		s.database.bells[name] = make(chan struct{}, 1)
	}
	b := &bell{d: s.database, group: group, line: s.database.bells[name], closed: make(chan struct{})}
	s.bells = append(s.bells, b)
	return b
}

func (b *bell) Wait(ctx context.Context) error {
	if b.d.has("bell: rings all") {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.shut {
			return errors.New("closed")
		}
		return ctx.Err()
	}
	done, closed := ctx.Done(), b.closed
	if b.d.has("bell: Wait ignores the context") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 1500*time.Millisecond) // longer than the test's patience
		defer cancel()
		done = ctx.Done()
	}
	if b.d.has("bell: Close does not end Wait") {
		closed = nil
	}
	b.mu.Lock()
	shut, has, spent := b.shut, b.has, b.spent
	b.mu.Unlock()
	if shut && !b.d.has("bell: Wait goes on after Close") && !b.d.has("bell: a closed bell stays in line") {
		return errors.New("closed")
	}
	switch {
	case has && b.d.has("bell: Wait passes it"):
		return errors.Join(b.Pass(ctx), ctx.Err())
	case has && !b.d.has("bell: Wait blocks for its own holder"):
		return ctx.Err()
	}
	if spent {
		return errors.New("unusable")
	}
	if shut {
		closed = nil
	}
	line := b.line
	if b.d.has("bell: never rings") && len(line) > 0 {
		line = nil
	}
	select {
	case line <- struct{}{}:
		b.mu.Lock()
		defer b.mu.Unlock()
		if shut && b.d.has("bell: a closed bell stays in line") {
			return errors.New("closed")
		}
		b.has = true
		b.d.mu.Lock()
		b.d.had[b.group] = b
		b.d.mu.Unlock()
		return nil
	case <-done:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.spent = b.d.has("bell: unusable after a context")
		return ctx.Err()
	case <-closed:
		return errors.New("closed")
	}
}

func (b *bell) Pass(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.d.has("bell: Pass fails before Wait") && !b.has {
		return errors.New("no bell")
	}
	if b.has || b.d.has("bell: Pass by anybody") {
		b.leave()
	}
	return nil
}

func (b *bell) leave() {
	b.has = false
	select {
	case <-b.line:
	default: // another caller passed it
	}
}

func (b *bell) Close() error {
	if !b.d.has("bell: Close does not pass") {
		b.mu.Lock()
		if b.has {
			b.leave()
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shut {
		b.shut = true
		close(b.closed)
	}
	return nil
}
