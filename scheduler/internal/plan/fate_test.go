package plan

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

func in(state jobs.State, r jobs.Record) jobs.Record {
	r.State = state
	return r
}

func cancelled(r jobs.Record) jobs.Record {
	r.CancelAsked = true
	return r
}

func tried(r jobs.Record, attempt int) jobs.Record {
	r.Attempt = attempt
	return r
}

func unbegun(r jobs.Record, n int) jobs.Record {
	r.Unbegun = n
	return r
}

func TestFate(t *testing.T) {
	t.Parallel()
	rerun := jobs.Job{Recover: jobs.RecoverRerun}
	patient := jobs.Job{Recover: jobs.RecoverRerun, Retry: jobs.Retry{Attempts: 8}}
	running, waiting := in(jobs.Running, tried(aTick, 1)), in(jobs.Waiting, aTick)
	for _, test := range []struct {
		name  string
		job   jobs.Job
		enter func(*Job)
		found Found
		want  Fate
	}{
		{"in hand", jobs.Job{}, nil, Found{Record: running, InHand: true, Ours: true}, KeepOn},
		{"in hand, and its end was asked for", jobs.Job{}, nil, Found{Record: cancelled(running), InHand: true, Ours: true}, Stop},
		{"in hand of a job that was removed, and its end was asked for", jobs.Job{}, (*Job).Remove, Found{Record: cancelled(running), InHand: true, Ours: true}, Stop},
		{"of a job that was removed", jobs.Job{}, (*Job).Remove, Found{Record: waiting}, KeepOn},
		{"of a job that was removed, may go on", jobs.Job{}, (*Job).Remove, Found{Record: running, Stands: true}, KeepOn},
		{"may go on elsewhere", rerun, nil, Found{Record: running, Stands: true}, LeaveAlone},
		{"may go on elsewhere, and its end was asked for", rerun, nil, Found{Record: cancelled(running), Stands: true}, LeaveAlone},
		{"waits, of an earlier term that may go on", rerun, nil, Found{Record: waiting, Stands: true}, Start},
		{"its end was asked for", jobs.Job{}, nil, Found{Record: cancelled(waiting)}, Cancel},
		{"its end was asked for elsewhere", jobs.Job{}, nil, Found{Record: cancelled(running)}, Cancel},
		{"follows another", jobs.Job{}, nil, Found{Record: in(jobs.Waiting, aFollower)}, LineUp},
		{"is a notice", jobs.Job{}, nil, Found{Record: in(jobs.Waiting, aNotice)}, LineUp},
		{"follows another, and was tried", jobs.Job{}, nil, Found{Record: in(jobs.Waiting, tried(aFollower, 1))}, Start},
		{"of a backfill", jobs.Job{}, nil, Found{Record: in(jobs.Waiting, aBackfill)}, HoldBack},
		{"of a backfill, and was tried", jobs.Job{}, nil, Found{Record: in(jobs.Waiting, tried(aBackfill, 2))}, Start},
		{"by hand", jobs.Job{}, nil, Found{Record: in(jobs.Waiting, byHand)}, Start},
		{"waits", jobs.Job{}, nil, Found{Record: waiting, Ours: true}, Start},
		{"was interrupted", jobs.Job{}, nil, Found{Record: running}, Interrupted},
		{"was interrupted, and runs again", rerun, nil, Found{Record: in(jobs.Running, tried(aTick, 4))}, RunAgain},
		{"was interrupted too often", rerun, nil, Found{Record: in(jobs.Running, tried(aTick, 5))}, Interrupted},
		{"was interrupted too often, but for attempts that had not begun", rerun, nil, Found{Record: unbegun(in(jobs.Running, tried(aTick, 6)), 2)}, RunAgain},
		{"was interrupted, and has more attempts", patient, nil, Found{Record: in(jobs.Running, tried(aTick, 7))}, RunAgain},
		{"was interrupted, and has no more attempts", patient, nil, Found{Record: in(jobs.Running, tried(aTick, 8))}, Interrupted},
		{"ours, from a restored table", jobs.Job{}, nil, Found{Record: running, Ours: true}, Interrupted},
		{"ours, and runs again", rerun, nil, Found{Record: running, Ours: true}, Reclaim},
		{"ours, and was refused", jobs.Job{}, func(j *Job) { j.noteRefused(running.Key) }, Found{Record: running, Ours: true}, Reclaim},
		{"ours, and was refused, and is too late", jobs.Job{CatchUp: jobs.CatchUp{Deadline: time.Second}}, func(j *Job) { j.noteRefused(running.Key) }, Found{Record: running, Ours: true}, Lapse},
		{"ours, and too late", jobs.Job{CatchUp: jobs.CatchUp{Deadline: time.Second}}, nil, Found{Record: running, Ours: true}, Interrupted},
	} {
		j := planned(test.job, crowd{})
		if test.enter != nil {
			test.enter(j)
		}
		if got := j.Fate(test.found, at(2)); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if got := j.IsLeft(test.found); got != (test.want == LeaveAlone) {
			t.Errorf("%s: left alone: %v", test.name, got)
		}
	}
	j := planned(jobs.Job{}, crowd{})
	if j.IsLeft(Found{Record: running, Stands: true, Ours: true}) || j.IsLeft(Found{Record: running, Stands: true, InHand: true}) {
		t.Error("a run of this term is left alone")
	}
}

