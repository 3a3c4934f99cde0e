//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// seconds counts how often each tick of the jobs with one each second was run. The zero value is ready.
type seconds struct {
	base int64    // an instant before all ticks, in seconds since 1970
	runs [][]int8 // by job, and second since base
}

// early is how long before the first tick that is seen there may be others: workers report one after the other.
const early = 3600

// add counts runs.
func (s *seconds) add(ticks []secondTick) {
	for _, t := range ticks {
		if s.runs == nil {
			s.base, s.runs = t.Unix-early, make([][]int8, secondCount)
		}
		at := int(t.Unix - s.base)
		if missing := at + 1 - len(s.runs[t.Job]); missing > 0 {
			s.runs[t.Job] = append(s.runs[t.Job], make([]int8, missing)...)
		}
		s.runs[t.Job][at]++
	}
}

// total counts the ticks that were run, those between the first and the last of their job that were not, and those that
// were more than once.
func (s *seconds) total() (ran, missing, doubled int) {
	for _, runs := range s.runs {
		first := slices.IndexFunc(runs, func(n int8) bool { return n > 0 })
		if first < 0 {
			continue
		}
		for _, n := range runs[first:] {
			switch {
			case n == 0:
				missing++
			case n > 1:
				doubled++
				ran++
			default:
				ran++
			}
		}
	}
	return ran, missing, doubled
}

// firstRun is how many seconds after the first run of any job each of them has run: one that is ended before has not seen all.
const firstRun = 10

// looked is how far back the ledger is compared with what ran. The histories keep more.
const looked = 3 * time.Minute

// compare looks whether the ledger has each tick of the last minutes once, as succeeded, and nothing else. It returns
// how many ticks it compared, and what differs.
func (s *seconds) compare(ctx context.Context, dsn string) (ticks int, wrong []string, err error) {
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	seen := 0 // seconds
	for _, runs := range s.runs {
		seen = max(seen, len(runs)-early)
	}
	for i, runs := range s.runs {
		if len(runs) == 0 {
			if seen > firstRun {
				wrong = append(wrong, secondName(i)+" never ran")
			}
			continue
		}
		first := slices.IndexFunc(runs, func(n int8) bool { return n > 0 })
		first = max(first, len(runs)-int(looked.Seconds()))
		records, err := jobs.NewGroup(store, groupName).Runs(ctx, jobs.Filter{
			Job: secondName(i), Since: time.Unix(s.base+int64(first), 0), Limit: 10 * int(looked.Seconds()),
		})
		if err != nil {
			return ticks, wrong, err
		}
		ticks += len(runs) - first
		wrong = append(wrong, differences(records, s.base+int64(first), len(runs)-first)...)
	}
	return ticks, wrong, nil
}

// differences says what is wrong with the records of a job that was run in each of n seconds, from the first on.
func differences(records []jobs.Record, first int64, n int) []string {
	var wrong []string
	times := make([]int, n)
	for _, r := range records {
		at := r.Tick.Unix() - first
		switch {
		case at >= int64(n) && r.State == jobs.Waiting:
			continue // the last leader has left it to the next one, and there is none
		case at >= int64(n) || r.Trigger != 0:
			wrong = append(wrong, fmt.Sprintf("%s has %s, %s, which did not run", r.Job, r.Tick.Format(time.RFC3339Nano), r.State))
			continue
		case r.State != jobs.Succeeded:
			wrong = append(wrong, fmt.Sprintf("%s %s: %s, attempt %d: %s", r.Job, r.Tick.Format(time.RFC3339), r.State, r.Attempt, r.Error))
		}
		times[at]++
	}
	for at, n := range times {
		if n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s is there %d times", time.Unix(first+int64(at), 0).UTC().Format(time.RFC3339), n))
		}
	}
	return wrong
}
