package zkstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Archive = (*Store)(nil)

// NoteTerm implements [store.Archive].
func (s *Store) NoteTerm(ctx context.Context, note store.TermNote) error {
	_, err := on(ctx, s, about("note the term", note.Group), doing(func(db *memdb.Store) error { return db.NoteTerm(ctx, note) }))
	return err
}

// PruneArchive implements [store.Archive]. It also deletes what calls have left that did not come to their end.
func (s *Store) PruneArchive(ctx context.Context, group string, batch int) (int, error) {
	n, err := on(ctx, s, about("prune the archive", group), func(db *memdb.Store) (int, error) { return db.PruneArchive(ctx, group, batch) })
	if err == nil {
		err = failed("prune the archive", s.sweep(ctx, group))
	}
	return n, err
}

// abandoned is how old a part is that nothing names and no call is about to name.
const abandoned = time.Hour

// sweep deletes parts of a ledger that nothing names.
func (s *Store) sweep(ctx context.Context, group string) error {
	all, err := s.children(ctx, s.path("ledgers", group))
	if err != nil {
		return err
	}
	l := s.ledgers.of(group)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	st, err := s.proven(ctx, group, l)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, r := range l.head.Parts {
		named[r.String()] = true
	}
	for number, r := range l.refs {
		named[ref{argsPart, number, r.args}.String()], named[ref{attemptsPart, number, r.attempts}.String()] = true, true
	}
	for _, name := range slices.DeleteFunc(all, func(name string) bool { return named[name] }) {
		n, err := s.get(ctx, s.path("ledgers", group, name))
		if err != nil {
			return err
		}
		if !s.idleFor(n, st.now, abandoned) {
			continue
		}
		_, err = call(ctx, s.link, func(client *zk.Conn) (nothing, error) { return nothing{}, client.Delete(n.path, -1) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// Audit implements [jobs.Archive].
func (s *Store) Audit(ctx context.Context, group string, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	return on(ctx, s, reading("read the audit", group), func(db *memdb.Store) ([]jobs.AuditEntry, error) { return db.Audit(ctx, group, filter) })
}

// Terms implements [jobs.Archive].
func (s *Store) Terms(ctx context.Context, group string, filter jobs.TermFilter) ([]jobs.Term, error) {
	return on(ctx, s, reading("read the terms", group), func(db *memdb.Store) ([]jobs.Term, error) { return db.Terms(ctx, group, filter) })
}

// Attempts implements [jobs.Archive].
func (s *Store) Attempts(ctx context.Context, group string, key jobs.Key) ([]jobs.Attempt, error) {
	of := reading("read attempts", group)
	of.with(key.Job, nil)
	of.attempts = []jobs.Key{key}
	return on(ctx, s, of, func(db *memdb.Store) ([]jobs.Attempt, error) { return db.Attempts(ctx, group, key) })
}

// Names implements [jobs.Archive].
func (s *Store) Names(ctx context.Context, group string) (jobs.Names, error) {
	return on(ctx, s, reading("read the names of jobs", group), func(db *memdb.Store) (jobs.Names, error) { return db.Names(ctx, group) })
}

// LoadOf implements [jobs.Archive].
func (s *Store) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := jobs.CheckNames(names); err != nil {
		return jobs.Snapshot{}, err
	}
	return on(ctx, s, reading("load jobs", group), func(db *memdb.Store) (jobs.Snapshot, error) { return db.LoadOf(ctx, group, names) })
}

// Newest implements [jobs.Archive].
func (s *Store) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	if err := of.Check(); err != nil {
		return nil, err
	}
	return on(ctx, s, reading("list runs", group), func(db *memdb.Store) (map[string][]jobs.Record, error) { return db.Newest(ctx, group, of) })
}

// Counts implements [jobs.Archive].
func (s *Store) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	if err := filter.Check(); err != nil {
		return jobs.Counts{}, err
	}
	return on(ctx, s, reading("count runs", group), func(db *memdb.Store) (jobs.Counts, error) { return db.Counts(ctx, group, filter) })
}
