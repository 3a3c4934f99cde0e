package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

func TestAfter(t *testing.T) {
	s := jobs.After("extract")
	if parsed, ok := jobs.ParseSchedule(s.String()); !ok || parsed != jobs.Schedule(s) || s.String() != "after extract" || s.Job() != "extract" {
		t.Errorf("%q is parsed as %v, %t", s, parsed, ok)
	}
	if next := s.Next(time.Now()); !next.IsZero() || jobs.NeverDue(s, time.Now()) {
		t.Errorf("next %v", next)
	}
	do := func(context.Context, jobs.Run) error { return nil }
	for want, job := range map[string]jobs.Job{
		"expected the name of a job": {Name: "job", Schedule: jobs.After("no job"), Do: do},
		"Jitter 1s":                  {Name: "job", Schedule: s, Do: do, Jitter: time.Second},
		"calendar: a job after":      {Name: "job", Schedule: jobs.Within(s, jobs.Calendar{From: time.Now()}), Do: do},
		"overlap replace":            {Name: "job", Schedule: s, Do: do, Overlap: jobs.OverlapReplace},
	} {
		if err := job.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", job, err, want)
		}
	}
	if err := (jobs.Job{Name: "job", Schedule: s, Do: do}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestCheckPipelines(t *testing.T) {
	hourly := jobs.Every(time.Hour)
	for _, c := range []struct {
		schedules map[string]jobs.Schedule
		want      map[string]string
	}{
		{map[string]jobs.Schedule{"a": hourly, "b": jobs.After("a"), "c": jobs.After("b"), "d": jobs.After("a")}, nil},
		{map[string]jobs.Schedule{"extract": hourly, "load": jobs.After("extrakt")}, map[string]string{"load": `no such job: did you mean extract?`}},
		{map[string]jobs.Schedule{"extract": hourly, "load": jobs.After("mail")}, map[string]string{"load": `and there is no such job`}},
		{map[string]jobs.Schedule{"a": jobs.After("a")}, map[string]string{"a": "a after a"}},
		{
			map[string]jobs.Schedule{"a": jobs.After("c"), "b": jobs.After("a"), "c": jobs.After("b"), "d": jobs.After("c")},
			map[string]string{"a": "a after c after b after a", "b": "b after a after c after b", "c": "c after b after a after c"},
		},
	} {
		got := jobs.CheckPipelines(c.schedules)
		if len(got) != len(c.want) {
			t.Errorf("%v: %v, want %v", c.schedules, got, c.want)
		}
		for name, want := range c.want {
			if got[name] == nil || !strings.HasSuffix(got[name].Error(), want) {
				t.Errorf("%s: %v, want %s", name, got[name], want)
			}
		}
	}
}

// The schedule of shards says whose they are.
func TestShardsSchedule(t *testing.T) {
	t.Parallel()
	s := jobs.ShardsSchedule("report")
	if parsed, ok := jobs.ParseSchedule("shards of report"); !ok || parsed != jobs.Schedule(s) || s.ShardsOf() != "report" || jobs.Manual().ShardsOf() != "" {
		t.Errorf("%v %v", parsed, ok)
	}
	if words := jobs.InWords(s); words != "with each run of report" {
		t.Error(words)
	}
}
