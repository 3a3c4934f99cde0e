package scheduler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// oneHistory is a store with the history of one job, the newest run first.
type oneHistory struct {
	store.Jobs
	all   []jobs.Record
	reads int
}

func (s *oneHistory) Runs(_ context.Context, _ string, f jobs.Filter) ([]jobs.Record, error) {
	if s.reads++; s.reads > 10 {
		return nil, errors.New("read without end")
	}
	from := 1 + slices.IndexFunc(s.all, func(r jobs.Record) bool { return r.Key == f.Behind })
	return s.all[from:min(len(s.all), from+f.Limit)], nil
}

// add adds older runs.
func (s *oneHistory) add(n int, r jobs.Record) *oneHistory {
	for range n {
		r.Tick = noon.Add(-time.Duration(len(s.all)) * time.Second)
		s.all = append(s.all, r)
	}
	return s
}

// As much of a job's history is read as it takes to know whether its failures pause it, and no more.
func TestFailuresFarBackAreCounted(t *testing.T) {
	t.Parallel()
	failed, cancelled := jobs.Record{State: jobs.Failed, Finished: noon}, jobs.Record{State: jobs.Cancelled}
	for name, test := range map[string]struct {
		history        *oneHistory
		failed, inRead int
	}{
		"no history":                     {new(oneHistory), 0, 1},
		"all there is, and too few":      {new(oneHistory).add(2, failed), 2, 1},
		"enough":                         {new(oneHistory).add(3, failed).add(100, cancelled).add(1, failed), 3, 1},
		"behind many that say nothing":   {new(oneHistory).add(2, failed).add(60, cancelled).add(1, failed), 3, 2},
		"behind very many":               {new(oneHistory).add(2, failed).add(300, cancelled).add(1, failed), 3, 3},
		"none behind, as a success says": {new(oneHistory).add(2, failed).add(1, jobs.Record{State: jobs.Succeeded}).add(100, failed), 2, 1},
	} {
		n, err := (&env{db: test.history}).failedInARow(t.Context(), declare(jobs.Job{Schedule: jobs.Manual(), PauseAfter: 3}, false), nil)
		if err != nil || n != test.failed || test.history.reads != test.inRead {
			t.Errorf("%s: %d failures in %d readings, want %d in %d (%v)", name, n, test.history.reads, test.failed, test.inRead, err)
		}
	}
}

// All notices count that a notifier has had lately, however many these are, and whatever else its history has.
func TestManyNoticesAreCounted(t *testing.T) {
	t.Parallel()
	const per = time.Hour
	notice := jobs.Record{Key: jobs.Key{Trigger: triggers.Notice("failure", "job", 0, 1)}}
	lately, before, byHand := notice, notice, jobs.Record{Key: jobs.Key{Trigger: 1}, Claimed: noon}
	lately.Claimed, before.Claimed = noon.Add(-time.Minute), noon.Add(-2*per)
	for _, n := range []int{0, 1, 999, 1000, 1001, 3000} {
		history := new(oneHistory).add(n, lately).add(5, before).add(5, byHand).add(1, lately)
		sent, err := (&env{db: history}).sentLately(t.Context(), "notifier", per, noon)
		if err != nil || len(sent) != n+1 {
			t.Errorf("%d notices are counted, want %d (%v)", len(sent), n+1, err)
		}
	}
}
