package storetest

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

func (s *flawedStore) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	if err := s.ended(ctx, "HeldLocks"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, _ := s.instant()
	folded := func(name string) string {
		if s.has("held: in any case") {
			return strings.ToLower(name)
		}
		return name
	}
	var found []string
	for name, one := range s.rows {
		at, queue := one.last, one.Queue
		if s.has("held: by the first write") {
			at = one.first
		}
		if s.has("held: not of spaces") {
			queue = bytes.TrimSpace(queue)
		}
		if (len(queue) > 0 || s.has("held: free locks")) && (at.Before(now.Add(-idle)) || s.has("held: young locks")) &&
			(folded(name) > folded(after) || s.has("held: from the name on") && name == after || s.has("held: from the first name on")) &&
			!s.has("held: none") {
			found = append(found, name)
		}
	}
	if s.has("held: the floor") {
		found = append(found, "")
	}
	most := len(found)
	if !s.has("held: ignores the limit") {
		most = min(most, limit)
	}
	byName := func(a, b string) int { return strings.Compare(folded(a), folded(b)) }
	switch {
	case s.has("held: the limit, then the order"):
		found = found[:most]
		slices.SortFunc(found, byName)
	case s.has("held: in the order of their age"):
		slices.SortFunc(found, func(a, b string) int { return s.rows[a].last.Compare(s.rows[b].last) })
	case s.has("held: in no order"):
		slices.SortFunc(found, func(a, b string) int { return byName(b, a) })
	default:
		slices.SortFunc(found, byName)
	}
	found = found[:most]
	if s.has("held: takes them") {
		for _, name := range found {
			s.rows[name].Version++
		}
	}
	return found, nil
}

func (s *flawedStore) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	if err := s.ended(ctx, "PruneLocks"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, _ := s.instant()
	n := s.pruneRows(now.Add(-idle), limit)
	if s.has("prune: sessions with the locks") {
		if _, err := s.pruneOf(ctx, now, "", idle, idle, limit); err != nil {
			return 0, err
		}
	}
	switch {
	case s.has("prune: counts one more"):
		return n + 1, nil
	case s.has("prune: counts nothing"):
		return 0, nil
	}
	return n, nil
}

func (s *flawedStore) pruneRows(before time.Time, limit int) int {
	var found []string
	for name, one := range s.rows {
		at := one.last
		if s.has("prune: by the first write") {
			at = one.first
		}
		queue := one.Queue
		if s.has("prune: locks of spaces") {
			queue = bytes.TrimSpace(queue)
		}
		if !s.has("prune: no locks") && (at.Before(before) || s.has("prune: young locks")) &&
			(len(queue) == 0 || s.has("prune: locks that are held")) &&
			(one.writes == 1 || !s.has("prune: locks that were never written again")) &&
			(len(found) < limit || s.has("prune: ignores the limit of locks")) {
			found = append(found, name)
		}
	}
	if s.has("prune: looks, then deletes") {
		s.elsewhere()
	}
	s.raiseFloor(found)
	for _, name := range found {
		if s.has("prune: clears locks") {
			s.rows[name].Queue = nil
			continue
		}
		if s.has("prune: locks of the version come back") {
			s.pruned[name] = s.rows[name].Version
		}
		delete(s.rows, name)
		s.past["pruned "+name] = true
	}
	return len(found)
}

// raiseFloor is what pruning does before it deletes.
func (s *flawedStore) raiseFloor(found []string) {
	if s.has("prune: leaves the floor") || len(found) == 0 {
		return
	}
	if s.has("prune: the floor can fall") {
		s.floor = 0
	}
	if s.has("prune: the floor is above all") {
		for _, one := range s.rows {
			s.floor = max(s.floor, one.Version)
		}
	}
	lowest := uint64(1 << 63)
	for _, name := range found {
		version := s.rows[name].Version
		lowest = min(lowest, version)
		if !s.has("prune: the floor is the lowest that was pruned") {
			s.floor = max(s.floor, version)
		}
	}
	if s.has("prune: the floor is the lowest that was pruned") {
		s.floor = max(s.floor, lowest)
	}
}

func (s *flawedStore) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	if err := s.ended(ctx, "PruneSessions"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, _ := s.instant()
	if s.has("prune: locks with the sessions") {
		s.pruneRows(now, limit)
	}
	n, err := s.pruneOf(ctx, now, prefix, released, expired, limit)
	switch {
	case s.has("prune: counts one session more"):
		return n + 1, err
	case s.has("prune: counts no sessions"):
		return 0, err
	}
	return n, err
}

func (s *flawedStore) pruneOf(ctx context.Context, now time.Time, prefix string, released, expired time.Duration, limit int) (int, error) {
	n := 0
	for name, of := range s.sessions {
		rs, err := s.leases.Read(context.WithoutCancel(ctx), name)
		if err != nil {
			return n, err
		}
		l, f := rs[0].Lease, rs[0].Fence
		if l == nil || s.has("prune: no leases") || !s.begins(name, prefix) {
			continue
		}
		at, idle := l.RenewedAt, expired
		if l.Released != s.has("prune: released and expired are swapped") || s.has("prune: all leases like released ones") {
			idle = released
		}
		if s.has("prune: all leases like expired ones") {
			idle = expired
		}
		if s.has("prune: leases by their first heartbeat") {
			at = of.first
		}
		if !at.Before(now.Add(-idle)) && !s.has("prune: young leases") || s.has("prune: leases that are released") && !l.Released ||
			s.has("prune: leases that were taken") && l.Owner == "" || n >= limit && !s.has("prune: ignores the limit of leases") {
			continue
		}
		s.leases.Update(name, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
			if s.has("prune: leaves fences") {
				return nil, f
			}
			return nil, nil
		})
		delete(s.sessions, name)
		n++
	}
	return n, nil
}

func (s *flawedStore) begins(name, prefix string) bool {
	var pattern string
	switch {
	case s.has("prune: leases of all groups"):
		return true
	case s.has("prune: prefix anywhere"):
		return strings.Contains(name, prefix)
	case s.has("prune: prefix in any case"):
		return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix))
	case s.has("prune: prefix of whole parts"):
		return strings.HasPrefix(name, strings.TrimRight(prefix, "/"))
	case s.has("prune: prefix without backslashes"):
		return strings.HasPrefix(name, strings.ReplaceAll(prefix, `\`, ""))
	case s.has("prune: prefix with any character for _"):
		pattern = strings.ReplaceAll(regexp.QuoteMeta(prefix), "_", ".")
	case s.has("prune: prefix with any characters for %"):
		pattern = strings.ReplaceAll(regexp.QuoteMeta(prefix), "%", ".*")
	default:
		return strings.HasPrefix(name, prefix)
	}
	return regexp.MustCompile("^" + pattern).MatchString(name)
}
