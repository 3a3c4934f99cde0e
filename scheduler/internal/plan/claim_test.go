package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// crowd says what there is of a job already.
type crowd struct{ parking, waiting, ready, running, resting int }

// inLine has so many ticks wait in line.
func (j *Job) inLine(n int) { j.count[tick][Waiting] += n }

func planned(job jobs.Job, c crowd) *Job {
	job.Name = "job"
	if job.Schedule == nil {
		job.Schedule = jobs.Every(time.Minute)
	}
	job = job.Complete()
	j := New("g", &job)
	j.count[other] = [phases]int{Parking: c.parking, Waiting: c.waiting, Ready: c.ready, Running: c.running, Resting: c.resting}
	j.Cursor = NewCursor(&job, jobs.Known{ScheduleSince: noon})
	return &j
}

// pausedSince is a pause of the group since noon, or none.
func pausedSince(is bool) []jobs.Pause {
	if !is {
		return nil
	}
	return []jobs.Pause{{Began: noon}}
}

// claimsText is claims in short: the tick, in minutes after noon, and the state.
func claimsText(claims []store.Claim) string {
	var parts []string
	for _, c := range claims {
		text := fmt.Sprintf("%v %v", c.Tick.Sub(noon).Minutes(), c.State)
		if c.Missed > 0 {
			text += fmt.Sprintf(" +%d", c.Missed)
		}
		if c.Error != "" {
			text += " (" + c.Error + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const (
		busy   = " (an earlier run has not finished)"
		rests  = " (LockAtLeastFor is not over since an earlier run began)"
		queued = " (an earlier tick waits already)"
		full   = " (as many runs as allowed have not finished)"
		late   = " (too late to start)"

		lineFull = " (as many ticks as allowed wait already)"
	)
	all := jobs.Job{Misfire: jobs.MisfireAll}
	in := func(j jobs.Job, change func(*jobs.Job)) jobs.Job { change(&j); return j }
	overlap := func(o jobs.Overlap, limit int) jobs.Job { return jobs.Job{Overlap: o, Limit: limit} }
	allOverlap := func(o jobs.Overlap, limit int) jobs.Job {
		return jobs.Job{Misfire: jobs.MisfireAll, Overlap: o, Limit: limit}
	}
	deadline := func(m jobs.Misfire, d time.Duration) jobs.Job {
		return jobs.Job{Misfire: m, CatchUp: jobs.CatchUp{Deadline: d}}
	}
	tests := []struct {
		name   string
		job    jobs.Job
		crowd  crowd
		line   int
		after  time.Duration // after noon
		paused bool
		noSlot bool
		want   string
	}{
		{name: "nothing is due", after: time.Minute - 1, want: ""},
		{name: "one is due", after: time.Minute, want: "1 running"},
		{name: "no slot", after: time.Minute, noSlot: true, want: "1 waiting"},
		{name: "once", after: 5 * time.Minute, want: "5 running +4"},
		{name: "skip, on time", job: jobs.Job{Misfire: jobs.MisfireSkip}, after: 5*time.Minute + OnTime, want: "5 running +4"},
		{name: "skip, late", job: jobs.Job{Misfire: jobs.MisfireSkip}, after: 5*time.Minute + OnTime + 1, want: "5 skipped +4 (missed)"},
		{name: "all", job: all, after: 3 * time.Minute, want: "1 running, 2 waiting, 3 waiting"},
		{name: "all, limited", job: in(all, func(j *jobs.Job) { j.CatchUp.Limit = 2 }), after: 4 * time.Minute, want: "3 running +2, 4 waiting"},
		{name: "all, one due, busy", job: all, crowd: crowd{running: 1}, after: time.Minute, want: "1 waiting"},
		{name: "all, one missed, busy", job: all, crowd: crowd{running: 1}, after: time.Minute + OnTime + 1, want: "1 waiting"},
		{name: "all, busy", job: all, crowd: crowd{running: 1}, after: 2 * time.Minute, want: "1 waiting, 2 waiting"},
		{name: "all, queue, busy", job: allOverlap(jobs.OverlapQueue, 0), crowd: crowd{waiting: 1}, after: 2 * time.Minute, want: "1 waiting, 2 waiting"},
		{name: "all, allowed", job: allOverlap(jobs.OverlapAllow, 0), after: 3 * time.Minute, want: "1 running, 2 running, 3 running"},
		{name: "all, two allowed", job: allOverlap(jobs.OverlapAllow, 2), after: 3 * time.Minute, want: "1 running, 2 running, 3 waiting"},
		{name: "all, two allowed, one runs", job: allOverlap(jobs.OverlapAllow, 2), crowd: crowd{running: 1}, after: 3 * time.Minute, want: "1 running, 2 waiting, 3 waiting"},
		{name: "all, two allowed, both run", job: allOverlap(jobs.OverlapAllow, 2), crowd: crowd{running: 2}, after: 2 * time.Minute, want: "1 waiting, 2 waiting"},
		{name: "all, behind a line", job: all, crowd: crowd{running: 1}, line: 1, after: time.Minute, want: "1 waiting"},
		{name: "all, behind a line that waits for a slot", job: all, line: 1, after: time.Minute, want: "1 waiting"},
		{name: "all, queue, behind a line", job: allOverlap(jobs.OverlapQueue, 0), crowd: crowd{running: 1}, line: 2, after: time.Minute, want: "1 waiting"},
		{name: "all, allowed, behind a line", job: allOverlap(jobs.OverlapAllow, 0), line: 2, after: time.Minute, want: "1 waiting"},
		{name: "all, two allowed, behind a line", job: allOverlap(jobs.OverlapAllow, 2), crowd: crowd{running: 2}, line: 1, after: 2 * time.Minute, want: "1 waiting, 2 waiting"},
		{name: "all, one due, a retry waits", job: all, crowd: crowd{waiting: 1}, after: time.Minute, want: "1 waiting"},
		{name: "all, queue, one due, one waits", job: allOverlap(jobs.OverlapQueue, 0), crowd: crowd{running: 1, waiting: 1}, after: time.Minute, want: "1 waiting"},
		{name: "all, two allowed, one due, both run", job: allOverlap(jobs.OverlapAllow, 2), crowd: crowd{running: 2}, after: time.Minute, want: "1 waiting"},
		{name: "all, replace, no line", job: allOverlap(jobs.OverlapReplace, 0), line: 1, after: time.Minute, want: "1 waiting"},
		{name: "all, room in the line", job: in(all, func(j *jobs.Job) { j.CatchUp.Limit = 3 }), line: 2, after: time.Minute, want: "1 waiting"},
		{name: "all, room for one of three", job: in(all, func(j *jobs.Job) { j.CatchUp.Limit = 3 }), line: 2, after: 3 * time.Minute, want: "3 waiting +2"},
		{name: "all, the line is full", job: in(all, func(j *jobs.Job) { j.CatchUp.Limit = 3 }), line: 3, after: 2 * time.Minute, want: "2 skipped +1" + lineFull},
		{name: "all, the line is full, replace", job: in(allOverlap(jobs.OverlapReplace, 0), func(j *jobs.Job) { j.CatchUp.Limit = 1 }), line: 1, after: time.Minute, want: "1 waiting"},
		{name: "all, too late behind a line", job: deadline(jobs.MisfireAll, 30*time.Second), line: 1, after: 2*time.Minute + time.Second, want: "1 skipped" + late + ", 2 waiting"},
		{name: "three slots", job: allOverlap(jobs.OverlapAllow, 0), after: 4 * time.Minute, want: "1 running, 2 running, 3 running, 4 waiting"},
		{name: "all, no slot", job: all, after: 2 * time.Minute, noSlot: true, want: "1 waiting, 2 waiting"},
		{name: "deadline, once", job: deadline(jobs.MisfireOnce, 30*time.Second), after: 3*time.Minute + 31*time.Second, want: "3 skipped +2" + late},
		{name: "deadline, on its instant", job: deadline(jobs.MisfireOnce, 30*time.Second), after: 3*time.Minute + 30*time.Second, want: "3 running +2"},
		{name: "deadline, all, some late", job: deadline(jobs.MisfireAll, 90*time.Second), after: 4 * time.Minute, want: "2 skipped +1" + late + ", 3 running, 4 waiting"},
		{name: "deadline, all, one left", job: deadline(jobs.MisfireAll, 30*time.Second), crowd: crowd{running: 1}, after: 4 * time.Minute, want: "3 skipped +2" + late + ", 4 waiting"},
		{name: "deadline, all late", job: deadline(jobs.MisfireAll, 30*time.Second), after: 4*time.Minute + 31*time.Second, want: "4 skipped +3" + late},
		{name: "paused", after: 3 * time.Minute, paused: true, want: "3 skipped +2 (paused)"},
		{name: "paused, all", job: in(all, func(j *jobs.Job) { j.CatchUp.Limit = 2 }), after: 4 * time.Minute, paused: true, want: "4 skipped +3 (paused)"},
		{name: "forbid, running", crowd: crowd{running: 1}, after: time.Minute, want: "1 skipped" + busy},
		{name: "forbid, ready", crowd: crowd{ready: 1}, after: time.Minute, want: "1 skipped" + busy},
		{name: "forbid, waiting", crowd: crowd{waiting: 1}, after: time.Minute, want: "1 skipped" + busy},
		{name: "forbid, parking", crowd: crowd{parking: 1}, after: time.Minute, want: "1 skipped" + busy},
		{name: "forbid, resting", crowd: crowd{resting: 1}, after: 2 * time.Minute, want: "2 skipped +1" + rests},
		{name: "forbid, running and resting", crowd: crowd{running: 1, resting: 1}, after: time.Minute, want: "1 skipped" + busy},
		{name: "two allowed, one rests", job: overlap(jobs.OverlapAllow, 2), crowd: crowd{running: 1, resting: 1}, after: time.Minute, want: "1 skipped" + rests},
		{name: "two allowed, both run, one rests", job: overlap(jobs.OverlapAllow, 2), crowd: crowd{running: 2, resting: 1}, after: time.Minute, want: "1 skipped (as many runs as allowed have not finished)"},
		{name: "queue, running", job: overlap(jobs.OverlapQueue, 0), crowd: crowd{running: 1}, after: time.Minute, want: "1 waiting"},
		{name: "queue, resting", job: overlap(jobs.OverlapQueue, 0), crowd: crowd{resting: 1}, after: time.Minute, want: "1 waiting"},
		{name: "queue, one waits", job: overlap(jobs.OverlapQueue, 0), crowd: crowd{running: 1, waiting: 1}, after: time.Minute, want: "1 skipped" + queued},
		{name: "queue, one is ready", job: overlap(jobs.OverlapQueue, 0), crowd: crowd{ready: 1}, after: time.Minute, want: "1 skipped" + queued},
		{name: "allow", job: overlap(jobs.OverlapAllow, 0), crowd: crowd{running: 9}, after: time.Minute, want: "1 running"},
		{name: "allow, no slot", job: overlap(jobs.OverlapAllow, 0), crowd: crowd{running: 9}, after: time.Minute, noSlot: true, want: "1 waiting"},
		{name: "allow two, one", job: overlap(jobs.OverlapAllow, 2), crowd: crowd{running: 1}, after: time.Minute, want: "1 running"},
		{name: "allow two, two", job: overlap(jobs.OverlapAllow, 2), crowd: crowd{running: 1, waiting: 1}, after: time.Minute, want: "1 skipped" + full},
		{name: "replace, running", job: overlap(jobs.OverlapReplace, 0), crowd: crowd{running: 1}, after: time.Minute, want: "1 waiting"},
		{name: "replace, free", job: overlap(jobs.OverlapReplace, 0), after: time.Minute, want: "1 running"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := planned(test.job, test.crowd)
			j.inLine(test.line)
			now, slots := noon.Add(test.after), 3
			if test.noSlot {
				slots = 0
			}
			if got := claimsText(j.Claim(now, pausedSince(test.paused), slots, nothingInHand).Rows); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !j.next.After(now) {
				t.Errorf("next is %v", j.next)
			}
		})
	}
}

// Under any policies, each due tick is claimed or counted once, in order, and the
// cursor is the newest tick.
func TestPlanProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		job := jobs.Job{
			Schedule: jobs.Every(time.Duration(rapid.IntRange(1, 600).Draw(t, "every")) * time.Second),
			Misfire:  rapid.SampledFrom(jobs.Misfires()).Draw(t, "misfire"),
			CatchUp:  jobs.CatchUp{Limit: rapid.IntRange(0, 20).Draw(t, "limit"), Deadline: time.Duration(rapid.IntRange(0, 7200).Draw(t, "deadline")) * time.Second},
			Overlap:  rapid.SampledFrom(jobs.Overlaps()).Draw(t, "overlap"),
			Limit:    rapid.IntRange(0, 3).Draw(t, "allowed"),
		}
		count := rapid.IntRange(0, 2)
		j := planned(job, crowd{count.Draw(t, "parking"), count.Draw(t, "waiting"), count.Draw(t, "ready"), count.Draw(t, "running"), count.Draw(t, "resting")})
		j.inLine(rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 25)).Draw(t, "line"))
		tick := j.next
		now := noon.Add(time.Duration(rapid.IntRange(0, 2*3600).Draw(t, "gap")) * time.Second)
		slots := rapid.IntRange(0, 3).Draw(t, "slots")
		claims := j.Claim(now, pausedSince(rapid.Bool().Draw(t, "paused")), slots, nothingInHand).Rows
		for _, c := range claims {
			for range c.Missed {
				tick = job.Schedule.Next(tick)
			}
			if !c.Tick.Equal(tick) {
				t.Fatalf("claims %s: the tick %v is neither claimed nor counted", claimsText(claims), tick)
			}
			if started := c.State != jobs.Skipped; started == (c.Error != "") || started && job.CatchUp.Deadline > 0 && now.Sub(tick) > job.CatchUp.Deadline {
				t.Fatalf("claims %s", claimsText(claims))
			}
			if c.State == jobs.Running {
				slots--
			}
			tick = job.Schedule.Next(tick)
		}
		if slots < 0 {
			t.Fatalf("claims %s in too few slots", claimsText(claims))
		}
		if !tick.Equal(j.next) || !tick.After(now) {
			t.Fatalf("next is %v, want %v", j.next, tick)
		}
		if len(claims) > 0 && !j.known.Cursor.Equal(claims[len(claims)-1].Tick) {
			t.Fatalf("cursor %v", j.known.Cursor)
		}
	})
}

