package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// What a backfill would run is known before it is requested, and so is what keeps it from
// running.
func TestPlanBackfill(t *testing.T) {
	t.Parallel()
	c := &canned{Store: ledger(t), snapshot: jobs.Snapshot{Now: noon, Jobs: map[string]jobs.Known{}}}
	for job, schedule := range map[string]string{
		"seconds": "every 1s", "rate": "fixed rate 1h0m0s, initial delay 30m0s", "delay": "fixed delay 1h0m0s, initial delay 0s", "manual": "manual",
		"follower": "after rate", "teller": "on failure; at most 20 per 1h0m0s", "foreign": "when the moon is full",
	} {
		c.snapshot.Jobs[job] = jobs.Known{Schedule: schedule, ScheduleSince: noon.Add(-24 * time.Hour)}
	}
	minute := jobs.Backfill{From: noon.Add(-time.Minute)}
	with := func(change func(*jobs.Backfill)) jobs.Backfill {
		b := minute
		change(&b)
		return b
	}
	for _, test := range []struct {
		job   string
		b     jobs.Backfill
		ticks int
		want  string
	}{
		{"seconds", minute, 60, ""},
		{"seconds", with(func(b *jobs.Backfill) { b.To = noon }), 60, ""},
		{"seconds", with(func(b *jobs.Backfill) { b.To = noon.Add(1) }), 0, "only ticks that are past"},
		{"seconds", with(func(b *jobs.Backfill) { b.To = b.From.Add(1) }), 1, ""},
		{"seconds", with(func(b *jobs.Backfill) { b.To = b.From }), 0, "the end must be later"},
		{"seconds", jobs.Backfill{}, 0, "From is not set"},
		{"seconds", jobs.Backfill{From: noon.Add(-10_000 * time.Second)}, 10_000, ""},
		{"seconds", jobs.Backfill{From: noon.Add(-10_001 * time.Second)}, 0, "more than 10000 ticks"},
		{"seconds", with(func(b *jobs.Backfill) { b.Every = 24 * time.Hour }), 60, ""},
		{"seconds", with(func(b *jobs.Backfill) { b.Every = 24*time.Hour + 1 }), 0, "must be from 0 to 24h0m0s"},
		{"seconds", with(func(b *jobs.Backfill) { b.Every = -1 }), 0, "must be from 0 to 24h0m0s"},
		{"seconds", with(func(b *jobs.Backfill) { b.ID = 7 }), 0, "backfill 7: not the ID of a backfill"},
		{"rate", jobs.Backfill{From: noon.Add(-48 * time.Hour)}, 24, ""},
		{"delay", minute, 0, "depend on when its runs ended"},
		{"manual", minute, 0, "only run by hand"},
		{"follower", minute, 0, "due after rate"},
		{"teller", minute, 0, "tells of other jobs"},
		{"foreign", minute, 0, "not one of package jobs"},
		{"secnds", minute, 0, "did you mean seconds?"},
	} {
		planned, err := jobs.NewGroup(c, "g").PlanBackfill(t.Context(), test.job, test.b)
		if len(planned.Ticks) != test.ticks || triggers.IsBackfill(planned.ID) != (test.want == "") {
			t.Errorf("%s, %+v: %d ticks, ID %d, want %d ticks", test.job, test.b, len(planned.Ticks), planned.ID, test.ticks)
		}
		wantError(t, err, test.want)
	}
	c.loadErr = errAway
	_, err := jobs.NewGroup(c, "g").PlanBackfill(t.Context(), "seconds", minute)
	wantError(t, err, "away")
	if c.triggered != 0 {
		t.Errorf("planning triggered %d runs", c.triggered)
	}
}

