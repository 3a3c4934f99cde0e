package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// canned is a ledger that answers as a test says, and counts what it is asked for.
type canned struct {
	*memdb.Store
	snapshot           jobs.Snapshot
	roster             jobs.Roster
	gone               time.Time
	runs               []jobs.Record
	kept               bool  // by Forget
	goneErr            error // of GoneSince
	rosterErr, loadErr error
	runsErr            error
	triggered          int
}

func (c *canned) Load(context.Context, string) (jobs.Snapshot, error) { return c.snapshot, c.loadErr }

func (c *canned) Runs(context.Context, string, jobs.Filter) ([]jobs.Record, error) {
	return c.runs, c.runsErr
}

func (c *canned) Roster(context.Context, string, jobs.Roster) (jobs.Roster, error) {
	return c.roster, c.rosterErr
}

func (c *canned) GoneSince(context.Context, string, string) (time.Time, error) {
	return c.gone, c.goneErr
}

func (c *canned) Forget(context.Context, string, string, time.Time) (bool, error) {
	return !c.kept, nil
}

func (c *canned) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	c.triggered++
	return c.Store.Trigger(ctx, group, job, r)
}

// removed is the ledger of a group in which the leader has removed the job "old", and a
// replica that has died had it.
func removed(t *testing.T) *canned {
	t.Helper()
	gone := noon.Add(-time.Hour)
	has := func(job string) map[string]jobs.ScheduleHash { return map[string]jobs.ScheduleHash{job: 1} }
	return &canned{
		Store:    ledger(t, store.Declared{Name: "kept", Schedule: "manual"}, store.Declared{Name: "old", Schedule: "manual"}),
		snapshot: jobs.Snapshot{Now: noon, Jobs: map[string]jobs.Known{"kept": {}, "old": {Gone: gone}}},
		roster: jobs.Roster{Now: noon, Leader: "leader", Replicas: []jobs.Replica{
			{Owner: "dead", Seen: noon.Add(-jobs.ReplicaLife - 1), Jobs: has("old")},
			{Owner: "follower", Seen: noon.Add(-jobs.ReplicaLife), Jobs: has("kept")},
			{Owner: "leader", Seen: noon, Jobs: has("kept")},
		}},
		gone: gone,
	}
}

var errAway = errors.New("the database is away")

// A job is forgotten when no replica has it and none does a run of it, and the error says
// what is in the way.
func TestForget(t *testing.T) {
	t.Parallel()
	open := func(job, owner string, state jobs.State) func(*canned) {
		return func(c *canned) {
			c.snapshot.Open = []jobs.Record{{Key: jobs.Key{Job: job, Tick: noon}, Owner: owner, State: state}}
		}
	}
	for _, test := range []struct {
		name   string
		job    string
		change func(*canned)
		is     error
		want   string
	}{
		{"gone", "old", func(*canned) {}, nil, ""},
		{"unknown", "nothing", func(*canned) {}, jobs.ErrNoJob, `"nothing" in group "g": there are kept, old`},
		{"declared", "kept", func(*canned) {}, jobs.ErrDeclared, "replicas have it: follower, leader: remove it there first"},
		{"older leader", "old", func(c *canned) { c.roster.Leader = "older" }, jobs.ErrDeclared, "the leader older does not tell"},
		{"no leader", "old", func(c *canned) { c.roster.Leader = "" }, nil, ""},
		{"last leader had it", "old", func(c *canned) { c.snapshot.Jobs["old"] = jobs.Known{} }, jobs.ErrDeclared, "the last leader had it"},
		{"run of the leader", "old", open("old", "leader", jobs.Running), jobs.ErrDeclared, "leader does its run of 2026-03-28T12:00:00Z"},
		{"run of a leader that does not tell of itself", "old", func(c *canned) {
			open("old", "older", jobs.Running)(c)
			c.roster.Replicas = append(c.roster.Replicas, jobs.Replica{Owner: "older", Seen: noon.Add(-time.Hour)})
			c.roster.Leader = "older"
		}, jobs.ErrDeclared, "older does its run"},
		{"run of a replica that lives", "old", open("old", "follower", jobs.Running), jobs.ErrDeclared, "follower does its run"},
		{"run of one that has died", "old", open("old", "dead", jobs.Running), nil, ""},
		{"run of one that is not known", "old", open("old", "nobody", jobs.Running), nil, ""},
		{"run that waits", "old", open("old", "leader", jobs.Waiting), nil, ""},
		{"run of another job", "old", open("kept", "leader", jobs.Running), nil, ""},
		{"declared meanwhile", "old", func(c *canned) { c.kept = true }, jobs.ErrDeclared, "a leader has declared it just now"},
		{"no roster", "old", func(c *canned) { c.rosterErr = errAway }, errAway, "away"},
		{"no snapshot", "old", func(c *canned) { c.loadErr = errAway }, errAway, "away"},
	} {
		c := removed(t)
		test.change(c)
		err := jobs.NewGroup(c, "g").Forget(t.Context(), test.job)
		if !errors.Is(err, test.is) {
			t.Errorf("%s: %v, want %v", test.name, err, test.is)
		}
		wantError(t, err, test.want)
	}
}

// A job that no replica has is not triggered, and the error says who had it last. Where that
// is not known for sure, it is triggered.
func TestTriggerOfARemovedJob(t *testing.T) {
	t.Parallel()
	ran := func(owner string, claimed time.Duration) jobs.Record {
		return jobs.Record{Key: jobs.Key{Job: "old", Tick: noon.Add(claimed)}, Owner: owner, Claimed: noon.Add(claimed)}
	}
	const since = `"old" in group "g", since 2026-03-28T11:00:00Z`
	for _, test := range []struct {
		name   string
		change func(*canned)
		is     error
		want   string
	}{
		{"never run", func(*canned) {}, jobs.ErrNotDeclared, since + ": it has never run"},
		{"asked for", func(c *canned) { c.runs = []jobs.Record{ran("", -2*time.Hour)} }, jobs.ErrNotDeclared, since + ": it has never run"},
		{"ran once", func(c *canned) { c.runs = []jobs.Record{ran("dead", -time.Hour)} }, jobs.ErrNotDeclared, since + ": dead had it last, for the tick of 2026-03-28T11:00:00Z"},
		{"was ended since", func(c *canned) { c.runs = []jobs.Record{ran("leader", -time.Minute), ran("dead", -2*time.Hour)} }, jobs.ErrNotDeclared, since + ": dead had it last, for the tick of 2026-03-28T10:00:00Z"},
		{"history away", func(c *canned) { c.runsErr = errAway }, jobs.ErrNotDeclared, since},
		{"not gone", func(c *canned) { c.gone = time.Time{} }, nil, ""},
		{"a follower has it", func(c *canned) { c.roster.Replicas[1].Jobs["old"] = 1 }, nil, ""},
		{"older leader", func(c *canned) { c.roster.Leader = "older" }, nil, ""},
		{"database away", func(c *canned) { c.goneErr = errAway }, errAway, "away"},
		{"no roster", func(c *canned) { c.rosterErr = errAway }, errAway, "away"},
	} {
		c := removed(t)
		test.change(c)
		_, err := jobs.NewGroup(c, "g").Trigger(t.Context(), "old")
		if !errors.Is(err, test.is) || (c.triggered == 1) != (err == nil) {
			t.Errorf("%s: %v, want %v; triggered %d times", test.name, err, test.is, c.triggered)
		}
		wantError(t, err, test.want)
	}
}