// The next ticks that are skipped for the same reason extend the row, if it is this term's and the newest.
func TestExtends(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(j *Job, c *Claims)
		want   time.Time
	}{
		{"the same reason", func(*Job, *Claims) {}, at(1)},
		{"it told of something", func(_ *Job, c *Claims) { c.Rows[0].Then = make([]store.Follower, 1) }, time.Time{}},
		{"another reason", func(_ *Job, c *Claims) { c.Rows[0].Error = "another" }, time.Time{}},
		{"another term has it", func(j *Job, c *Claims) {
			j.Answer(c.Rows[0], store.Claimed{Record: jobs.Record{Key: c.Rows[0].Key, State: jobs.Skipped}}, false)
			c.Rows = nil
		}, time.Time{}},
	} {
		j := planned(jobs.Job{}, crowd{running: 1})
		c := j.claim(at(1))
		test.change(j, &c)
		j.answer(c, true)
		if got := j.claim(at(2)).Rows; len(got) != 1 || !got[0].Extends.Equal(test.want) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	j := planned(jobs.Job{}, crowd{running: 1})
	j.answer(j.claim(at(1)), true)
	j.GoOn(at(2)) // the ledger has a later one
	if got := j.claim(at(3)).Rows; !got[0].Extends.IsZero() {
		t.Errorf("behind a later tick: %+v", got)
	}
	j = planned(jobs.Job{}, crowd{running: 1})
	j.answer(j.claim(at(1)), true)
	j.count = [kinds][phases]int{}
	j.answer(j.claim(at(2)), true)
	seats(j, byHand, Resting)
	if got := j.claim(at(3)).Rows; got[0].State != jobs.Skipped || !got[0].Extends.IsZero() {
		t.Errorf("behind a tick that ran: %+v", got)
	}
}

