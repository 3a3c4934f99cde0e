package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A pause by a clock that was set back since does not come again.
func TestPauses(t *testing.T) {
	t.Parallel()
	now := at(10)
	ours := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(time.Hour)
	}
	for _, test := range []struct {
		name    string
		stamped jobs.Pause
		want    []jobs.Pause
	}{
		{"over", jobs.Pause{Began: at(1), Ended: at(2)}, []jobs.Pause{{Began: at(61), Ended: at(62)}}},
		{"open", jobs.Pause{Began: at(1)}, []jobs.Pause{{Began: at(61)}}},
		{"over now", jobs.Pause{Began: at(1), Ended: now}, []jobs.Pause{{Began: at(61), Ended: at(70)}}},
		{"its end lies in the future", jobs.Pause{Began: at(1), Ended: at(11)}, []jobs.Pause{{Began: at(61), Ended: at(70)}}},
		{"it lies in the future", jobs.Pause{Began: at(11), Ended: at(12)}, nil},
		{"it begins now", jobs.Pause{Began: now, Ended: at(12)}, []jobs.Pause{{Began: at(70), Ended: at(70)}}},
	} {
		if got := Pauses([]jobs.Pause{test.stamped}, now, ours); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// The ticks that are due are cut where a pause begins or ends, and those before a pause that goes on wait.
func TestStretch(t *testing.T) {
	t.Parallel()
	p := func(began, ended int) jobs.Pause {
		if ended == 0 {
			return jobs.Pause{Began: at(began)}
		}
		return jobs.Pause{Began: at(began), Ended: at(ended)}
	}
	const last = time.Duration(1)
	for _, test := range []struct {
		name       string
		job, group []jobs.Pause
		until      time.Time
		paused, ok bool
	}{
		{"no pause", nil, nil, at(10), false, true},
		{"in a pause", []jobs.Pause{p(0, 5)}, nil, at(5).Add(-last), true, true},
		{"in a pause of the group", nil, []jobs.Pause{p(0, 5)}, at(5).Add(-last), true, true},
		{"in two", []jobs.Pause{p(0, 5)}, []jobs.Pause{p(1, 7)}, at(7).Add(-last), true, true},
		{"in two, the longer one first", []jobs.Pause{p(0, 7)}, []jobs.Pause{p(1, 5)}, at(7).Add(-last), true, true},
		{"in one that goes on", []jobs.Pause{p(1, 0)}, nil, at(10), true, true},
		{"in one that ends later than now", []jobs.Pause{p(1, 12)}, nil, at(10), true, true},
		{"before a pause", []jobs.Pause{p(3, 5)}, nil, at(3).Add(-last), false, true},
		{"before two", []jobs.Pause{p(6, 7), p(3, 5)}, nil, at(3).Add(-last), false, true},
		{"before two, in their order", []jobs.Pause{p(3, 5)}, []jobs.Pause{p(6, 7)}, at(3).Add(-last), false, true},
		{"before one that goes on", []jobs.Pause{p(3, 0)}, nil, at(3).Add(-last), false, false},
		{"before one that begins now", []jobs.Pause{p(10, 0)}, nil, at(10).Add(-last), false, false},
		{"before one of the future", []jobs.Pause{p(11, 12)}, nil, at(10), false, true},
		{"before one of no time", []jobs.Pause{p(3, 3)}, nil, at(10), false, true},
		{"after a pause", []jobs.Pause{p(-5, 1)}, nil, at(10), false, true},
	} {
		j := planned(jobs.Job{}, crowd{})
		j.Pause(false, test.job)
		until, paused, ok := j.stretch(at(10), test.group)
		if !until.Equal(test.until) || paused != test.paused || ok != test.ok {
			t.Errorf("%s: until %v, paused %v, ok %v", test.name, until, paused, ok)
		}
		if c := j.Claim(at(10), test.group, 9, nothingInHand); (len(c.Rows) > 0) != test.ok {
			t.Errorf("%s: claims %v", test.name, c)
		}
	}
}

func TestIsInPause(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{}, crowd{})
	j.Pause(false, []jobs.Pause{{Began: at(1), Ended: at(2)}})
	group := []jobs.Pause{{Began: at(3)}}
	for minute, want := range map[int]bool{0: false, 1: true, 2: false, 3: true, 9: true} {
		if j.isInPause(at(minute), group) != want {
			t.Errorf("minute %d", minute)
		}
	}
}
