package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
)

func valid() jobs.Job {
	return jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute), Do: func(context.Context, jobs.Run) error { return nil }}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		want   string // a part of the error's text
		change func(*jobs.Job)
	}{
		{"", func(*jobs.Job) {}},
		{"", func(j *jobs.Job) {
			j.Misfire, j.CatchUp = jobs.MisfireAll, jobs.CatchUp{Limit: 10_000, Deadline: time.Hour}
			j.Recover, j.Overlap, j.Limit = jobs.RecoverRerun, jobs.OverlapReplace, 3
			j.LockAtMostFor, j.LockAtLeastFor, j.History = time.Hour, time.Minute, jobs.History{Keep: 1, For: time.Hour}
		}},
		{"", func(j *jobs.Job) { j.Name = strings.Repeat("a", 128) }},
		{"", func(j *jobs.Job) { j.Schedule = jobs.Manual() }},
		{"", func(j *jobs.Job) { j.Schedule = jobs.FixedRate(time.Second) }},
		{"", func(j *jobs.Job) { j.Jitter = time.Minute }},
		{"", func(j *jobs.Job) { j.Schedule, j.Jitter = jobs.FixedDelay(time.Second), time.Hour }},
		{"", func(j *jobs.Job) { j.PauseAfter = 1000 }},
		{"", func(j *jobs.Job) { j.PauseAfter, j.History.Keep = 3, 3 }},
		{"", func(j *jobs.Job) { j.PauseAfter, j.History.For = 3, 3*time.Minute }},
		{`name ""`, func(j *jobs.Job) { j.Name = "" }},
		{`name "aaa`, func(j *jobs.Job) { j.Name = strings.Repeat("a", 129) }},
		{`name "a b"`, func(j *jobs.Job) { j.Name = "a b" }},
		{`name "ä"`, func(j *jobs.Job) { j.Name = "ä" }},
		{`"a": no Schedule`, func(j *jobs.Job) { j.Schedule = nil }},
		{`"a": no Do`, func(j *jobs.Job) { j.Do = nil }},
		{`"a": Timeout -1s`, func(j *jobs.Job) { j.Timeout = -time.Second }},
		{`"a": every 1ms`, func(j *jobs.Job) { j.Schedule = jobs.Every(time.Millisecond) }},
		{`"a": Misfire 3`, func(j *jobs.Job) { j.Misfire = 3 }},
		{`"a": Recover 2`, func(j *jobs.Job) { j.Recover = 2 }},
		{`"a": Overlap 4`, func(j *jobs.Job) { j.Overlap = 4 }},
		{`"a": CatchUp.Limit -1`, func(j *jobs.Job) { j.CatchUp.Limit = -1 }},
		{`"a": CatchUp.Limit 10001: must be from 0 to 10000`, func(j *jobs.Job) { j.CatchUp.Limit = 10_001 }},
		{`"a": CatchUp.Deadline -1s`, func(j *jobs.Job) { j.CatchUp.Deadline = -time.Second }},
		{`"a": overlap: Limit -1`, func(j *jobs.Job) { j.Limit = -1 }},
		{`"a": LockAtMostFor -1s`, func(j *jobs.Job) { j.LockAtMostFor = -time.Second }},
		{`"a": LockAtLeastFor -1s`, func(j *jobs.Job) { j.LockAtLeastFor = -time.Second }},
		{`"a": History {Keep:-1`, func(j *jobs.Job) { j.History.Keep = -1 }},
		{`"a": History {Keep:0 For:-1s}`, func(j *jobs.Job) { j.History.For = -time.Second }},
		{`"a": Retry.Attempts -1`, func(j *jobs.Job) { j.Retry.Attempts = -1 }},
		{`"a": Jitter -1s: must not be negative`, func(j *jobs.Job) { j.Jitter = -time.Second }},
		{`"a": Jitter 1m0.001s: must be at most 1m0s`, func(j *jobs.Job) { j.Jitter = time.Minute + time.Millisecond }},
		{`"a": Jitter 1h1m0s: must be at most 1h0m0s`, func(j *jobs.Job) { j.Schedule, j.Jitter = jobs.Cron("0 1,4,5 * * *"), 61*time.Minute }},
		{`"a": PauseAfter -1: must be from 0 to 1000`, func(j *jobs.Job) { j.PauseAfter = -1 }},
		{`"a": Priority 3: not known`, func(j *jobs.Job) { j.Priority = 3 }},
		{`"a": Pool "reports": Limit 0: must be at least 1`, func(j *jobs.Job) { j.Pool.Name = "reports" }},
		{`"a": Pool: its name must be 1 to 128 letters`, func(j *jobs.Job) { j.Pool.Limit = 3 }},
		{`"a": PauseAfter 1001: must be from 0 to 1000`, func(j *jobs.Job) { j.PauseAfter = 1001 }},
		{`"a": PauseAfter 3: History.Keep 2 keeps fewer runs`, func(j *jobs.Job) { j.PauseAfter, j.History.Keep = 3, 2 }},
		{`"a": PauseAfter 3: History.For 2m59s keeps fewer runs: so many ticks take up to 3m0s`, func(j *jobs.Job) { j.PauseAfter, j.History.For = 3, 3*time.Minute-time.Second }},
		{`"a": fixed rate 999ms: must be at least 1s`, func(j *jobs.Job) { j.Schedule = jobs.FixedRate(999 * time.Millisecond) }},
		{`"a": fixed rate 1.0000001s: must be a whole`, func(j *jobs.Job) { j.Schedule = jobs.FixedRate(time.Second + 100) }},
		{`"a": fixed delay: initial delay -1s`, func(j *jobs.Job) { j.Schedule = jobs.FixedDelay(time.Second).InitialDelay(-time.Second) }},
		{`"a": fixed delay: initial delay 1ns: must be a whole`, func(j *jobs.Job) { j.Schedule = jobs.FixedDelay(time.Second).InitialDelay(1) }},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			j := valid()
			test.change(&j)
			wantError(t, j.Validate(), test.want)
		})
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	j := jobs.Job{LockAtMostFor: time.Hour}.Complete()
	if j.CatchUp.Limit != 1000 || j.Timeout != time.Hour || j.History != (jobs.History{Keep: 10_000, For: 30 * 24 * time.Hour}) {
		t.Errorf("%+v", j)
	}
	j = jobs.Job{CatchUp: jobs.CatchUp{Limit: 1}, Timeout: time.Minute, LockAtMostFor: time.Hour, History: jobs.History{Keep: 5}}
	if c := j.Complete(); c.CatchUp.Limit != 1 || c.Timeout != time.Minute || c.History != j.History {
		t.Errorf("%+v", c)
	}
	j = jobs.Job{Schedule: jobs.Every(30 * 24 * time.Hour), PauseAfter: 3}
	if c := j.Complete(); c.History.For != 90*24*time.Hour {
		t.Errorf("keeps %v of monthly ticks, and counts up to 3 failures in a row", c.History.For)
	}
}

