package jobs_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

func TestNotifier(t *testing.T) {
	for _, c := range []struct {
		schedule    jobs.NotifySchedule
		text, words string
	}{
		{jobs.OnFailure(), "on failure; at most 20 per 1h0m0s", "when a job fails"},
		{jobs.OnFailure().OnRecovery().OnMissed(), "on failure; on recovery; on missed; at most 20 per 1h0m0s", "when a job fails, recovers or misses a tick"},
		{jobs.OnFailure("b", "a", "b").OnMissed("a", "b").OnRecovery(), "on failure of a, b; on recovery; on missed of a, b; at most 20 per 1h0m0s", "when a or b fails or misses a tick; when a job recovers"},
		{jobs.OnMissed("a", "b", "c", "d").AtMost(1000, 7*24*time.Hour), "on missed of a, b, c, d; at most 1000 per 168h0m0s", "when a, b, c or d misses a tick"},
		{jobs.OnMissed("a", "b", "c", "d", "e").AtMost(0, 0), "on missed of a, b, c, d, e", "when one of 5 jobs misses a tick"},
		{jobs.OnRecovery("all").AtMost(1, time.Second), "on recovery of all; at most 1 per 1s", "when all recovers"},
	} {
		parsed, ok := jobs.ParseSchedule(c.text)
		if c.schedule.Err() != nil || c.schedule.String() != c.text || !ok || parsed != jobs.Schedule(c.schedule) {
			t.Errorf("%q (%v), want %q, which is parsed as %v, %t", c.schedule, c.schedule.Err(), c.text, parsed, ok)
		}
		if words := jobs.InWords(c.schedule); words != c.words {
			t.Errorf("%q, want %q", words, c.words)
		}
		if next := c.schedule.Next(time.Now()); !next.IsZero() || jobs.NeverDue(c.schedule, time.Now()) {
			t.Errorf("%v: next %v", c.schedule, next)
		}
	}
	for _, text := range []string{"on ", "on failure of", "on failure; at most 0 per 1h0m0s", "on failures", "on failure of b, a"} {
		if s, ok := jobs.ParseSchedule(text); ok {
			t.Errorf("%q is parsed as %#v", text, s)
		}
	}
	s := jobs.OnFailure().OnMissed("a", "b").AtMost(5, time.Minute)
	if _, all := s.Jobs(jobs.NoticeFailure); !all {
		t.Error("not all failures")
	}
	if named, all := s.Jobs(jobs.NoticeMissed); all || !slices.Equal(named, []string{"a", "b"}) {
		t.Errorf("missed of %v, %t", named, all)
	}
	if named, all := s.Jobs(jobs.NoticeRecovery); all || named != nil {
		t.Errorf("recovery of %v, %t", named, all)
	}
	if n, per, ok := s.Limit(); n != 5 || per != time.Minute || !ok {
		t.Errorf("at most %d per %v, %t", n, per, ok)
	}
	if _, _, ok := s.AtMost(0, 0).Limit(); ok {
		t.Error("a limit of zero is one")
	}
}

func TestNotifierIsChecked(t *testing.T) {
	do := func(context.Context, jobs.Run) error { return nil }
	s := jobs.OnFailure()
	long := make([]string, 200)
	for i := range long {
		long[i] = strings.Repeat("a", 100) + string(rune('a'+i%26)) + strings.Repeat("b", i/26)
	}
	for want, job := range map[string]jobs.Job{
		"expected the name of a job":   {Schedule: jobs.OnFailure("no job")},
		"without events":               {Schedule: jobs.NotifySchedule{}},
		"must be from 0 to 1000":       {Schedule: s.AtMost(1001, time.Hour)},
		"must be from 1s":              {Schedule: s.AtMost(1, time.Millisecond)},
		"name none":                    {Schedule: jobs.OnMissed(long...)},
		"Jitter 1s":                    {Schedule: s, Jitter: time.Second},
		"calendar: a job that tells":   {Schedule: jobs.Within(s, jobs.Calendar{From: time.Now()})},
		"overlap replace":              {Schedule: s, Overlap: jobs.OverlapReplace},
		"everywhere tells of no other": {Schedule: s, Everywhere: true},
	} {
		job.Name, job.Do = "job", do
		if err := job.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", job, err, want)
		}
	}
	if err := (jobs.Job{Name: "job", Schedule: s, Do: do}).Validate(); err != nil {
		t.Error(err)
	}
	longest := jobs.OnMissed(append(long[:114:114], strings.Repeat("z", 49))...).AtMost(0, 0)
	if n, err := len(longest.String()), longest.Err(); n != 12_000 || err != nil {
		t.Errorf("%d letters: %v", n, err)
	}
	hourly := jobs.Every(time.Hour)
	for want, schedules := range map[string]map[string]jobs.Schedule{
		"": {"a": hourly, "b": jobs.After("a"), "tell": jobs.OnFailure("a", "b").OnMissed()},
		`job "tell" tells of "extrakt", and there is no such job: did you mean extract?`: {"extract": hourly, "tell": jobs.OnMissed("extrakt")},
		`job "tell" tells of "other", which tells of jobs itself`:                        {"other": s, "tell": jobs.OnMissed("other")},
		`job "tell" tells of "tell", which`:                                              {"tell": jobs.OnMissed("tell")},
		`job "tell" is due after "other", which tells of other jobs`:                     {"other": s, "tell": jobs.After("other")},
	} {
		if err := jobs.CheckPipelines(schedules)["tell"]; (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", schedules, err, want)
		}
	}
}

// The keys are relied on.
func TestNotice(t *testing.T) {
	tick := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	n := jobs.Notice{
		Event: jobs.NoticeFailure, Group: "billing", Job: "invoices", Tick: tick, Kind: "schedule", State: jobs.TimedOut,
		Attempt: 3, Error: "why", Owner: "a/b", LeftOut: 2,
	}
	for want, n := range map[string]jobs.Notice{
		"invoices (billing, 2026-05-04T03:02:01Z) was stopped by its timeout after 3 attempts: why (2 notices left out before)": n,
		"invoices (billing, 2026-05-04T03:02:01Z) works again":                                                                  {Event: jobs.NoticeRecovery, Group: "billing", Job: "invoices", Tick: tick, Kind: "trigger", State: jobs.Succeeded},
		"invoices (billing, 2026-05-04T03:02:01Z) missed 1 tick: too late to start":                                             {Event: jobs.NoticeMissed, Group: "billing", Job: "invoices", Tick: tick, Kind: "schedule", Missed: 1, State: jobs.Skipped, Error: "too late to start"},
		"invoices (billing, 2026-05-04T03:02:01Z) failed: a: b [2J c d":                                                         {Event: jobs.NoticeFailure, Group: "billing", Job: "invoices", Tick: tick, Kind: "schedule", State: jobs.Failed, Attempt: 1, Error: "a:\n\tb \x1b[2J\r\nc\u202ed\u2028"},
		"a test of the notifier tell (billing)":                                                                                 {Event: jobs.NoticeTest, Group: "billing", Job: "tell"},
	} {
		if got := n.Describe(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	n.Text = "text"
	text, err := json.Marshal(n)
	const want = `{"event":"failure","group":"billing","job":"invoices","tick":"2026-05-04T03:02:01Z","trigger":0,"kind":"schedule",` +
		`"state":"timed out","attempt":3,"error":"why","owner":"a/b","missed":0,"left_out":2,"text":"text"}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v\nwant %s", text, err, want)
	}
	if back, err := jobs.StrictArgsOf[jobs.Notice](jobs.Run{Args: text}); err != nil || back != n {
		t.Errorf("%+v, %v", back, err)
	}
}
