package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

func (s *leaseReplica) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
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

func (s *leaseReplica) reading(group string, now time.Time) store.Reading {
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

func (s *leaseReplica) Prepare(ctx context.Context, group string, ttl time.Duration) error {
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

func (s *leaseReplica) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
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
func (s *leaseReplica) sameOwner(got, want, statement string) bool {
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

func (s *leaseReplica) Renew(ctx context.Context, r store.Renew) (int, error) {
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
func (s *leaseReplica) renewable(r store.Renew, want store.Renewal) bool {
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

func (s *leaseReplica) beat(name string, r store.Renew) {
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

func (s *leaseReplica) Release(ctx context.Context, group, owner string, token uint64) error {
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

func (s *leaseReplica) AskResign(ctx context.Context, group string, token uint64) error {
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
