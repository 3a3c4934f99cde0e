package memdb

import (
	"context"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var (
	_ store.Archive  = (*Store)(nil)
	_ store.Replicas = (*Store)(nil)
)

// rules are the methods that write to a ledger.
type rules = ledger.Ledger

// rows are those of a store.
type rows struct{ *Store }

// Do implements [ledger.Rows].
func (r rows) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g, tx := r.group(group), r.page(group, need)
	f(tx)
	asked := tx.Group.Changes != g.Changes
	g.Take(tx)
	if asked {
		r.ask(group)
	}
	return nil
}

// page returns a page of a group's rows. It is called with mu held.
func (s *Store) page(group string, need ledger.Need) *ledger.Tx {
	tx := s.group(group).Page(need, s.now(), s.identity())
	if f, ok := s.fences[group]; ok {
		tx.Fence = &f
	}
	return tx
}

// group returns the group's ledger; called with mu held.
func (s *Store) group(group string) *Group {
	g, ok := s.groups[group]
	if !ok {
		g = NewGroup()
		s.groups[group] = g
	}
	return g
}

func cloneGroups(groups map[string]*Group) map[string]*Group {
	clones := make(map[string]*Group, len(groups))
	for name, g := range groups {
		clones[name] = g.clone()
	}
	return clones
}

// view is the store's [Viewer].
func (s *Store) view(ctx context.Context, group, _ string, _ []jobs.Key, f func(*View) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(&View{s.group(group), s.now(), s.identity()})
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (changes store.Changes, err error) {
	err = s.view(ctx, group, "", nil, func(v *View) error {
		changes = store.Changes{Number: v.Changes, Now: v.Now, Server: v.Server}
		return nil
	})
	return changes, err
}