// Keys that are in hand are not claimed again, and then nothing is under way.
func TestClaimOfWhatIsInHand(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{Misfire: jobs.MisfireAll}, crowd{})
	c := j.Claim(at(2), nil, 9, func(k jobs.Key) bool { return k.Tick.Equal(at(1)) })
	if got := claimsText(c.Rows); got != "2 waiting" {
		t.Errorf("claims %s", got)
	}
	j.answer(c, true)
	if c := j.Claim(at(3), nil, 9, func(jobs.Key) bool { return true }); len(c.Rows) > 0 {
		t.Errorf("claims %v", c)
	}
	if _, asked := j.Asked(); asked || !j.Next().Equal(at(4)) {
		t.Errorf("asked %v, next %v", asked, j.Next())
	}
}

// A tick that is skipped counts as an end, from which a fixed delay counts; one that starts does not.
func TestSkippedTickFinishes(t *testing.T) {
	t.Parallel()
	j := planned(jobs.Job{}, crowd{running: 1})
	if j.claim(at(1)); !j.Known().Finished.Equal(at(1)) {
		t.Errorf("finished %v", j.Known().Finished)
	}
	j = planned(jobs.Job{}, crowd{})
	if j.claim(at(1)); !j.Known().Finished.IsZero() {
		t.Errorf("finished %v", j.Known().Finished)
	}
}

