package page

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/jobs"
)

// late are ticks that the leader has left for too long.
type late struct {
	overdue.Ticks
	by time.Duration // the oldest
	// failing are the jobs that fail now, and when a run of each last ended.
	failing map[string]time.Time
}

// readLate looks for them, and for the jobs that fail, among all jobs.
func (p *Page) readLate(ctx context.Context) (late, error) {
	leader, err := p.source.Leader(ctx)
	if err != nil {
		return late{}, err
	}
	snapshot, err := p.source.Load(ctx)
	if err != nil {
		return late{}, err
	}
	v := &viewer{page: p, leader: leader, snapshot: snapshot}
	found := v.late()
	found.failing = map[string]time.Time{}
	for name, known := range snapshot.Jobs {
		if onlyJobs["failing"](known) {
			found.failing[name] = known.Finished
		}
	}
	return found, nil
}

// late looks for them among the jobs that were read.
func (v *viewer) late() late {
	if !v.leader.Held() {
		return late{}
	}
	ticks := overdue.Find(v.snapshot, v.leader, overdue.Config{Parse: func(text string) (jobs.Schedule, bool) {
		s := v.page.parsed.read(text)
		return s, s != nil
	}})
	if !ticks.TooLong(v.snapshot, v.leader) {
		return late{}
	}
	return late{Ticks: ticks, by: v.snapshot.Now.Sub(ticks.Tick)}
}
