package scheduler

import (
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// skipsEvery is how long a job has to skip nothing until it has ceased to.
const skipsEvery = time.Minute

// skips logs the ticks that a term skips. Thousands of jobs that take longer than their schedules allow would each
// write a line for every tick. So a job has a line when it begins to skip for a reason, and one when it has not done so
// for a minute, or the term is over, with what came after the first. Each tick that is claimed as skipped, or lapses,
// is in exactly one of these lines; one that is replaced while it waits is an event alone. The ledger has one row for
// the ticks that are skipped one after the other for one reason. The term's loop owns it.
type skips struct {
	*env
	began time.Time // of the present minute; zero: nothing was skipped lately
	open  map[skipping]*skipped
}

// skipping is a job that skips ticks for a reason.
type skipping struct{ job, why string }

// skipped are the ticks that were not logged yet, if any.
type skipped struct {
	plan.Gap
	lately bool // in this minute
}

// add notes that ticks of a job are skipped.
func (s *skips) add(job string, g plan.Gap) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	o := s.open[skipping{job, g.Why}]
	if o == nil {
		s.open[skipping{job, g.Why}] = &skipped{lately: true}
		s.tell(job, g, true)
		return
	}
	s.tell(job, g, false)
	if o.Ticks == 0 {
		o.Gap = g
	} else {
		o.To, o.Ticks = g.To, o.Ticks+g.Ticks
	}
	o.lately = true
}

func (s *skips) tell(job string, g plan.Gap, first bool) {
	s.stream.Emit(event.TicksSkipped{
		Header: s.head(), Job: job, From: g.From, To: g.To, Ticks: g.Ticks, Why: g.Why, Missed: plan.IsMissed(g.Why), First: first,
	})
}

func (o *skipped) fields(job string) []zap.Field {
	return []zap.Field{zap.String("job", job), zap.String("why", o.Why), zap.Int("ticks", o.Ticks), zap.Time("from", o.From), zap.Time("to", o.To)}
}

// sweep looks once a minute for jobs that have ceased to skip.
func (s *skips) sweep() {
	if s.began.IsZero() || time.Since(s.began) < skipsEvery {
		return
	}
	s.began = time.Now()
	for of, o := range s.open {
		if o.lately {
			o.lately = false
			continue
		}
		s.end(of, o)
	}
	if len(s.open) == 0 {
		s.began = time.Time{}
	}
}

// finish logs what was not logged yet.
func (s *skips) finish() {
	for of, o := range s.open {
		s.end(of, o)
	}
}

func (s *skips) end(of skipping, o *skipped) {
	if o.Ticks > 0 {
		s.log.Warn("further ticks skipped", o.fields(of.job)...)
	}
	delete(s.open, of)
}