// What the first row stands for is told with it.
func TestSkips(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		job   jobs.Job
		crowd crowd
		now   time.Time
		want  Gap
	}{
		{"one starts for all", jobs.Job{}, crowd{}, at(3), Gap{}},
		{"one is skipped for all", jobs.Job{}, crowd{running: 1}, at(3), Gap{at(1), at(3), 3, overlaps[jobs.OverlapForbid].full}},
		{"missed", jobs.Job{Misfire: jobs.MisfireSkip}, crowd{}, at(3).Add(time.Minute - 1), Gap{at(1), at(3), 3, Missed}},
		{"each starts", jobs.Job{Misfire: jobs.MisfireAll}, crowd{}, at(3), Gap{}},
		{"more than may wait", jobs.Job{Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 2}}, crowd{}, at(5), Gap{at(1), at(3), 3, "more ticks are due than may wait"}},
		{"each, some too late", jobs.Job{Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Deadline: time.Minute}}, crowd{}, at(5), Gap{at(1), at(3), 3, TooLate}},
	} {
		if got := planned(test.job, test.crowd).claim(test.now).Skips; got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	if !IsMissed(Missed) || !IsMissed(TooLate) || IsMissed(overlaps[jobs.OverlapForbid].full) {
		t.Error("missed is what no replica could run")
	}
}

