package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// The runs of these tests, by what they count as.
var (
	aTick     = jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1)}}
	aFollower = jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1), Trigger: triggers.After("other", 0, 7)}}
	aNotice   = jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1), Trigger: triggers.Notice("failure", "other", 0, 7)}}
	aRetry    = jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1)}, Attempt: 1}
	byHand    = jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1), Trigger: 1}}
	aBackfill = jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1), Trigger: triggers.Backfill(noon)}}
)

// seats puts a run with that record into each of the phases.
func seats(j *Job, r jobs.Record, in ...Phase) {
	for _, p := range in {
		j.Shift(&Seat{}, r, p)
	}
}

// A run counts towards its phase alone, and towards nothing once it is gone.
func TestShiftCounts(t *testing.T) {
	t.Parallel()
	var r Room
	for _, record := range []jobs.Record{aTick, aFollower, aNotice, aRetry, byHand, aBackfill} {
		var s Seat
		for p := Parking; p < phases; p++ {
			r.Shift(&s, record, p)
			n := 0
			for _, of := range r.count {
				for _, in := range of {
					n += in
				}
			}
			if n != 1 || s.Phase() != p || r.all(p) != 1 {
				t.Errorf("%v in phase %d: %+v", record.Key, p, r)
			}
		}
		record.Attempt++ // it was started meanwhile
		r.Shift(&s, record, Gone)
		if r != (Room{}) {
			t.Errorf("%v is gone, and leaves %+v", record.Key, r)
		}
	}
}

func TestWhatRunsCountTowards(t *testing.T) {
	t.Parallel()
	for p, want := range map[Phase]struct {
		pending           bool
		waiting, occupied int
		busy              int
	}{
		Parking: {false, 1, 0, 1},
		Held:    {true, 0, 0, 0},
		Waiting: {true, 1, 0, 1},
		Blocked: {true, 1, 0, 1},
		Ready:   {true, 1, 1, 1},
		Aside:   {false, 1, 1, 1},
		Running: {false, 0, 1, 1},
		Resting: {false, 0, 1, 1},
		Closing: {false, 0, 0, 0},
	} {
		for _, record := range []jobs.Record{aTick, byHand, aBackfill} {
			j := planned(jobs.Job{}, crowd{})
			seats(j, record, p)
			if p.Pending() != want.pending || j.waiting() != want.waiting || j.occupied() != want.occupied || j.Busy() != want.busy {
				t.Errorf("phase %d of %v: pending %v, waiting %d, occupied %d, busy %d, want %v", p, record.Key, p.Pending(), j.waiting(), j.occupied(), j.Busy(), want)
			}
			if hasRoom, hasReady := want.occupied == 1 && p != Resting, p == Ready; p.HasRoom() != hasRoom || j.HasReady() != hasReady {
				t.Errorf("phase %d of %v: has room %v, ready %v", p, record.Key, !hasRoom, !hasReady)
			}
			filling := 0
			if record.Key == aBackfill.Key {
				filling = want.busy
			}
			if j.filling() != filling {
				t.Errorf("phase %d of %v: %d of a backfill, want %d", p, record.Key, j.filling(), filling)
			}
		}
	}
}

