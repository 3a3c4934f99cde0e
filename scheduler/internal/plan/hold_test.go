package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func nothingInHand(jobs.Key) bool { return false }

// claim has the job claim what is due, and returns it.
func (j *Job) claim(now time.Time) Claims { return j.Claim(now, nil, 9, nothingInHand) }

// answer has the ledger take all of the claims, or refuse all.
func (j *Job) answer(c Claims, takes bool) {
	for _, row := range c.Rows {
		is := store.Claimed{Record: jobs.Record{Key: row.Key}}
		if takes {
			is.Mine, is.State = true, row.State
		}
		j.Answer(row, is, takes)
	}
	j.Answered(!takes)
}

// Each state holds the job back by itself, and letting go of it lets the job go on.
func TestHold(t *testing.T) {
	t.Parallel()
	delayed := jobs.Job{Schedule: jobs.FixedDelay(time.Minute).InitialDelay(time.Minute)}
	for _, test := range []struct {
		name  string
		job   jobs.Job
		enter func(*Job)
		leave func(*Job)
		want  Hold
		pass  bool
	}{
		{"removed", jobs.Job{}, (*Job).Remove, func(j *Job) { j.List(j.job) }, Removed, false},
		{"changing", jobs.Job{}, (*Job).Change, func(j *Job) { j.List(j.job) }, Changing, false},
		{"removed while it changes", jobs.Job{}, func(j *Job) { j.Change(); j.Remove() }, func(j *Job) { j.List(j.job) }, Removed, false},
		{"left", jobs.Job{}, func(j *Job) { j.LeaveAlone(aTick) }, func(j *Job) { j.TakeUp() }, Left, true},
		{"counting", jobs.Job{}, (*Job).Count, (*Job).Counted, Counting, true},
		{"two counts", jobs.Job{}, func(j *Job) { j.Count(); j.Count() }, func(j *Job) { j.Counted(); j.Counted() }, Counting, true},
		{"behind a pause", jobs.Job{}, func(j *Job) { j.parted = true; seats(j, byHand, Running) }, func(j *Job) { j.Room = Room{} }, Busy, false},
		{"behind a pause, and its schedule changes", jobs.Job{}, func(j *Job) { j.parted = true; j.Conclude(j.schedule, at(1)); seats(j, byHand, Running) }, func(j *Job) { j.Room = Room{} }, Due, false},
		{"a fixed delay, busy", delayed, func(j *Job) { seats(j, byHand, Resting) }, func(j *Job) { j.Room = Room{} }, Busy, false},
		{"busy", jobs.Job{Overlap: jobs.OverlapAllow}, func(j *Job) { seats(j, byHand, Resting) }, func(j *Job) { j.Room = Room{} }, Due, false},
	} {
		j := planned(test.job, crowd{})
		if got := j.Hold(at(1).Add(-1)); got != NotDue || got.MayPass() {
			t.Errorf("%s: before its tick: %v", test.name, got)
		}
		if got := j.Hold(at(1)); got != Due || got.MayPass() {
			t.Errorf("%s: before: %v", test.name, got)
		}
		test.enter(j)
		if got := j.Hold(at(1)); got != test.want || got.MayPass() != test.pass {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if c := j.claim(at(1)); (len(c.Rows) > 0) != (test.want == Due) {
			t.Errorf("%s: claims %v", test.name, c)
			continue
		}
		test.leave(j)
		if got := j.Hold(at(1)); test.want != Due && got != Due {
			t.Errorf("%s: after: %v", test.name, got)
		}
	}
	never := planned(jobs.Job{Schedule: jobs.Manual()}, crowd{})
	if got := never.Hold(at(1)); got != NotDue {
		t.Errorf("a job without ticks: %v", got)
	}
}

// A job whose schedule is about to change decides about all ticks that are due.
func TestConclude(t *testing.T) {
	t.Parallel()
	only := func(c Claims, state jobs.State, tick time.Time, why string) {
		t.Helper()
		if len(c.Rows) != 1 || c.Rows[0].State != state || !c.Rows[0].Tick.Equal(tick) || c.Rows[0].Error != why {
			t.Errorf("claims %+v, want the tick of %v as %v, because of %q", c.Rows, tick, state, why)
		}
	}
	// Those before a pause that goes on, and those in it, are one row.
	j := planned(jobs.Job{}, crowd{})
	j.Pause(true, []jobs.Pause{{Began: at(3)}})
	if c := j.claim(at(5)); len(c.Rows) > 0 {
		t.Errorf("before that: claims %+v", c.Rows)
	}
	for _, to := range []jobs.Schedule{jobs.Every(5 * time.Minute), jobs.FixedRate(time.Hour)} { // noon is a multiple of 5 minutes
		if j.Conclude(to, at(5)); len(j.claim(at(5)).Rows) > 0 {
			t.Errorf("%v has ticks of that time, and those of before are skipped", to)
		}
	}
	j.Conclude(jobs.Every(time.Hour), at(5))
	c := j.claim(at(5))
	only(c, jobs.Skipped, at(2), event.WhyPaused)
	j.answer(c, true)
	c = j.claim(at(5))
	only(c, jobs.Skipped, at(5), event.WhyPaused)
	if !c.Rows[0].Extends.Equal(at(2)) {
		t.Errorf("extends %v", c.Rows[0].Extends)
	}
	// Those after a pause wait for the run that stands for those before it, and only until the schedule has changed.
	j = planned(jobs.Job{Overlap: jobs.OverlapForbid}, crowd{})
	j.parted = true
	seats(j, byHand, Running)
	j.Conclude(jobs.Every(time.Minute), at(5))
	j.Conclude(jobs.Every(time.Minute), at(5))
	c = j.claim(at(5))
	only(c, jobs.Waiting, at(5), "")
	j.answer(c, true)
	j.Change()
	j.List(j.job)
	only(j.claim(at(6)), jobs.Skipped, at(6), overlaps[jobs.OverlapForbid].full)
}

// The states of the list exclude one another.
func TestListing(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{}, crowd{})
	is := func(changing, removed bool) {
		t.Helper()
		if j.IsChanging() != changing || j.IsRemoved() != removed {
			t.Errorf("changing %v, removed %v", j.IsChanging(), j.IsRemoved())
		}
	}
	is(false, false)
	j.Change()
	is(true, false)
	j.LeaveAlone(aTick)
	j.Remove()
	is(false, true)
	if j.left != nil {
		t.Error("a job that was removed waits for an earlier term's runs")
	}
	other := jobs.Job{Name: "job", Schedule: j.schedule, Limit: 9}
	j.List(&other)
	is(false, false)
	if j.job != &other {
		t.Error("it has its former declaration")
	}
}