// Ticks before and after a pause that one run would stand for have one run each, one after the other.
func TestPartedByAPause(t *testing.T) {
	t.Parallel()
	pause := []jobs.Pause{{Began: at(2).Add(1), Ended: at(3).Add(1)}}
	for misfire, want := range map[jobs.Misfire]bool{jobs.MisfireOnce: true, jobs.MisfireSkip: false, jobs.MisfireAll: false} {
		j := planned(jobs.Job{Misfire: misfire}, crowd{})
		c := j.Claim(at(5), pause, 9, nothingInHand)
		if last := c.Rows[len(c.Rows)-1].Tick; !last.Equal(at(2)) || j.parted != want {
			t.Errorf("%v: up to %v, parted %v", misfire, last, j.parted)
		}
		j.answer(c, true)
		seats(j, aTick, Running)
		if got := j.Hold(at(5)); (got == Busy) != want {
			t.Errorf("%v: behind the pause, beside a run: %v", misfire, got)
		}
		j.Room = Room{}
		seats(j, aBackfill, Running)
		if got := j.Hold(at(5)); got != Due {
			t.Errorf("%v: behind the pause, beside a backfill: %v", misfire, got)
		}
		c = j.Claim(at(5), pause, 9, nothingInHand)
		if got := claimsText(c.Rows); got != "3 skipped (paused)" || j.parted {
			t.Errorf("%v: in the pause: %s, parted %v", misfire, got, j.parted)
		}
		j.answer(c, true)
		if c = j.Claim(at(5), pause, 9, nothingInHand); !c.Rows[len(c.Rows)-1].Tick.Equal(at(5)) || j.parted {
			t.Errorf("%v: after the pause: %s, parted %v", misfire, claimsText(c.Rows), j.parted)
		}
	}
}