// The line has ticks that wait for their first start, not retries, manual runs and backfills.
func TestLine(t *testing.T) {
	t.Parallel()
	each := jobs.Job{Misfire: jobs.MisfireAll}
	for _, test := range []struct {
		what   string
		job    jobs.Job
		record jobs.Record
		phase  Phase
		want   int
	}{
		{"waits", each, aTick, Waiting, 1},
		{"is being parked", each, aTick, Parking, 1},
		{"waits for room", each, aTick, Blocked, 1},
		{"is ready", each, aTick, Ready, 1},
		{"is set aside", each, aTick, Aside, 1},
		{"runs", each, aTick, Running, 0},
		{"is being closed", each, aTick, Closing, 0},
		{"was tried before", each, aRetry, Waiting, 0},
		{"was asked for by hand", each, byHand, Waiting, 0},
		{"is a backfill's", each, aBackfill, Waiting, 0},
		{"follows a run", jobs.Job{Schedule: jobs.After("other")}, aFollower, Waiting, 1},
		{"is a notice", jobs.Job{Schedule: jobs.OnFailure("other")}, aNotice, Waiting, 1},
		{"waits, under another policy", jobs.Job{}, aTick, Waiting, 0},
		{"is replaced", jobs.Job{Misfire: jobs.MisfireAll, Overlap: jobs.OverlapReplace}, aTick, Waiting, 0},
	} {
		j := planned(test.job, crowd{})
		seats(j, test.record, test.phase)
		if got := j.line(); got != test.want {
			t.Errorf("with one that %s: %d in line, want %d", test.what, got, test.want)
		}
	}
	j := planned(jobs.Job{Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 2}}, crowd{})
	for n := range 3 {
		if j.isLineFull() != (n >= 2) {
			t.Errorf("with %d in line", n)
		}
		j.inLine(1)
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		overlap jobs.Overlap
		limit   int
		crowd   crowd
		want    bool
	}{
		{"nothing runs", jobs.OverlapForbid, 0, crowd{}, true},
		{"what waits has no room yet", jobs.OverlapForbid, 0, crowd{waiting: 1, parking: 1}, true},
		{"one runs", jobs.OverlapForbid, 0, crowd{running: 1}, false},
		{"one is ready", jobs.OverlapQueue, 0, crowd{ready: 1}, false},
		{"one rests", jobs.OverlapReplace, 0, crowd{resting: 1}, false},
		{"any number", jobs.OverlapAllow, 0, crowd{running: 1000}, true},
		{"one of two", jobs.OverlapAllow, 2, crowd{running: 1}, true},
		{"two of two", jobs.OverlapAllow, 2, crowd{running: 1, resting: 1}, false},
		{"more than one", jobs.OverlapForbid, 0, crowd{running: 2}, false},
		{"more than two", jobs.OverlapAllow, 2, crowd{ready: 1, running: 2}, false},
	} {
		j := planned(jobs.Job{Overlap: test.overlap, Limit: test.limit}, test.crowd)
		if got, want := j.IsCrowded(), strings.HasPrefix(test.name, "more than"); got != want {
			t.Errorf("%s: IsCrowded is %v", test.name, got)
		}
		if got := j.Admits(); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
		if got := j.AdmitsHeld(noon); got != (test.want && test.crowd.parking+test.crowd.ready == 0) {
			t.Errorf("%s: a run of a backfill: %v", test.name, got)
		}
		j.LeaveAlone(aTick)
		if j.Admits() || j.AdmitsHeld(noon) {
			t.Errorf("%s: beside a run of an earlier term", test.name)
		}
	}
	for p := Parking; p < phases; p++ {
		j := planned(jobs.Job{Overlap: jobs.OverlapAllow}, crowd{})
		seats(j, aRetry, p)
		if want := p == Held || p == Waiting || p == Running || p == Resting || p == Closing; j.AdmitsHeld(noon) != want {
			t.Errorf("beside one in phase %d, a run of a backfill: %v", p, !want)
		}
	}
	j := planned(jobs.Job{Overlap: jobs.OverlapAllow}, crowd{})
	seats(j, aBackfill, Resting)
	if !j.AdmitsHeld(noon) {
		t.Error("a backfill waits for the rest of its last run, although there is room")
	}
	if j.AdmitsHeld(at(1)) {
		t.Error("a backfill goes before a tick that is due")
	}
	seats(j, aBackfill, Running)
	if j.AdmitsHeld(noon) || !j.Admits() {
		t.Error("of a backfill, one runs at a time, and others beside it")
	}
}

// A rest counts until its end.
func TestRest(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{LockAtLeastFor: time.Minute}, crowd{})
	var rest Seat
	j.Shift(&rest, byHand, Resting)
	if j.Admits() || j.Busy() != 1 {
		t.Errorf("while it rests: %+v", j.Room)
	}
	j.Shift(&rest, byHand, Gone)
	if !j.Admits() || j.Busy() != 0 {
		t.Errorf("after its rest: %+v", j.Room)
	}
	if j.Locked(noon) != 0 {
		t.Error("a job that was never started is locked")
	}
	j.Cursor = NewCursor(j.job, jobs.Known{Started: noon})
	for now, want := range map[time.Time]time.Duration{at(0): time.Minute, noon.Add(time.Second): 59 * time.Second, at(2): -time.Minute, at(-5): time.Minute} {
		if got := j.Locked(now); got != want {
			t.Errorf("%v after its start, locked for %v, want %v", now.Sub(noon), got, want)
		}
	}
}

