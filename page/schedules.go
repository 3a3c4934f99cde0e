package page

import (
	"sync"

	"github.com/cronlease/cronlease/jobs"
)

// schedules are those that were read from their texts: a large group has thousands, and each view needs
// them. It is safe for concurrent use.
type schedules struct {
	mu sync.Mutex
	of map[string]jobs.Schedule // nil: not one of package jobs
}

// maxSchedules bounds how many are kept.
const maxSchedules = 20_000

// read returns the schedule of a text, and nil if package jobs does not know it.
func (s *schedules) read(text string) jobs.Schedule {
	s.mu.Lock()
	known, ok := s.of[text]
	s.mu.Unlock()
	if ok {
		return known
	}
	parsed, ok := jobs.ParseSchedule(text)
	if !ok {
		parsed = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxSchedules {
		s.of = map[string]jobs.Schedule{}
	}
	s.of[text] = parsed
	return parsed
}