func TestCallRecoversAPanic(t *testing.T) {
	t.Parallel()
	cause := errors.New("no luck")
	for _, value := range []any{"boom", cause} {
		j := valid()
		j.Do = func(context.Context, jobs.Run) error { panic(value) }
		err := j.Call(t.Context(), jobs.Run{})
		var panicked *jobs.PanicError
		if !errors.As(err, &panicked) || panicked.Value != value || !strings.Contains(string(panicked.Stack), "job_test.go") {
			t.Errorf("%v: %v", value, err)
		}
		if errors.Is(err, cause) != (value == any(cause)) {
			t.Errorf("%v: %v", value, err)
		}
	}
}

// broken is an error that cannot be read when it is nil, as it is by mistake.
type broken struct{ text string }

func (b *broken) Error() string { return b.text }

// chained panics where its chain is read.
type chained struct{ error }

func (chained) Unwrap() error { panic("no chain") }

// An error that cannot be read takes no process down.
func TestCallReadsTheError(t *testing.T) {
	t.Parallel()
	for name, returned := range map[string]func(context.Context, jobs.Run) error{
		"a nil pointer": func(context.Context, jobs.Run) error { return (*broken)(nil) },
		"permanent":     func(context.Context, jobs.Run) error { return jobs.Permanent((*broken)(nil)) },
		"its chain":     func(context.Context, jobs.Run) error { return chained{errors.New("x")} },
		"as a panic":    func(context.Context, jobs.Run) error { panic(chained{errors.New("x")}) },
	} {
		j := valid()
		j.Do = returned
		err := j.Call(t.Context(), jobs.Run{})
		var panicked *jobs.PanicError
		if !errors.As(err, &panicked) || !strings.Contains(err.Error(), "cannot be read") || panicked.Unwrap() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A schedule whose ticks do not go on is refused.
func TestScheduleGoesOn(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(time.Time) time.Time{
		"Next(":         func(after time.Time) time.Time { return after },
		"must be later": func(after time.Time) time.Time { return after.Add(-time.Hour) },
		"Next panics":   func(time.Time) time.Time { panic("no calendar") },
	} {
		j := valid()
		j.Schedule = custom(next)
		if err := j.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// custom is a schedule of the caller's own.
type custom func(time.Time) time.Time

func (c custom) Next(after time.Time) time.Time { return c(after) }
func (custom) String() string                   { return "custom" }

// Names of policies and states are read as they are written.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, m := range jobs.Misfires() {
		if got, err := jobs.ParseMisfire(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	for _, r := range jobs.Recovers() {
		if got, err := jobs.ParseRecover(r.String()); got != r || err != nil {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	for _, o := range jobs.Overlaps() {
		if got, err := jobs.ParseOverlap(o.String()); got != o || err != nil {
			t.Errorf("%v: %v, %v", o, got, err)
		}
	}
	order := []jobs.Priority{jobs.PriorityHigh, jobs.PriorityNormal, jobs.PriorityLow}
	for i, p := range order {
		if got, err := jobs.ParsePriority(p.String()); got != p || err != nil {
			t.Errorf("%v: %v, %v", p, got, err)
		}
		for j, o := range order {
			if p.Before(o) != (i < j) {
				t.Errorf("%v before %v: %v", p, o, p.Before(o))
			}
		}
	}
	if len(order) != len(jobs.Priorities()) {
		t.Errorf("the priorities are %v", jobs.Priorities())
	}
	for s := jobs.Running; s <= jobs.Interrupted; s++ {
		if got, err := jobs.ParseState(s.String()); got != s || err != nil || s.Over() != (s != jobs.Running && s != jobs.Waiting) {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	_, err := jobs.ParseOverlap("forbit")
	wantError(t, err, `"forbit": must be one of ["forbid" "queue" "allow" "replace"]`)
	_, err = jobs.ParseState("")
	wantError(t, err, `must be one of ["running"`)
	if s := jobs.Overlap(4).String() + jobs.State(0).String() + jobs.State(10).String(); s != "4State(0)State(10)" {
		t.Error(s)
	}
}

// Everything that is wrong with a job is said at once.
func TestValidateSaysAll(t *testing.T) {
	t.Parallel()
	j := valid()
	j.Name, j.Schedule, j.Do = "a b", jobs.Cron("61 * * * *").In("Mars/Olympus"), nil
	j.Timeout, j.Misfire, j.Limit, j.History.Keep = -time.Second, 9, -1, -1
	j.Retry = jobs.Retry{Attempts: -1, Initial: -1, Jitter: 2}
	err := j.Validate()
	for _, want := range []string{
		`name "a b"`, `"a b": no Do`, `"a b": Timeout -1s`, `"a b": zone "Mars/Olympus"`, `"61"`, `"a b": Misfire 9`, `"a b": overlap: Limit -1`,
		`"a b": History`, `"a b": Retry.Attempts -1`, `"a b": Retry.Initial -1ns`, `"a b": Retry.Jitter 2`,
	} {
		wantError(t, err, want)
	}
	j = valid()
	j.Schedule = jobs.FixedRate(0).InitialDelay(-1)
	wantError(t, j.Validate(), "fixed rate 0s")
	wantError(t, j.Validate(), "initial delay -1ns")
	var field *cron.Error
	j.Schedule = jobs.Cron("61 * * * *").In("Mars/Olympus")
	if err := j.Validate(); !errors.As(err, &field) {
		t.Errorf("%v: has no *cron.Error", err)
	}
}

// A job without ticks has nothing to spread.
func TestJitterOfManualJob(t *testing.T) {
	t.Parallel()
	j := jobs.Job{Name: "job", Schedule: jobs.Manual(), Jitter: time.Second, Do: func(context.Context, jobs.Run) error { return nil }}
	if err := j.Validate(); err == nil || !strings.Contains(err.Error(), "Jitter 1s") {
		t.Errorf("got %v", err)
	}
}