// A pause holds back what was to start as soon as there is room.
func TestHoldsBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what   string
		record jobs.Record
		want   bool
	}{
		{"a tick", aTick, true}, {"the first that follows a run", jobs.Record{Key: jobs.Key{Trigger: triggers.First}}, true}, {"what follows a run", aFollower, true}, {"a notice", aNotice, true}, {"a backfill's", aBackfill, true},
		{"a retry", aRetry, false}, {"a run by hand", byHand, false},
	} {
		j := planned(jobs.Job{}, crowd{})
		if j.HoldsBack(test.record, false) {
			t.Errorf("%s, without a pause", test.what)
		}
		if j.HoldsBack(test.record, true) != test.want {
			t.Errorf("%s, in a pause of the group", test.what)
		}
		j.Count()
		if j.HoldsBack(test.record, false) != test.want {
			t.Errorf("%s, while failures are counted", test.what)
		}
		j.Counted()
		if j.HoldsBack(test.record, false) || j.IsCounting() {
			t.Errorf("%s, after the count", test.what)
		}
		j.Pause(true, nil)
		if j.HoldsBack(test.record, false) != test.want {
			t.Errorf("%s, in a pause of the job", test.what)
		}
		j.Pause(false, nil)
		j.SetPaused()
		if j.HoldsBack(test.record, false) != test.want {
			t.Errorf("%s, in a pause by this term", test.what)
		}
	}
}

// The next tick counts from the end of what ran, once nothing runs.
func TestRecount(t *testing.T) {
	t.Parallel()
	delay := jobs.Job{Schedule: jobs.FixedDelay(time.Minute)}
	for name, test := range map[string]struct {
		job     jobs.Job
		crowd   crowd
		change  func(*Job)
		changed bool
	}{
		"nothing runs any more":   {delay, crowd{}, func(j *Job) { j.Finished(at(7)) }, true},
		"nothing has changed":     {delay, crowd{}, func(*Job) {}, false},
		"one runs":                {delay, crowd{running: 1}, func(j *Job) { j.Finished(at(7)) }, false},
		"the job is removed":      {delay, crowd{}, func(j *Job) { j.Finished(at(7)); j.Remove() }, false},
		"the schedule is its own": {jobs.Job{}, crowd{}, func(j *Job) { j.known.Cursor = at(7) }, false},
	} {
		j := planned(test.job, test.crowd)
		j.known.Cursor, j.known.Finished = at(1), at(2)
		j.resolve()
		test.change(j)
		next, changed := j.Recount()
		if changed != test.changed || changed && !next.Equal(at(8)) {
			t.Errorf("%s: %v, %v", name, next, changed)
		}
	}
}

// A tick that has not begun ends earlier runs; a retry, and a run that was triggered, do not.
func TestDisplaces(t *testing.T) {
	t.Parallel()
	unbegun := aRetry
	unbegun.Unbegun = unbegun.Attempt
	for _, overlap := range jobs.Overlaps() {
		j, replaces := planned(jobs.Job{Overlap: overlap, CatchUp: jobs.CatchUp{Deadline: time.Minute}}, crowd{}), overlap == jobs.OverlapReplace
		if j.Displaces(aTick, at(1)) != replaces || j.Displaces(aTick, at(3)) || j.Displaces(unbegun, at(1)) != replaces || j.Displaces(aRetry, at(1)) || j.Displaces(jobs.Record{Key: jobs.Key{Trigger: 1}}, at(1)) {
			t.Errorf("%v: a tick %v, one that was handed on %v, a retry %v", overlap, j.Displaces(aTick, at(1)), j.Displaces(unbegun, at(1)), j.Displaces(aRetry, at(1)))
		}
	}
}

// A tick replaces what was there when it was due.
func TestIsReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		r       jobs.Record
		claimed time.Time
		want    bool
	}{
		{"an earlier tick", aTick, at(1), true},
		{"an earlier tick that is tried again", aRetry, at(1), true},
		{"one that was claimed together with it, or later", aTick, at(2), false},
		{"a later tick", jobs.Record{Key: jobs.Key{Tick: at(3)}}, at(1), false},
		{"the tick itself", jobs.Record{Key: jobs.Key{Tick: at(2)}}, at(1), false},
		{"a run by hand", byHand, at(9), true},
		{"a run of a backfill", aBackfill, at(1), false},
		{"one whose claim has no answer", jobs.Record{Key: jobs.Key{Tick: at(1)}}, time.Time{}, true},
	} {
		if got := IsReplaced(test.r, test.claimed, at(2)); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
