package scheduler

import (
	"context"
	"testing"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// A term that looks for what it can start leaves the line of a full pool as it is, however long that is, and starts what stands behind it.
func TestLineOfAFullPool(t *testing.T) {
	t.Parallel()
	e, err := election.New(memdb.New(), "g")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := e.Run(ctx, func(ctx context.Context, _ election.Term) error {
		defer stop()
		lineOfAFullPool(ctx, t)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func lineOfAFullPool(ctx context.Context, t *testing.T) {
	const waiting = 1000
	term := bareTerm(
		jobs.Job{Name: "pooled", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, Pool: jobs.Pool{Name: "one", Limit: 1}},
		jobs.Job{Name: "job", Schedule: jobs.Manual()})
	term.ctx = ctx
	lineUp := func(job string, trigger uint64) *run {
		record := manualRun(trigger)
		record.Job = job
		r := term.take(term.roll.entries[job], record)
		term.shift(r, plan.Ready)
		term.slots.lineUp(r)
		return r
	}
	for i := range waiting + 1 {
		lineUp("pooled", uint64(i+1))
	}
	term.launchReady()
	p := term.slots.pool("one")
	if len(p.line) != waiting {
		t.Fatalf("%d runs wait, want %d", len(p.line), waiting)
	}
	first, behind := &p.line[0], lineUp("job", 1)
	term.launchReady()
	if &p.line[0] != first || len(p.line) != waiting || behind.Phase() != plan.Running {
		t.Errorf("the line was made anew, or has %d runs; the other run is in phase %v", len(p.line), behind.Phase())
	}
}

// bare is a store without an archive, and with runs.
type bare struct {
	store.Jobs
	runs []jobs.Record
}

func (b bare) Runs(context.Context, string, jobs.Filter) ([]jobs.Record, error) { return b.runs, nil }

// A store without an archive is asked for the runs of each job.
func TestNewestRunsWithoutAnArchive(t *testing.T) {
	t.Parallel()
	ended := jobs.Record{Key: jobs.Key{Job: "job"}, State: jobs.Succeeded}
	db := bare{runs: []jobs.Record{{Key: ended.Key, State: jobs.Running}, ended, {Key: ended.Key, State: jobs.Waiting}}}
	newest, err := newestRuns(context.Background(), db, "g", jobs.Newest{Jobs: []string{"job"}, Over: true, Limit: 3})
	if runs := newest["job"]; err != nil || len(runs) != 1 || runs[0].State != jobs.Succeeded {
		t.Errorf("got %+v, %v", newest, err)
	}
}
