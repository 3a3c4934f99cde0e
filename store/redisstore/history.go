package redisstore

import (
	"cmp"
	"context"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var (
	passOverScript = newLedgerScript("passover")
	pruneScript    = newLedgerScript("prune")
	runsScript     = newLedgerScript("runs")
)

const (
	defaultLimit = 100
	defaultBatch = 500

	// pruneLook is how many of a job's oldest runs one call looks at.
	pruneLook = 10_000
)

// PassOver implements [store.Ledger]. Many runs are several scripts, the newest runs first: after each of them the cursor is the
// newest tick that is left.
func (s *Store) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	passed, below := 0, ""
	for {
		args := append(holderArgs(h), job, tickText(after), below, rowsMost)
		answer, err := s.run(ctx, "pass over ticks", passOverScript, args...)
		switch {
		case err != nil:
			return passed, err
		case answer == nil:
			return passed, store.ErrReplaced
		}
		f := &fields{doing: "pass over ticks"}
		f.values = f.array(answer)
		passed += int(f.number())
		if below = f.optional(); below == "" || f.err != nil {
			return passed, f.err
		}
	}
}

// Prune implements [store.Ledger]. It looks at the 10,000 oldest runs of the job, some hundred in each script.
func (s *Store) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if batch <= 0 {
		batch = defaultBatch
	}
	age := history.For.Microseconds()
	if history.Keep <= 0 && age <= 0 {
		return 0, ctx.Err()
	}
	deleted, after := 0, ""
	for looked := 0; looked < pruneLook && deleted < batch; looked += lookMost {
		f, err := s.fieldsOf(ctx, "prune", pruneScript, group, job, max(history.Keep, 0), max(age, 0), min(batch-deleted, rowsMost), after, lookMost)
		if err != nil {
			return deleted, err
		}
		deleted += int(f.number())
		if after = f.optional(); after == "" || f.err != nil {
			return deleted, f.err
		}
	}
	return deleted, nil
}

// selection is what a list of runs is read of.
type selection struct {
	job   string
	state jobs.State
	over  bool
	max   string // the entries of the index that the list begins below
	min   string // the first of them
	limit int
}

// list reads runs, the newest first. It is several scripts where it looks at many rows: each row is read as a whole, and one that gets
// another key in between, as a run that is passed over does, may be missing.
func (s *Store) list(ctx context.Context, group string, of selection) ([]jobs.Record, error) {
	var all []jobs.Record
	for len(all) < of.limit {
		f, err := s.fieldsOf(ctx, "read runs", runsScript, group, of.job, int(of.state), flag(of.over), "("+of.max, "["+of.min, of.limit-len(all), lookMost)
		if err != nil {
			return nil, err
		}
		all = append(all, f.records()...)
		if of.max = f.optional(); of.max == "" || f.err != nil {
			return all, f.err
		}
	}
	return all, nil
}

// bounds are those of the entries of a time whose end does not belong to it; a zero end is none.
func bounds(since, until time.Time) (above, least string) {
	end := endOfTime
	if !until.IsZero() {
		end = upwards(until)
	}
	return tickText(end), tickText(upwards(since))
}

// Runs implements [jobs.Control]. It reads about as many rows as it returns, but for a job's runs of one state, which
// it looks for among all the job's.
func (s *Store) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	of := selection{job: filter.Job, state: filter.State, limit: cmp.Or(max(filter.Limit, 0), defaultLimit)}
	of.max, of.min = bounds(filter.Since, filter.Until)
	if b := filter.Behind; b != (jobs.Key{}) {
		behind := groupEntry(b)
		switch {
		case filter.Job == "":
		case filter.Job < b.Job:
			behind = tickText(b.Tick) + "~" // behind all of that tick
		case filter.Job == b.Job:
			behind = jobEntry(b)
		default:
			behind = tickText(b.Tick) // before all of that tick
		}
		of.max = min(of.max, behind)
	}
	return s.list(ctx, group, of)
}
