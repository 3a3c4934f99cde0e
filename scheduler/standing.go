package scheduler

import (
	"errors"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// standing is whether a job works, by the ends of its runs. The move that writes an end also
// writes its verdict to the job, and inserts the notices of it. So a term
// that takes over finds in the ledger which recoveries have not been told. A job that is
// removed from the term and added again keeps its standing. The term's loop owns it.
type standing struct {
	plan.Order
	ends  []unwritten // that wait to be written
	ended time.Time   // when the newest one that was written was, by the database's clock, or a moment later
}

// unwritten is the end of a run: the move that records it, and who gets its answer.
type unwritten struct {
	plan.Rank
	run   *run
	move  store.Move
	took  time.Duration
	asked bool // its end was asked for, when it came
	done  func(bool)
}

// planned is the end as what is planned by it.
func (x *unwritten) planned() plan.RunEnd {
	return plan.RunEnd{Record: x.run.record, To: x.move.To, Why: x.move.Error, Took: x.took, Asked: x.asked,
		Cancelled: errors.Is(x.run.stop, jobs.ErrCancelled) || x.run.record.CancelAsked, Recovers: x.Recovers}
}

// endsAtOnce is how many ends of a job's runs go together, in one statement unless it fails.
const endsAtOnce = 100

// outcomes are the standings of the jobs of which runs have ended.
type outcomes struct {
	of        map[string]*standing
	unwritten int // ends that wait there
}

// add takes in an end that waits to be written.
func (o *outcomes) add(x unwritten) *standing {
	e := x.run.entry
	s := o.of[e.job.Name]
	if s == nil {
		s = &standing{Order: plan.NewOrder(e.Known().Failing || x.run.record.Failing)}
		o.of[e.job.Name] = s
	}
	if x.run.record.Fencing > 0 && len(s.ends) == 0 && s.MayWrite() && s.ended.UnixMicro() < x.run.record.Judged {
		s.Order = plan.NewOrder(x.run.record.Failing) // other replicas have written ends, too
	}
	s.ends = append(s.ends, x)
	o.unwritten++
	return s
}

// next takes out the ends of a job that are written next.
func (o *outcomes) next(s *standing, most int) []unwritten {
	n := min(len(s.ends), most)
	part := s.ends[:n:n]
	s.ends = s.ends[n:]
	o.unwritten -= n
	verdicts := make([]store.Verdict, n)
	for i, x := range part {
		verdicts[i] = x.move.Verdict
	}
	for i, rank := range s.Send(verdicts) {
		part[i].Rank = rank
	}
	return part
}

// record writes the move of a run, and with an end what follows it. done gets the answer.
func (t *term) record(r *run, m store.Move, took time.Duration, done func(bool)) {
	x := unwritten{run: r, move: m, took: took, asked: r.stop != nil || r.record.CancelAsked, done: done}
	x.move.Verdict = x.planned().Verdict()
	if x.move.Verdict == store.NoVerdict {
		x.move.Then = t.then(&x)
		t.wrote.move(x.move, func(moved bool) {
			t.answered(r.record, x.move.Then, moved)
			done(moved)
		}, nil)
		return
	}
	if s := t.outcomes.add(x); s.MayWrite() {
		t.writeEnds(s)
	}
}

// then are the runs that follow the end of a run.
func (t *term) then(x *unwritten) []store.Follower {
	return t.leftOut(t.followers.OfEnd(x.planned(), x.run.entry.isNotifier(), time.Now()))
}

// writeEnds writes the ends of a job that wait, if they may be written.
func (t *term) writeEnds(s *standing) {
	if len(s.ends) == 0 || !s.MayWrite() {
		return
	}
	most := endsAtOnce
	if t.wrote.ctx.Err() != nil { // all get the one statement that is left to them
		most = len(s.ends)
	}
	part := t.outcomes.next(s, most)
	moves := make([]store.Move, len(part))
	for i := range part {
		x := &part[i]
		x.move.Then = t.then(x)
		moves[i] = x.move
	}
	t.wrote.together(write{job: moves[0].Job, moves: moves, follow: follow{
		done: func(w write, moved []bool) { t.endsWritten(s, part[w.first:w.first+len(w.moves)], moved) },
		send: func(w write) {
			for i := range w.moves {
				if !s.Counts(part[w.first+i].Rank) {
					w.moves[i].Verdict = store.NoVerdict
				}
			}
		},
		aside: func(w write) {
			s.SetAside(&part[w.first].Rank)
			t.writeEnds(s)
		},
	}})
}

// endsWritten takes in the answer to ends; moved is nil if it is not known.
func (t *term) endsWritten(s *standing, part []unwritten, moved []bool) {
	s.ended = t.clock.Theirs(t.now())
	for i, x := range part {
		is := moved != nil && moved[i]
		s.Written(x.Rank, is || moved == nil)
		t.answered(x.run.record, x.move.Then, is)
		x.done(is)
	}
	t.writeEnds(s)
}
