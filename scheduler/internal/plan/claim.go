package plan

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Claims are what becomes of the ticks of a job that are due: the ledger is to take them together.
type Claims struct {
	Rows  []store.Claim // in the order of their ticks
	Skips Gap           // what the first row says is skipped, if anything
}

// Gap are ticks of a job that are skipped together, because of one reason.
type Gap struct {
	From, To time.Time // the first and the last of them
	Ticks    int       // from maxCounted on, at least so many
	Why      string
}

// skipped is the newest row of the job, if this term has claimed it as skipped: the next ticks that are
// skipped for the same reason extend it.
type skipped struct {
	tick time.Time
	why  string
}

// Claim returns what becomes of the ticks that are due at an instant, from the next one on; no rows: nothing is due,
// [Job.Hold] or a pause holds it back, or all of it is in hand. group are the pauses of the group, and slots is how
// many runs this replica may start. Keys that are in hand are left out. The answer to the claims goes to [Job.Answer]
// and [Job.Answered].
func (j *Job) Claim(now time.Time, group []jobs.Pause, slots int, inHand func(jobs.Key) bool) (c Claims) {
	if j.Hold(now) != Due {
		return c
	}
	until, paused, ok := j.stretch(now, group)
	if !ok {
		return c
	}
	c = j.plan(now, until, paused)
	c.Rows = slices.DeleteFunc(c.Rows, func(row store.Claim) bool { return inHand(row.Key) })
	for i := range c.Rows {
		if row := &c.Rows[i]; row.State == jobs.Running {
			if slots--; slots < 0 {
				row.State = jobs.Waiting
			}
		}
		c.Rows[i].After = j.recorded
	}
	if len(c.Rows) == 0 {
		return c
	}
	if first := &c.Rows[0]; first.State == jobs.Skipped && first.Error == j.skipped.why && j.skipped.tick.Equal(j.recorded) {
		first.Extends = j.skipped.tick
	}
	if last := c.Rows[len(c.Rows)-1]; last.State == jobs.Skipped {
		j.Finished(now) // a fixed delay counts from here
	}
	j.parted = !paused && until.Before(now) && misfires[j.job.Misfire].parts
	j.claiming, j.first = asked, c.Rows[0].Tick
	return c
}

// Answer takes in what stands for a row of the claims. mine says that the term has it.
func (j *Job) Answer(row store.Claim, is store.Claimed, mine bool) {
	if mine {
		j.forgetRefused(row.Key)
	}
	if is.Refused() {
		j.noteRefused(row.Key)
	} else {
		j.recorded = later(j.recorded, row.Tick)
	}
	j.skipped = skipped{}
	if mine && row.State == jobs.Skipped && len(row.Then) == 0 { // what was told of keeps its row
		j.skipped = skipped{row.Tick, row.Error}
	}
}

// Answered ends the claims: anyRefused says that the ledger has refused one of them.
func (j *Job) Answered(anyRefused bool) {
	j.claiming = free
	if anyRefused {
		j.claiming = refused
		j.known.Cursor = j.recorded
		j.resolve()
	}
}

// plan decides about every tick that is due up to an instant, which is not later than now, and moves next behind
// them. paused says that they fall into a pause.
func (j *Job) plan(now, until time.Time, paused bool) Claims {
	limit, line, each := 1, 0, j.job.Misfire.Each()
	if each {
		line = j.line()
		limit = max(1, j.job.CatchUp.Limit-line)
	}
	d := dueTicks(j.schedule, j.next, until, limit)
	if len(d.ticks) == 0 {
		return Claims{}
	}
	first := j.next
	newest, earlier := d.ticks[len(d.ticks)-1], d.missed+len(d.ticks)-1
	j.next, j.known.Cursor = d.next, newest

	switch {
	case paused:
		return skip(j.job.Name, first, newest, earlier, event.WhyPaused)
	case j.IsTooLate(newest, now):
		return skip(j.job.Name, first, newest, earlier, TooLate)
	case j.isClaimedLate(newest, now):
		return skip(j.job.Name, first, newest, earlier, Missed)
	case each && line >= j.job.CatchUp.Limit:
		return skip(j.job.Name, first, newest, earlier, lineFull)
	case each:
		return j.each(first, d, now, line > 0)
	}
	row := j.start(newest, now)
	row.Missed = earlier
	c := Claims{Rows: []store.Claim{row}}
	if row.State == jobs.Skipped {
		c.Skips = Gap{first, newest, earlier + 1, row.Error}
	}
	return c
}

// each claims every tick that is not too late. What cannot start yet waits: for what runs, behind the others
// of its gap, or at the end of the line.
func (j *Job) each(first time.Time, d due, now time.Time, behind bool) (c Claims) {
	late := 0
	for j.IsTooLate(d.ticks[late], now) { // the last one is not
		late++
	}
	if late > 0 {
		c = skip(j.job.Name, first, d.ticks[late-1], d.missed+late-1, TooLate)
	} else if d.missed > 0 {
		c.Skips = Gap{first, d.last, d.missed, "more ticks are due than may wait"}
	}
	for i, tick := range d.ticks[late:] {
		row := j.start(tick, now)
		if row.State == jobs.Skipped || behind || i > 0 && !j.isRoomBeside(i) {
			row.State, row.Error, row.Delay = jobs.Waiting, "", j.PutOff(tick, now)
		}
		if i == 0 && late == 0 {
			row.Missed = d.missed
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// isRoomBeside reports whether another run may start beside n that are about to.
func (j *Job) isRoomBeside(n int) bool { return j.job.Overlap.Beside() && j.Busy() < j.most()-n }

// start claims a tick by the job's overlap policy. Runs of backfills cause no tick to be skipped: it waits for
// them.
func (j *Job) start(at, now time.Time) store.Claim {
	row := store.Claim{Key: jobs.Key{Job: j.job.Name, Tick: at}, State: jobs.Running, Delay: j.PutOff(at, now)}
	policy, most := overlaps[j.job.Overlap], j.most()
	busy := j.Busy() - j.filling()
	why := ""
	switch {
	case policy.full != "" && busy >= most:
		if why = policy.full; busy-j.sum(other, Resting)-j.sum(tick, Resting) < most {
			why = "LockAtLeastFor is not over since an earlier run began"
		}
	case policy.queued != "" && j.toStart(tick)+j.toStart(other) > 0:
		why = policy.queued
	}
	switch {
	case why != "" && j.behind:
		row.State = jobs.Waiting // for what stands for the ticks before the pause
	case why != "":
		row.State, row.Error, row.Delay = jobs.Skipped, why, 0
	case j.Busy() >= most, row.Delay > 0:
		row.State = jobs.Waiting
	}
	return row
}

// skip claims a tick as skipped, for all since the first one of its gap.
func skip(job string, first, at time.Time, earlier int, why string) Claims {
	return Claims{
		Rows:  []store.Claim{{Key: jobs.Key{Job: job, Tick: at}, State: jobs.Skipped, Missed: earlier, Error: why}},
		Skips: Gap{first, at, earlier + 1, why},
	}
}
