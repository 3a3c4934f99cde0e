package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, test := range []struct {
		name string
		end  RunEnd
		want store.Verdict
	}{
		{"succeeded", RunEnd{To: jobs.Succeeded}, store.JobWorks},
		{"failed", RunEnd{To: jobs.Failed}, store.JobFails},
		{"timed out", RunEnd{To: jobs.TimedOut}, store.JobFails},
		{"panicked", RunEnd{To: jobs.Panicked}, store.JobFails},
		{"interrupted", RunEnd{To: jobs.Interrupted}, store.JobFails},
		{"waits", RunEnd{To: jobs.Waiting}, store.NoVerdict},
		{"skipped", RunEnd{To: jobs.Skipped, Why: TooLate}, store.NoVerdict},
		{"cancelled by the end of its term", RunEnd{To: jobs.Cancelled, Why: "the lease was lost"}, store.JobFails},
		{"cancelled by request", RunEnd{To: jobs.Cancelled, Asked: true}, store.NoVerdict},
		{"cancelled since its job was away", RunEnd{To: jobs.Cancelled, Why: NotDeclared}, store.NoVerdict},
		{"cancelled for a newer tick", RunEnd{To: jobs.Cancelled, Why: fmt.Sprint(jobs.ErrReplacedByTick, ": ", failed)}, store.NoVerdict},
		{"failed when its end was asked for", RunEnd{To: jobs.Failed, Asked: true}, store.JobFails},
	} {
		if got := test.end.says(); got != test.want || test.end.Verdict() != test.want {
			t.Errorf("%s: %v, of its job %v, want %v", test.name, got, test.end.Verdict(), test.want)
		}
		test.end.Record.Key = aBackfill.Key
		if got := test.end.Verdict(); got != store.NoVerdict || test.end.says() != test.want {
			t.Errorf("%s, in a backfill: %v", test.name, got)
		}
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	once := jobs.Job{}
	retries := jobs.Job{Retry: jobs.Retry{Attempts: 2, Initial: time.Minute}}
	reruns := jobs.Job{Recover: jobs.RecoverRerun}
	for _, test := range []struct {
		name  string
		job   jobs.Job
		ended AttemptEnd
		want  jobs.State
		waits bool
	}{
		{"succeeded", retries, AttemptEnd{State: jobs.Succeeded, Attempt: 1}, jobs.Succeeded, false},
		{"failed", once, AttemptEnd{State: jobs.Failed, Attempt: 1}, jobs.Failed, false},
		{"failed, and is retried", retries, AttemptEnd{State: jobs.Failed, Attempt: 1}, jobs.Waiting, true},
		{"timed out, and is retried", retries, AttemptEnd{State: jobs.TimedOut, Attempt: 1}, jobs.Waiting, true},
		{"panicked, and is retried", retries, AttemptEnd{State: jobs.Panicked, Attempt: 1}, jobs.Waiting, true},
		{"failed for the last time", retries, AttemptEnd{State: jobs.Failed, Attempt: 2}, jobs.Failed, false},
		{"failed for good", retries, AttemptEnd{State: jobs.Failed, Attempt: 1, Permanent: true}, jobs.Failed, false},
		{"failed when its end was asked for", retries, AttemptEnd{State: jobs.Failed, Attempt: 1, Asked: true}, jobs.Waiting, true},
		{"cancelled", once, AttemptEnd{State: jobs.Cancelled, Attempt: 1}, jobs.Cancelled, false},
		{"cancelled by the end of the term", reruns, AttemptEnd{State: jobs.Cancelled, Attempt: 1}, jobs.Waiting, false},
		{"cancelled by request", reruns, AttemptEnd{State: jobs.Cancelled, Attempt: 1, Asked: true}, jobs.Cancelled, false},
		{"cut short", reruns, AttemptEnd{State: jobs.Interrupted, Attempt: 4}, jobs.Waiting, false},
		{"cut short too often", reruns, AttemptEnd{State: jobs.Interrupted, Attempt: 5}, jobs.Interrupted, false},
		{"succeeded, of a job that is run again", reruns, AttemptEnd{State: jobs.Succeeded, Attempt: 1}, jobs.Succeeded, false},
	} {
		next := planned(test.job, crowd{}).After(test.ended)
		if next.To != test.want || (next.Delay > 0) != test.waits || next.Counts || next.Rest != 0 {
			t.Errorf("%s: %+v", test.name, next)
		}
		test.job.PauseAfter = 1
		if next = planned(test.job, crowd{}).After(test.ended); next.Counts != IsFailure(test.want) {
			t.Errorf("%s, of a job that is paused after a failure: %+v", test.name, next)
		}
	}
}

func TestRestAfterAnAttempt(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{LockAtLeastFor: time.Minute}, crowd{})
	for took, want := range map[time.Duration]time.Duration{0: time.Minute, 59 * time.Second: time.Second, time.Minute: 0, time.Hour: 0} {
		if got := j.After(AttemptEnd{State: jobs.Succeeded, Attempt: 1, Took: took}).Rest; got != want {
			t.Errorf("after %v, it rests for %v, want %v", took, got, want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{Timeout: time.Hour, Retry: jobs.Retry{Attempts: 3, Initial: time.Second}}, crowd{})
	for attempt := 1; attempt <= 4; attempt++ {
		if got, want := j.Bounds(attempt), (Bounds{time.Hour, attempt >= 3}); got != want {
			t.Errorf("attempt %d: %+v, want %+v", attempt, got, want)
		}
	}
}
