package sqlledger

import (
	"cmp"
	"context"

	"github.com/cronlease/cronlease/jobs"
)

const (
	defaultLimit = 100
	defaultBatch = 500

	// pruneLook is how many of a job's oldest runs one statement looks at, so
	// that it is short where there is nothing to delete.
	pruneLook = 10000
)

// Runs implements [jobs.Control]. It reads about as many rows as it returns, but
// for a job's runs of one state, which it looks for among all the job's.
func (l *Ledger) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	since, last := window(filter.Since, filter.Until)
	behind := filter.Behind != jobs.Key{}
	var at int64
	if behind {
		at = filter.Behind.Tick.UnixMicro()
		last = min(last, at)
	}
	query, args := l.q.NewestRuns, []any{
		group, since, cmp.Or(max(filter.Limit, 0), defaultLimit), last, behind, at, filter.Behind.Job, Number(filter.Behind.Trigger),
	}
	switch {
	case filter.Job != "":
		query, args = l.q.NewestOfJob, append(args, int(filter.State), filter.Job)
	case filter.State != 0:
		query, args = l.q.NewestOfState, append(args, int(filter.State))
	}
	var all []jobs.Record
	err := l.db.Read(ctx, "read runs", func(ctx context.Context, c Conn) (err error) {
		all, err = records(ctx, c, query, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Prune implements [store.Ledger]. At most 500 rows are one statement, which
// looks at the 10,000 oldest runs of the job.
func (l *Ledger) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if batch <= 0 {
		batch = defaultBatch
	}
	age, deleted := history.For.Microseconds(), 0
	for deleted < batch && (history.Keep > 0 || age > 0) {
		most := min(defaultBatch, batch-deleted)
		n, err := l.db.Exec(ctx, "prune", Statement{l.q.Prune, []any{group, job, history.Keep, age, most, pruneLook}})
		deleted += int(n)
		if err != nil || int(n) < most {
			return deleted, err
		}
	}
	return deleted, nil
}
