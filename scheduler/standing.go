package scheduler

import (
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// standing is whether a job works, by the ends of its runs. The move that writes an end also
// writes its verdict to the job, and inserts the notice if the job has recovered. So a term
// that takes over finds in the ledger which recoveries have not been told. A job that is
// removed from the term and added again keeps its standing. The term's loop owns it.
type standing struct {
	failing bool // by the ends that were sent, in their order
	// The ledger gets the verdicts in the order in which the runs ended. While some are being
	// written, later ones wait for the answer, and then go together. An end whose row was set
	// aside is not waited for, and may be written after later ones: see send.
	ends  []end // that wait
	waits int   // how many ends are being written, without those that are set aside
	stuck int   // how many are set aside

	sent    int  // how many ends were sent
	written int  // the number of the latest that is written
	stands  bool // and whether the job was failing after it
}

// end is the end of a run: the move that records it, and who gets its answer.
type end struct {
	run      *run
	move     store.Move
	says     store.Verdict // of the run; that of the move is of the job
	recovers bool          // it is the job's recovery
	number   int           // in the order of the ends of its job
	aside    bool          // its row is set aside
	took     time.Duration
	done     func(bool)
}

// endsAtOnce is how many ends of a job's runs go together, in one statement unless it fails.
const endsAtOnce = 100

// verdictOf is what the end of a run says. asked says that its end was asked for, or that a
// newer tick has replaced it.
func verdictOf(state jobs.State, why string, asked bool) store.Verdict {
	switch state {
	case jobs.Succeeded:
		return store.JobWorks
	case jobs.Failed, jobs.TimedOut, jobs.Panicked, jobs.Interrupted:
		return store.JobFails
	case jobs.Cancelled: // by the end of its term, unless there was another reason
		if !asked && why != notDeclared && !strings.Contains(why, jobs.ErrReplacedByTick.Error()) {
			return store.JobFails
		}
	}
	return store.NoVerdict
}

// ofJob is what the verdict of a run says of its job: that of a backfill's run, nothing.
func ofJob(v store.Verdict, r jobs.Record) store.Verdict {
	if triggers.IsBackfill(r.Trigger) {
		return store.NoVerdict
	}
	return v
}

// outcomes are the standings of the jobs of which runs have ended.
type outcomes struct {
	of        map[string]*standing
	unwritten int // ends that wait there
}

// add takes in an end that waits to be written.
func (o *outcomes) add(x end) *standing {
	e := x.run.entry
	s := o.of[e.job.Name]
	if s == nil {
		s = &standing{stands: e.Known().Failing}
		o.of[e.job.Name] = s
	}
	s.ends = append(s.ends, x)
	o.unwritten++
	return s
}

// next takes out the ends of a job that are written next.
func (o *outcomes) next(s *standing, most int) []end {
	n := min(len(s.ends), most)
	if n > 0 && s.waits+s.stuck == 0 {
		s.failing = s.stands // what was refused says nothing
	}
	part := s.ends[:n:n]
	s.ends = s.ends[n:]
	o.unwritten -= n
	s.waits += n
	for i := range part {
		x := &part[i]
		s.sent++
		x.number = s.sent
		works := x.move.Verdict == store.JobWorks
		x.recovers, s.failing = works && s.failing, !works
	}
	return part
}

// send clears the verdict of an end whose row was set aside if that of a later one is written
// already: in the ledger, the verdict that is written last counts.
func (s *standing) send(part []end, moves []store.Move) {
	for i := range moves {
		if part[i].number < s.written {
			moves[i].Verdict = store.NoVerdict
		}
	}
}

// record writes the move of a run, and with an end what follows it. done gets the answer.
func (t *term) record(r *run, m store.Move, took time.Duration, done func(bool)) {
	x := end{run: r, move: m, took: took, done: done}
	x.says = verdictOf(m.To, m.Error, r.stop != nil || r.record.CancelAsked)
	x.move.Verdict = ofJob(x.says, r.record)
	if x.move.Verdict == store.NoVerdict {
		x.move.Then = t.then(x)
		t.wrote.move(x.move, func(moved bool) {
			t.answered(r.record, x.move.Then, moved)
			done(moved)
		})
		return
	}
	if s := t.outcomes.add(x); s.waits == 0 {
		t.writeEnds(s)
	}
}

// writeEnds writes the ends of a job that wait.
func (t *term) writeEnds(s *standing) {
	most := endsAtOnce
	if t.wrote.ctx.Err() != nil { // all get the one statement that is left to them
		most = len(s.ends)
	}
	part := t.outcomes.next(s, most)
	if len(part) == 0 {
		return
	}
	var moves []store.Move
	for i := range part {
		x := &part[i]
		x.move.Then = t.then(*x)
		moves = append(moves, x.move)
	}
	t.wrote.together(write{job: moves[0].Job, moves: moves, follow: follow{
		done: func(w write, moved []bool) { t.endsWritten(s, part[w.first:w.first+len(w.moves)], moved) },
		send: func(w write) { s.send(part[w.first:], w.moves) },
		aside: func(w write) {
			if x := &part[w.first]; !x.aside {
				x.aside = true
				s.stuck++
				t.waitLess(s, 1)
			}
		},
	}})
}

// endsWritten takes in the answer to ends. Without an answer, they count as written.
func (t *term) endsWritten(s *standing, part []end, moved []bool) {
	waited := 0
	for i, x := range part {
		is := moved != nil && moved[i]
		if (is || moved == nil) && x.number > s.written {
			s.written, s.stands = x.number, x.move.Verdict == store.JobFails
		}
		t.answered(x.run.record, x.move.Then, is)
		x.done(is)
		if x.aside {
			s.stuck--
		} else {
			waited++
		}
	}
	t.waitLess(s, waited)
}

// waitLess writes the next ends once none is waited for.
func (t *term) waitLess(s *standing, n int) {
	if s.waits -= n; n > 0 && s.waits == 0 {
		t.writeEnds(s)
	}
}