// A claim has its answer before the next one, and after a refusal the ledger is read.
func TestClaiming(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{}, crowd{})
	if _, asked := j.Asked(); asked || j.Outdated(time.Time{}) {
		t.Error("a claim is under way before the first one")
	}
	c := j.claim(at(3))
	if first, asked := j.Asked(); !asked || !first.Equal(at(3)) {
		t.Errorf("the claims since %v, %v", first, asked)
	}
	if got := j.Hold(at(4)); got != Asked || !got.MayPass() {
		t.Errorf("without an answer: %v", got)
	}
	if j.Outdated(at(9)) {
		t.Error("while its own claim is under way, a later tick is no news")
	}
	j.answer(c, true)
	if _, asked := j.Asked(); asked || !j.Recorded().Equal(at(3)) || !j.Next().Equal(at(4)) {
		t.Errorf("after the answer: asked %v, recorded %v, next %v", asked, j.Recorded(), j.Next())
	}
	if j.Outdated(at(3)) || !j.Outdated(at(3).Add(1)) {
		t.Error("only a later tick is news")
	}

	refused := j.claim(at(5))
	j.answer(refused, false)
	if got := j.Hold(at(5)); got != Refused || !got.MayPass() || !j.Next().Equal(at(4)) || !j.Recorded().Equal(at(3)) {
		t.Errorf("refused: %v, recorded %v, next %v", got, j.Recorded(), j.Next())
	}
	if !j.WasRefused(refused.Rows[0].Key) || !j.Outdated(noon) {
		t.Error("the refusal is not remembered")
	}
	j.GoOn(at(4))
	if got := j.Hold(at(5)); got != Due || !j.Next().Equal(at(5)) || !j.Known().Cursor.Equal(at(4)) {
		t.Errorf("after the ledger was read: %v, next %v, cursor %v", got, j.Next(), j.Known().Cursor)
	}
	j.answer(j.claim(at(5)), true)
	if j.WasRefused(refused.Rows[0].Key) {
		t.Error("a tick that the term has got since counts as refused")
	}
	j.claim(at(6))
	j.GoOn(at(3)) // says nothing of the claim under way, nor moves anything back
	if _, asked := j.Asked(); !asked || !j.Recorded().Equal(at(5)) {
		t.Errorf("asked %v, recorded %v", asked, j.Recorded())
	}
}

// The newest refusals are remembered, each once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{}, crowd{})
	key := func(n int) jobs.Key { return jobs.Key{Job: "job", Tick: at(n)} }
	for n := range refusedMost + 2 {
		j.noteRefused(key(n))
		j.noteRefused(key(n))
	}
	if len(j.denied) != refusedMost || j.WasRefused(key(1)) || !j.WasRefused(key(2)) || !j.WasRefused(key(refusedMost+1)) {
		t.Errorf("%d are remembered", len(j.denied))
	}
}

// What an earlier term left is taken up in its order.
func TestTakeUp(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{}, crowd{})
	order := []jobs.Key{{Tick: at(1)}, {Tick: at(1), Trigger: 5}, {Tick: at(2)}, {Tick: at(3), Trigger: 1}}
	for i, at := range []int{2, 0, 3, 1} {
		if first := j.LeaveAlone(jobs.Record{Key: order[at]}); first != (i == 0) {
			t.Errorf("number %d is the first: %v", i, first)
		}
	}
	var got []jobs.Key
	for _, r := range j.TakeUp() {
		got = append(got, r.Key)
	}
	if !slices.Equal(got, order) || j.left != nil {
		t.Errorf("taken up: %v", got)
	}
}

