package zkstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/store"
)

var _ store.Archive = (*Store)(nil)

// PruneArchive implements [store.Archive]. It also deletes what calls have left that did not come to their end.
func (s *Store) PruneArchive(ctx context.Context, group string, batch int) (int, error) {
	n, err := s.rules.PruneArchive(ctx, group, batch)
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
		_, err = call(ctx, s.link, func(client *zk.Conn) (struct{}, error) { return struct{}{}, client.Delete(n.path, -1) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}
