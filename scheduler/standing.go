package scheduler

import (
	"time"

	"github.com/cronlease/cronlease/scheduler/internal/plan"
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
	recovers bool // it is the job's recovery
	number   int  // in the order of the ends of its job
	aside    bool // its row is set aside
	took     time.Duration
	done     func(bool)
}

// planned is the end as what is planned by it.
func (x *end) planned() plan.End {
	return plan.End{Record: x.run.record, To: x.move.To, Why: x.move.Error, Took: x.took, Stop: x.run.stop, Recovers: x.recovers}
}

// endsAtOnce is how many ends of a job's runs go together, in one statement unless it fails.
const endsAtOnce = 100

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
	x.move.Verdict = x.planned().Verdict()
	if x.move.Verdict == store.NoVerdict {
		x.move.Then = t.then(&x)
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

// then are the runs that follow the end of a run.
func (t *term) then(x *end) []store.Follower {
	return t.leftOut(t.followers.OfEnd(x.planned(), x.run.entry.isNotifier(), time.Now()))
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
		x.move.Then = t.then(x)
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
