package jobs_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// The delays of a job's runs are spread over its jitter. They are the same in each release,
// since replicas of several take over from one another.
func TestDelay(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Name: "job", Jitter: time.Minute}
	if d := job.Delay("g", noon); d != 24_237_934*time.Microsecond {
		t.Errorf("%v, other than before", d)
	}
	var sum time.Duration
	for i := range 1000 {
		d := job.Delay("g", noon.Add(time.Duration(i)*time.Hour))
		if d < 0 || d >= job.Jitter || d%time.Microsecond != 0 {
			t.Errorf("tick %d: %v", i, d)
		}
		sum += d
	}
	if mean := sum / 1000; mean < 28*time.Second || mean > 32*time.Second {
		t.Errorf("%v on average", mean)
	}
	for _, jitter := range []time.Duration{0, -time.Minute} {
		job.Jitter = jitter
		if d := job.Delay("g", noon); d != 0 {
			t.Errorf("jitter %v: %v", jitter, d)
		}
	}
}
