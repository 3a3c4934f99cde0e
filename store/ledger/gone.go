package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Gone implements [store.Replicas].
func (l Ledger) Gone(ctx context.Context, h store.Holder, names []string) error {
	for part := range slices.Chunk(names, batch) {
		var answer error
		err := l.rows.Do(ctx, h.Group, Need{Doing: "note that jobs are gone", By: h, Jobs: part}, func(tx *Tx) {
			if answer = nil; !tx.current(h) {
				answer = store.ErrReplaced
				return
			}
			for _, name := range part {
				if known, ok := tx.Jobs[name]; ok && known.Gone.IsZero() {
					known.Gone = tx.Now
					tx.putJob(name, known)
				}
			}
		})
		if err := cmp.Or(err, answer); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Forget implements [jobs.Registry].
func (l Ledger) Forget(ctx context.Context, group, job string, gone time.Time) (forgotten bool, err error) {
	entry := ledgerrows.Entry(ctx, jobs.ActionForget, jobs.Key{Job: job}, "")
	err = l.rows.Do(ctx, group, Need{Doing: "forget the job", Jobs: []string{job}}, func(tx *Tx) {
		known := tx.Jobs[job]
		if forgotten = !known.Gone.IsZero() && known.Gone.Equal(gone); !forgotten {
			tx.note(entry, jobs.Refused)
			return
		}
		tx.note(entry, jobs.Done)
		tx.Forgotten = job
	})
	return err == nil && forgotten, err
}
