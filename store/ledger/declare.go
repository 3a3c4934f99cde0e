package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Declare implements [store.Ledger]. Up to 500 jobs are one transaction; more are several, and the last one says that
// all are declared.
func (l Ledger) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	for _, d := range declared {
		if err := store.CheckName("job", d.Name); err != nil {
			return err
		}
		if !utf8.ValidString(d.Schedule) {
			return fmt.Errorf("%s: job %q: its schedule %q: not UTF-8", l.pkg, d.Name, d.Schedule)
		}
	}
	for {
		part := declared[:min(batch, len(declared))]
		declared = declared[len(part):]
		need := Need{Doing: "declare jobs", By: h}
		for _, d := range part {
			need.Jobs = append(need.Jobs, d.Name)
		}
		var answer error
		err := l.rows.Do(ctx, h.Group, need, func(tx *Tx) {
			if answer = nil; !tx.current(h) {
				answer = store.ErrReplaced
				return
			}
			for _, d := range part {
				tx.declare(d)
			}
			if len(declared) == 0 && tx.Group.Opened.Token != h.Token {
				tx.Group.Opened = h.Opens(tx.Group.Opened)
				tx.Group.Opened.At = tx.Now
			}
		})
		if err := cmp.Or(err, answer); err != nil || len(declared) == 0 {
			return err
		}
	}
}

func (tx *Tx) declare(d store.Declared) {
	was, ok := tx.Jobs[d.Name]
	known, now := was, tx.Now
	if !d.Now.IsZero() {
		now = time.UnixMicro(d.Now.UnixMicro()).UTC()
	}
	switch {
	case !ok:
		known = Job{Known: jobs.Known{Schedule: d.Schedule, Since: tx.Now, ScheduleSince: now}}
	case known.Schedule != d.Schedule, known.ScheduleSince.After(now):
		from := now
		if !d.From.IsZero() && d.From.Before(now) {
			from = time.UnixMicro(d.From.UnixMicro()).UTC()
		}
		known.Schedule = d.Schedule
		if from.After(known.ScheduleSince) || known.ScheduleSince.After(now) {
			known.ScheduleSince = from
		}
	}
	known.Gone = time.Time{}
	if !ok || known.Known != was.Known {
		tx.putJob(d.Name, known)
	}
}