// A backfill is one run at a time, each of which knows the next one, and is cancelled with it.
func TestBackfill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := jobs.NewGroup(ledger(t, store.Declared{Name: "a", Schedule: "every 1h0m0s"}, store.Declared{Name: "b", Schedule: "every 1h0m0s"}), "g")
	_, err := g.Backfill(ctx, "a", jobs.Backfill{From: noon, To: noon.Add(time.Hour), Args: make(chan int)})
	wantError(t, err, "arguments of type chan int")
	if none, err := g.Backfill(ctx, "a", jobs.Backfill{From: noon.Add(1), To: noon.Add(time.Hour)}); err != nil || none.Ticks != nil {
		t.Errorf("a span without ticks: %+v, %v", none, err)
	}
	for _, job := range []string{"a", "b"} {
		done, err := g.Backfill(ctx, job, jobs.Backfill{From: noon, To: noon.Add(3 * time.Hour), Every: time.Minute, Args: 7})
		if err != nil || len(done.Ticks) != 3 {
			t.Fatalf("%+v, %v", done, err)
		}
		runs, err := g.Runs(ctx, jobs.Filter{Job: job})
		if err != nil || len(runs) != 1 || runs[0].Trigger != done.ID || !runs[0].Tick.Equal(noon) || !runs[0].HasArgs {
			t.Fatalf("%+v, %v", runs, err)
		}
		for i, r := 0, runs[0]; i < 3; i++ {
			next, every, ok := r.NextOfBackfill()
			if ok != (i < 2) || ok && !next.Equal(noon.Add(time.Duration(i+1)*time.Hour)) || every != time.Minute {
				t.Errorf("after %v: %v, %v, %t", r.Tick, next, every, ok)
			}
			r.Tick = next
		}
	}
	if n, err := g.CancelBackfills(ctx, "a"); n != 1 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
	for job, want := range map[string]bool{"a": true, "b": false} {
		if runs, err := g.Runs(ctx, jobs.Filter{Job: job}); err != nil || runs[0].CancelAsked != want {
			t.Errorf("%+v, %v", runs, err)
		}
	}
	if n, err := g.CancelBackfills(ctx, "a"); n != 0 || err != nil {
		t.Errorf("cancelled %d again, %v", n, err)
	}
	_, err = g.CancelBackfills(ctx, "c")
	wantError(t, err, "no such job")
	for _, plan := range []string{"", "{", `{"schedule":"manual"}`, `{"schedule":"-"}`} {
		if next, _, ok := (jobs.Record{Backfill: plan}).NextOfBackfill(); ok {
			t.Errorf("%q: next %v", plan, next)
		}
	}
}

// A request for a backfill that may have failed is repeated with its ID. It is carried out
// once, even if the first of its runs has been pruned since.
func TestRepeatedBackfill(t *testing.T) {
	t.Parallel()
	id, other := triggers.Backfill(noon), triggers.Backfill(noon.Add(time.Minute))
	at := func(job string, id uint64) []jobs.Record {
		return []jobs.Record{{Key: jobs.Key{Job: job, Tick: noon.Add(-2 * time.Hour), Trigger: id}}}
	}
	for _, test := range []struct {
		name   string
		change func(*canned)
		asked  bool
		want   string
	}{
		{"nothing known", func(*canned) {}, true, ""},
		{"its run goes on", func(c *canned) { c.snapshot.Open = at("a", id) }, false, ""},
		{"its run is over", func(c *canned) { c.runs = at("a", id) }, false, ""},
		{"another backfill", func(c *canned) { c.snapshot.Open, c.runs = at("a", other), at("a", other) }, true, ""},
		{"a run of another job", func(c *canned) { c.snapshot.Open = at("b", id) }, true, ""},
		{"ten minutes later", func(c *canned) { c.snapshot.Now = noon.Add(10 * time.Minute) }, true, ""},
		{"after that", func(c *canned) { c.snapshot.Now = noon.Add(10*time.Minute + 1) }, false, "requested 2026-03-28T12:00:00Z: was it done?"},
		{"after that, with a run", func(c *canned) { c.snapshot.Now, c.runs = noon.Add(time.Hour), at("a", id) }, false, ""},
		{"history away", func(c *canned) { c.runsErr = errAway }, false, "away"},
	} {
		c := &canned{
			Store:    ledger(t, store.Declared{Name: "a", Schedule: "every 1h0m0s"}),
			snapshot: jobs.Snapshot{Now: noon, Jobs: map[string]jobs.Known{"a": {Schedule: "every 1h0m0s"}}},
		}
		test.change(c)
		done, err := jobs.NewGroup(c, "g").Backfill(t.Context(), "a", jobs.Backfill{From: noon.Add(-3 * time.Hour), To: noon, ID: id})
		if (c.triggered == 1) != test.asked || err == nil && (done.ID != id || len(done.Ticks) != 3) {
			t.Errorf("%s: %+v, %v; asked %d times", test.name, done, err, c.triggered)
		}
		wantError(t, err, test.want)
	}
}

// Backfills are cancelled also while their runs end and are followed, as long as the ledger answers.
func TestCancelBackfillsInAHurry(t *testing.T) {
	t.Parallel()
	c := &canned{Store: ledger(t), snapshot: jobs.Snapshot{Jobs: map[string]jobs.Known{"a": {}}, Open: []jobs.Record{{Key: jobs.Key{Job: "a", Tick: noon, Trigger: triggers.Backfill(noon)}}}}}
	n, err := jobs.NewGroup(c, "g").CancelBackfills(t.Context(), "a")
	if n != 0 || errors.Is(err, jobs.ErrNoRun) {
		t.Errorf("cancelled %d, %v", n, err)
	}
	wantError(t, err, "faster than they can be cancelled")
	c.loadErr = errAway
	_, err = jobs.NewGroup(c, "g").CancelBackfills(t.Context(), "a")
	wantError(t, err, "away")
}