// Jitter puts a run off, and its deadline with it.
func TestJitter(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute), Jitter: 30 * time.Second, CatchUp: jobs.CatchUp{Deadline: time.Second}}
	delay := job.Delay("g", at(1))
	if delay < time.Second || delay > 29*time.Second {
		t.Fatalf("choose another tick: %v", delay)
	}
	j := planned(job, crowd{})
	if got := j.PutOff(at(1), at(1).Add(time.Second)); got != (delay - time.Second).Truncate(time.Microsecond) {
		t.Errorf("put off by %v", got)
	}
	if got := j.PutOff(at(1), at(2)); got != 0 {
		t.Errorf("a minute later, put off by %v", got)
	}
	if j.IsTooLate(at(1), at(1).Add(delay+time.Second)) || !j.IsTooLate(at(1), at(1).Add(delay+time.Second+1)) {
		t.Error("the deadline is not counted from the jitter's end")
	}
	if c := j.claim(at(1)); c.Rows[0].State != jobs.Waiting || c.Rows[0].Delay != delay.Truncate(time.Microsecond) {
		t.Errorf("claims %+v", c.Rows)
	}
	job.CatchUp.Deadline, job.Misfire = 0, jobs.MisfireAll
	if c := planned(job, crowd{running: 1}).claim(at(1)); c.Rows[0].State != jobs.Waiting || c.Rows[0].Delay != delay.Truncate(time.Microsecond) {
		t.Errorf("in line, claims %+v", c.Rows)
	}
	job.Misfire = jobs.MisfireOnce
	if c := planned(job, crowd{running: 1}).claim(at(1)); c.Rows[0].State != jobs.Skipped || c.Rows[0].Delay != 0 {
		t.Errorf("skipped, claims %+v", c.Rows)
	}
	job.Jitter = 0
	if got := planned(job, crowd{}).PutOff(at(5), at(1)); got != 0 {
		t.Errorf("without jitter, put off by %v", got)
	}
}

// Runs of a backfill cause no tick to be skipped.
func TestTickBesideABackfill(t *testing.T) {
	t.Parallel()
	for _, overlap := range jobs.Overlaps() {
		for _, p := range []Phase{Waiting, Running} {
			j := planned(jobs.Job{Overlap: overlap, Limit: map[jobs.Overlap]int{jobs.OverlapAllow: 1}[overlap]}, crowd{})
			seats(j, aBackfill, p)
			if c := j.claim(at(1)); c.Rows[0].State != jobs.Waiting {
				t.Errorf("%v, beside a backfill in phase %d: %+v", overlap, p, c.Rows)
			}
		}
	}
}
