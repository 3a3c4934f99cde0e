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
	j.count[other] = [phases]int{Parking: c.parking, Waiting: c.waiting, Ready: c.ready, Running: c.running}
	j.rests = c.resting
	j.Restore(jobs.Known{ScheduleSince: noon}, noon)
	return &j
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
			now := noon.Add(test.after)
			if got := claimsText(j.plan(now, now, test.paused, !test.noSlot).Rows); got != test.want {
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
		claims := j.plan(now, now, rapid.Bool().Draw(t, "paused"), rapid.Bool().Draw(t, "slot")).Rows
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
			tick = job.Schedule.Next(tick)
		}
		if !tick.Equal(j.next) || !tick.After(now) {
			t.Fatalf("next is %v, want %v", j.next, tick)
		}
		if len(claims) > 0 && !j.known.Cursor.Equal(claims[len(claims)-1].Tick) {
			t.Fatalf("cursor %v", j.known.Cursor)
		}
	})
}
