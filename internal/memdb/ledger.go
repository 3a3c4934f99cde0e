package memdb

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var (
	_ store.Archive  = (*Store)(nil)
	_ store.Replicas = (*Store)(nil)
)

// rules are the methods that write to a ledger, and reads those that only read.
type (
	rules = ledger.Ledger
	reads = ledger.Reads
)

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
	if f, ok := s.fences[cmp.Or(need.By.Session, group)]; ok {
		tx.Fence = &f
	}
	return tx
}

// group returns the group's ledger; called with mu held.
func (s *Store) group(group string) *ledger.Content {
	g, ok := s.groups[group]
	if !ok {
		g = ledger.NewContent()
		s.groups[group] = g
	}
	return g
}

func cloneGroups(groups map[string]*ledger.Content) map[string]*ledger.Content {
	clones := make(map[string]*ledger.Content, len(groups))
	for name, g := range groups {
		clones[name] = clone(g)
	}
	return clones
}

// clone copies what is changed in place.
func clone(g *ledger.Content) *ledger.Content {
	c := *g
	c.Jobs, c.Runs, c.Audit, c.Terms = maps.Clone(g.Jobs), map[string][]*ledger.KeptRun{}, slices.Clone(g.Audit), slices.Clone(g.Terms)
	for job, runs := range g.Runs {
		c.Runs[job] = slices.Clone(runs)
	}
	return &c
}

// view is the store's [ledger.Viewer].
func (s *Store) view(ctx context.Context, group, _ string, _ []jobs.Key, f func(*ledger.View) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(&ledger.View{Content: s.group(group), Now: s.now(), Server: s.identity()})
}