func TestWhyInterrupted(t *testing.T) {
	t.Parallel()
	by := func(attempt int) jobs.Record { return jobs.Record{Owner: "a/vm", Attempt: attempt} }
	skips, reruns := planned(jobs.Job{}, crowd{}), planned(jobs.Job{Recover: jobs.RecoverRerun}, crowd{})
	for _, test := range []struct{ got, want string }{
		{skips.WhyInterrupted(by(1), false), "not finished by a/vm"},
		{reruns.WhyInterrupted(by(1), false), "not finished by a/vm"},
		{reruns.WhyInterrupted(by(5), false), "not finished by a/vm, and interrupted too often to be run again"},
		{skips.WhyInterrupted(by(5), false), "not finished by a/vm"},
		{reruns.WhyInterrupted(by(5), true), "not in hand of its holder"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestLineUp(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{Schedule: jobs.After("other"), CatchUp: jobs.CatchUp{Limit: 1}}, crowd{})
	if why := j.LineUp(at(1), nil); why != "" {
		t.Errorf("skipped: %s", why)
	}
	if why := j.LineUp(at(1), []jobs.Pause{{Began: noon}}); why != event.WhyPaused {
		t.Errorf("in a pause, skipped: %s", why)
	}
	j.inLine(1)
	if why := j.LineUp(at(1), nil); why != lineFull {
		t.Errorf("with a full line, skipped: %s", why)
	}
}

// What waits does not wait longer than its policies say, whatever became of the database's clock.
func TestWait(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{Jitter: 10 * time.Second, Retry: jobs.Retry{Attempts: 3, Initial: time.Minute}}, crowd{})
	due := func(attempt int, after time.Duration) jobs.Record {
		return jobs.Record{Attempt: attempt, Due: noon.Add(after)}
	}
	longest := j.job.Retry.Longest(1)
	for _, test := range []struct {
		record jobs.Record
		want   time.Duration
	}{
		{due(0, 3*time.Second), 3 * time.Second},
		{due(0, time.Hour), 10 * time.Second},
		{due(0, -time.Hour), -time.Hour},
		{due(1, 3*time.Second), 3 * time.Second},
		{due(1, time.Hour), longest},
	} {
		if got := j.Wait(test.record, noon); got != test.want {
			t.Errorf("attempt %d, due %v: waits %v, want %v", test.record.Attempt, test.record.Due, got, test.want)
		}
	}
}

func TestHasLapsed(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{CatchUp: jobs.CatchUp{Deadline: time.Second}}, crowd{})
	for _, test := range []struct {
		record jobs.Record
		now    time.Time
		want   bool
	}{
		{aTick, at(1).Add(time.Second), false}, {aTick, at(2), true}, {aRetry, at(2), false}, {byHand, at(2), false}, {aBackfill, at(2), false},
	} {
		if got := j.HasLapsed(test.record, test.now); got != test.want {
			t.Errorf("%v, attempt %d, at %v: %v", test.record.Key, test.record.Attempt, test.now, got)
		}
	}
	if planned(jobs.Job{}, crowd{}).HasLapsed(aTick, at(1000)) {
		t.Error("without a deadline")
	}
}

// Attempts may be counted and not have begun: their leaders have handed the run on before.
func TestUnbegun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		r    jobs.Record
		held bool // a run of a backfill would be held
	}{
		{jobs.Record{State: jobs.Waiting}, true},
		{jobs.Record{State: jobs.Waiting, Attempt: 1, Details: jobs.Details{Unbegun: 1}}, true},
		{jobs.Record{State: jobs.Waiting, Attempt: 1}, false},
		{jobs.Record{State: jobs.Running, Attempt: 1}, false},
		{jobs.Record{State: jobs.Waiting, Attempt: 2, Details: jobs.Details{Unbegun: 1}}, false},
		{jobs.Record{State: jobs.Waiting, Attempt: 2, Details: jobs.Details{Unbegun: 2}}, true},
	} {
		test.r.Trigger = aBackfill.Trigger
		if held := IsHeld(test.r); held != test.held {
			t.Errorf("%+v: is held: %t", test.r, held)
		}
	}
}

func TestLateAnswer(t *testing.T) {
	t.Parallel()
	skip, deadline, plain := jobs.Job{Misfire: jobs.MisfireSkip}, jobs.Job{CatchUp: jobs.CatchUp{Deadline: time.Minute}}, jobs.Job{}
	for _, test := range []struct {
		job              *jobs.Job
		claimed, answers time.Duration // after the tick
		want             string
	}{
		{&skip, OnTime, time.Hour, ""},
		{&skip, OnTime + 1, time.Hour, Missed},
		{&deadline, time.Hour, time.Minute, ""},
		{&deadline, 0, time.Minute + 1, TooLate},
		{&plain, time.Hour, time.Hour, ""},
	} {
		j := New("g", test.job)
		if got := j.LateAnswer(noon, noon.Add(test.claimed), noon.Add(test.answers)); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
