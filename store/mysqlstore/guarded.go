package mysqlstore

import (
	"context"

	"github.com/cronlease/cronlease/store"
)

// change is what a statement did.
type change struct {
	rows   int
	lastID int64
}

// guarded runs a statement of a holder that takes a shared lock on the fence row
// and compares owner and token. On a cluster with several writers another node
// knows nothing of that lock: there a transaction changes the fence row first,
// with the same comparison, so that of it and a takeover on another node the
// second to commit fails. The error is then 1213, of the COMMIT too, and nothing
// was written.
func (s *Store) guarded(ctx context.Context, one *session, h store.Holder, statement string) (change, error) {
	if !one.server.manyWriters() && !s.alwaysWrite {
		return one.change(ctx, statement)
	}
	// A process that stands still in a transaction keeps the fence row from
	// takeovers on its node. MariaDB has a limit for just that, see [setGalera].
	limited := one.server.isGalera() && one.server.isMariaDB()
	if !limited {
		if _, err := one.exec(ctx, limitIdle); err != nil {
			return change{}, err
		}
	}
	done, err := s.writeFenceFirst(ctx, one, h, statement)
	if err != nil && isAnswer(err) {
		// The server has rolled back the transaction, or only the statement.
		if _, undone := one.exec(ctx, rollback); undone != nil {
			return change{}, undone
		}
	}
	if !limited && (err == nil || isAnswer(err)) {
		if _, err := one.exec(ctx, unlimitIdle); err != nil {
			return change{}, err
		}
	}
	return done, err
}

func (s *Store) writeFenceFirst(ctx context.Context, one *session, h store.Holder, statement string) (change, error) {
	if _, err := one.exec(ctx, begin); err != nil {
		return change{}, err
	}
	held, err := one.changed(ctx, s.runs.writeFence.Render(h.Group, h.Owner, h.Token))
	if err != nil {
		return change{}, err
	}
	var done change
	if held > 0 {
		if done, err = one.change(ctx, statement); err != nil {
			return change{}, err
		}
	}
	_, err = one.exec(ctx, commit)
	return done, err
}
