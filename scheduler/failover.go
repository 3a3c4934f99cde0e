package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/memory"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// A failover may lose the last writes. A claim on the server that answers now would become its job's newest tick, and
// hide those before it that are not there any more. So a term claims and moves runs on that server alone whose ledger it
// knows (writer.server), which the store compares. When another one answers, the term reads the ledger there. If that
// has all that the term knows to be in the ledger, the term goes on. Otherwise it ends, and the next one decides about what
// is missing, as after any gap.

// The tables of one server may go back as well, as when a backup is restored. So each claim names the tick that it comes after
// ([store.Claim.After]), and the term ends when the ledger lacks that.

// On a cluster whose nodes all take writes, none lacks what another one has committed: there the store takes claims and
// moves on each of them. One that was answered while the ledger was being read on another node is not lost. So what a ledger
// lacks counts when a second reading lacks it, which was sent after that was known to be there.

// doubt is what a ledger lacked of what the term knew to be in it.
type doubt struct {
	server string
	since  time.Time
	ticks  map[string]time.Time     // by job, the newest that was recorded; zero: the job was made anew
	runs   map[jobs.Key]jobs.Record // in hand
}

// met takes in which server has shown the ledger, by a reading that was sent at an instant or later, and reports whether
// the term takes the reading in.
func (t *term) met(snapshot jobs.Snapshot, sent time.Time) bool {
	same := snapshot.Server == t.wrote.server
	if t.stage == stopped || same && snapshot.Jobs == nil { // what was only glanced at has no ticks to compare
		return true
	}
	lacks, where := t.lacking(snapshot), "the ledger"
	restored := t.memory.Restored() != nil
	switch {
	case !same:
		where = "another server answers, as after a failover, and"
		keeper.HeldOf(t.ctx).Answered(snapshot.Server)
		if snapshot.Opened.Token < t.holder.Token {
			t.cut(fmt.Errorf("%w: %s has term %d as its last", election.ErrLost, where, snapshot.Opened.Token))
			return false
		}
	case !restored:
		lacks.runs = nil // programs, and other replicas, may have ended them
	}
	isWhole := len(lacks.ticks)+len(lacks.runs) == 0
	switch before := t.doubt; {
	case isWhole:
		t.doubt = doubt{}
	case before.since.IsZero() || before.server != snapshot.Server:
		t.doubt = lacks
	case sent.Before(before.since): // the next reading is sent later
	default:
		if ticks, runs := lacks.still(before, snapshot); ticks+runs > 0 {
			t.cut(fmt.Errorf("%w: %s lacks the newest ticks of %d jobs, and %d of the runs in hand", election.ErrLost, where, ticks, runs))
			return false
		}
		t.doubt, isWhole = doubt{}, true
	}
	if !isWhole && (!same || restored) {
		t.reader.soon()
	}
	if same || !isWhole {
		return same
	}
	t.over = over{}
	if t.wrote.server = snapshot.Server; t.wrote.home != snapshot.Home() {
		t.wrote.home = snapshot.Home()
		t.keepQuiet()
	}
	t.wrote.hurry()
	return true
}

// lacking is what a ledger lacks of what this term knows to be in it. What is under way is not known to
// be there: it is sent again.
func (t *term) lacking(snapshot jobs.Snapshot) doubt {
	open := make(map[jobs.Key]jobs.Record, len(snapshot.Open))
	for _, r := range snapshot.Open {
		open[r.Key] = r
	}
	lacks := doubt{snapshot.Server, time.Now(), map[string]time.Time{}, map[jobs.Key]jobs.Record{}}
	for name, e := range t.roll.entries {
		known := snapshot.Jobs[name]
		switch {
		case e.IsRemoved(): // it claims nothing
		case !e.Known().Since.IsZero() && !known.Since.Equal(e.Known().Since):
			lacks.ticks[name] = time.Time{}
		case known.Cursor.Before(e.Recorded()):
			lacks.ticks[name] = e.Recorded()
		}
		for key, r := range e.runs {
			if is := open[key]; r.settled() && (is.State != r.record.State || is.Attempt != r.record.Attempt || is.Owner != r.record.Owner || is.Token != r.record.Token) {
				lacks.runs[key] = r.record
			}
		}
	}
	return lacks
}

// still counts what a reading lacks that was in doubt before it was sent.
func (d doubt) still(before doubt, snapshot jobs.Snapshot) (ticks, runs int) {
	for name := range d.ticks {
		if tick, is := before.ticks[name]; is && (tick.IsZero() || snapshot.Jobs[name].Cursor.Before(tick)) {
			ticks++
		}
	}
	for key, r := range d.runs {
		if was, is := before.runs[key]; is && was == r {
			runs++
		}
	}
	return ticks, runs
}

// settled reports whether the ledger is known to have the run as its record says.
func (r *run) settled() bool {
	return r.Phase().Pending() || r.Phase() == plan.Running && r.attempt != nil
}

// keepQuiet has the term assign nothing for as long as a replica may trust a session and runs that another server has lost.
func (t *term) keepQuiet() {
	if t.role != assigns {
		return
	}
	wait := t.spread.crew.TTL() + t.spread.crew.TTL()/50
	t.spread.quiet = time.Now().Add(wait)
	t.after(wait, t.spread.changed.give)
}

// tellLost tells of ticks that this process has seen, and that another server lacks, or has other rows of: another replica
// has decided about them before this one was back.
func (s *Scheduler) tellLost(ctx context.Context, snapshot jobs.Snapshot, sent time.Time) error {
	e := s.memory.Behind(snapshot, sent)
	if e.Jobs == 0 && !s.memory.IsOf(snapshot.Server) {
		seen := s.memory.Marks(s.list.jobNames(), snapshot, sent)
		for _, job := range slices.Sorted(maps.Keys(seen)) {
			records, err := s.recent(ctx, job)
			if err != nil {
				return err
			}
			if marks := seen[job]; slices.ContainsFunc(marks, func(k memory.Mark) bool { return k.IsReplaced(records) }) {
				if e.Jobs++; e.Jobs == 1 {
					e.Job, e.Had, e.Has = job, marks[len(marks)-1].Tick, snapshot.Jobs[job].Cursor
				}
			}
		}
	}
	if e.Jobs > 0 {
		e.Header = s.head()
		s.events.Emit(e)
	}
	return nil
}

// recent are the newest runs of a job, as many as are looked at for ticks that were seen.
func (s *Scheduler) recent(ctx context.Context, job string) ([]jobs.Record, error) {
	return s.db.Runs(ctx, s.group, jobs.Filter{Job: job, Limit: 1000})
}
