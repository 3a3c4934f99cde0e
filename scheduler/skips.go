package scheduler

import (
	"time"

	"go.uber.org/zap"
)

// skipsEvery is how often skipped ticks are summed up.
const skipsEvery = time.Minute

// gap are ticks of a job that are skipped together, because of one reason.
type gap struct {
	from, to time.Time // the first and the last of them
	ticks    int       // from maxCounted on, at least so many
	why      string
}

// skips logs the ticks that a term skips. Thousands of jobs that take longer than
// their schedules allow would each write a line for every tick. So a job has a line
// when it begins to skip, and as long as it skips something in each minute, what
// follows is only counted, with that of all such jobs: in one line a minute. Each
// skipped tick is in exactly one of these lines. The ledger has a row for each gap.
// The term's loop owns it.
type skips struct {
	log *zap.Logger

	began time.Time       // of the minute; zero: nothing was skipped lately
	last  map[string]bool // the jobs that skipped in the minute before
	now   map[string]bool // those of this one

	// What was counted in this minute, and not logged.
	jobs  map[string]bool
	why   map[string]int // ticks
	ticks int
}

func newSkips(log *zap.Logger) *skips {
	return &skips{log: log, last: map[string]bool{}, now: map[string]bool{}, jobs: map[string]bool{}, why: map[string]int{}}
}

// add notes that ticks of a job are skipped.
func (s *skips) add(job string, g gap) {
	now := time.Now()
	if s.began.IsZero() {
		s.began = now
	}
	fields := []zap.Field{zap.String("job", job), zap.String("why", g.why), zap.Int("ticks", g.ticks), zap.Time("from", g.from), zap.Time("to", g.to)}
	if s.last[job] || s.now[job] {
		s.jobs[job] = true
		s.why[g.why] += g.ticks
		s.ticks += g.ticks
		s.log.Debug("ticks skipped", fields...)
	} else {
		s.log.Warn("ticks skipped", fields...)
	}
	s.now[job] = true
}

// sweep sums up when the minute is over.
func (s *skips) sweep() {
	if s.began.IsZero() || time.Since(s.began) < skipsEvery {
		return
	}
	s.tell()
	s.last, s.now = s.now, map[string]bool{}
	s.began = time.Now()
	if len(s.last) == 0 {
		s.began = time.Time{}
	}
}

// tell logs what was counted.
func (s *skips) tell() {
	if s.ticks == 0 {
		return
	}
	s.log.Warn("further ticks skipped", zap.Int("ticks", s.ticks), zap.Int("jobs", len(s.jobs)), zap.Any("why", s.why),
		zap.Duration("for", time.Since(s.began)))
	s.ticks, s.jobs, s.why = 0, map[string]bool{}, map[string]int{}
}