// What waits for no fault is not late: runs of before, a fixed delay, a pause that has not ended.
func TestIsDeferred(t *testing.T) {
	t.Parallel()
	open := []jobs.Pause{{Began: at(2)}}
	for _, test := range []struct {
		name  string
		job   jobs.Job
		crowd crowd
		left  bool
		parts bool
		group []jobs.Pause
		now   time.Time
		want  bool
	}{
		{name: "due", now: at(1)},
		{name: "not due", now: at(0), group: open},
		{name: "left", left: true, now: at(0), want: true},
		{name: "a fixed delay, busy", job: jobs.Job{Schedule: jobs.FixedDelay(time.Minute)}, crowd: crowd{running: 1}, now: at(1), want: true},
		{name: "a fixed delay", job: jobs.Job{Schedule: jobs.FixedDelay(time.Minute)}, now: at(1)},
		{name: "busy", crowd: crowd{running: 1}, now: at(1)},
		{name: "behind a pause, busy", parts: true, crowd: crowd{running: 1}, now: at(1), want: true},
		{name: "behind a pause", parts: true, now: at(1)},
		{name: "before a pause that goes on", group: open, now: at(3), want: true},
		{name: "in a pause that goes on", group: []jobs.Pause{{Began: noon}}, now: at(3)},
	} {
		j := planned(test.job, test.crowd)
		j.parted = test.parts
		if test.left {
			j.LeaveAlone(aTick)
		}
		if got := j.IsDeferred(test.now, test.group); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// What this term has done counts, whatever a reading of before says.
func TestLearn(t *testing.T) {
	t.Parallel()
	const most = time.Minute
	for _, test := range []struct {
		name          string
		before, known jobs.Known
		want          jobs.Known
		next          time.Time
		wrong         bool
	}{
		{"at first", jobs.Known{}, jobs.Known{ScheduleSince: noon}, jobs.Known{ScheduleSince: noon}, at(1), false},
		{"a later cursor", jobs.Known{Cursor: at(1)}, jobs.Known{ScheduleSince: noon, Cursor: at(3)}, jobs.Known{ScheduleSince: noon, Cursor: at(3)}, at(4), false},
		{"an earlier cursor", jobs.Known{Cursor: at(3)}, jobs.Known{ScheduleSince: noon, Cursor: at(1)}, jobs.Known{ScheduleSince: noon, Cursor: at(3)}, at(4), false},
		{"an earlier end", jobs.Known{Finished: at(3)}, jobs.Known{ScheduleSince: noon, Finished: at(1)}, jobs.Known{ScheduleSince: noon, Finished: at(3)}, at(1), false},
		{"an end of the future", jobs.Known{}, jobs.Known{ScheduleSince: noon, Finished: at(11)}, jobs.Known{ScheduleSince: noon, Finished: at(10)}, at(1), false},
		{"a schedule of the future", jobs.Known{}, jobs.Known{ScheduleSince: at(11)}, jobs.Known{ScheduleSince: at(11)}, at(12), false},
		{"of a wrong clock", jobs.Known{}, jobs.Known{ScheduleSince: at(11).Add(1)}, jobs.Known{ScheduleSince: at(10)}, at(11), true},
		{"without a cursor of this schedule", jobs.Known{}, jobs.Known{ScheduleSince: at(5), Cursor: at(2)}, jobs.Known{ScheduleSince: at(5), Cursor: at(2)}, at(6), false},
	} {
		j := planned(jobs.Job{}, crowd{})
		j.known = test.before
		if wrong := j.Learn(test.known, at(10), most); wrong != test.wrong {
			t.Errorf("%s: wrong %v", test.name, wrong)
		}
		if got := j.Known(); fmt.Sprint(got) != fmt.Sprint(test.want) || !j.Next().Equal(test.next) || !j.Recorded().Equal(test.known.Cursor) {
			t.Errorf("%s: known %v, recorded %v, next %v", test.name, got, j.Recorded(), j.Next())
		}
	}
}

// A relative schedule may be due at the instant from which it rules.
func TestRelativeSchedules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		schedule jobs.Schedule
		known    jobs.Known
		want     time.Time
	}{
		{jobs.FixedDelay(time.Minute), jobs.Known{ScheduleSince: noon}, jobs.FixedDelay(time.Minute).From(jobs.Known{ScheduleSince: noon}).Next(noon.Add(-1))},
		{jobs.FixedDelay(time.Minute), jobs.Known{ScheduleSince: noon, Cursor: at(1), Finished: at(3)}, at(4)},
		{jobs.FixedRate(time.Minute), jobs.Known{ScheduleSince: noon.Add(time.Second)}, noon.Add(time.Second)},
	} {
		j := planned(jobs.Job{Schedule: test.schedule}, crowd{})
		j.Cursor = NewCursor(j.job, test.known)
		if !j.Next().Equal(test.want) {
			t.Errorf("%v, %+v: next %v, want %v", test.schedule, test.known, j.Next(), test.want)
		}
	}
}
