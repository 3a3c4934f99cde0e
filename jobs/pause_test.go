package jobs_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

func TestPauseCovers(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_700_000_000_000_000)
	for _, test := range []struct {
		pause jobs.Pause
		tick  time.Duration
		want  bool
	}{
		{jobs.Pause{Began: at, Ended: at.Add(5)}, -1, false},
		{jobs.Pause{Began: at, Ended: at.Add(5)}, 0, true},
		{jobs.Pause{Began: at, Ended: at.Add(5)}, 4, true},
		{jobs.Pause{Began: at, Ended: at.Add(5)}, 5, false},
		{jobs.Pause{Began: at}, time.Hour, true},
		{jobs.Pause{Ended: at}, -1, true},
		{jobs.Pause{Ended: at}, 0, false},
		{jobs.Pause{}, 0, true},
	} {
		if got := test.pause.Covers(at.Add(test.tick)); got != test.want {
			t.Errorf("%v at %v: %t", test.pause, test.tick, got)
		}
	}
}
