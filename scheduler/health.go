package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// ErrNotFiring says that a replica leads, this one or another, but has not claimed a tick that is
// due.
var ErrNotFiring = errors.New("scheduler: ticks that are due are not claimed")

// Health is [election.Health] with what a scheduler adds: its term standing still
// is a reason in Stuck, disagreeing clocks ([ErrSkew]) are one in Database, and a
// tick that this replica should have claimed as the leader is one in Leader,
// which then matches [ErrNotFiring], with the database's reason if it does not take
// the tick's row. It is a plain value.
//
// Each replica also reads in the ledger whether the group does its work, if the store is a
// [jobs.Archive]: within a minute of what goes wrong if a job is due by then, otherwise within
// six. A ledger that cannot be read is a reason in Database. A leader that leaves ticks, or a
// group that has paused itself ([ErrRestored]), is one in Leader. Under [WorkerClock] a follower
// cannot tell that the leader leaves ticks, since these are due by that one's clock. That this
// replica may not write, so that it could not lead, is a reason in Database within four minutes.
type Health struct {
	election.Health

	// Started: Run was called. Before that, and when Run has returned, the election's part
	// says that the campaign does not run.
	Started bool
	// Late is how long the oldest tick that is due has been left, as far as
	// this replica has let it wait while it led; zero below two seconds, which
	// is what a sweep takes, and on a replica that does not lead. LateJob is the
	// tick's job.
	Late    time.Duration
	LateJob string
	// Differences are the jobs in which replicas differ from the leader, as this
	// replica has last seen it: at most some minutes ago. They are no fault during a
	// deployment.
	Differences jobs.Differences
	// Skew is how far the database's clock is ahead of this machine's; zero
	// before it has been read.
	Skew lease.Skew
}

// Health is this replica's health. It reads what is known and sends nothing.
func (s *Scheduler) Health() Health {
	if s.election == nil {
		return Health{Health: election.Health{Stuck: errNotMade}}
	}
	run := s.run.Load()
	over := run == hasRun
	h := Health{Health: s.election.Health(), Started: run != notRun}
	if h.Started && !h.Running && !over {
		h.Stuck = nil // Run waits for its provider, or for runs after the campaign, and bounds both
		if s.sessions != nil {
			h.Leader = nil // it finishes what it was given
		}
	}
	h.Skew, _ = s.Skew()
	h.Differences = s.roster.Read().Differences()
	ledger, leader := s.sentinel.says(h.State.Role)
	if h.Database == nil {
		h.Database = cmp.Or(ledger, s.roster.Refusal())
	}
	if h.Started && !over {
		h.Leader = errors.Join(h.Leader, leader)
	}
	v := s.current.Load()
	if v == nil {
		return h
	}
	h.Stuck = errors.Join(h.Stuck, v.dog.Stuck())
	if h.State.Role != election.Leading {
		return h
	}
	if leader == nil { // else the sentinel has said it
		h.Leader = errors.Join(h.Leader, s.memory.Restored())
	}
	var refused error
	h.Late, h.LateJob, refused = v.next.late(v.now())
	if h.Late > max(v.timing.TTL, 10*time.Second) {
		err := fmt.Errorf("%w: one of job %q for %v", ErrNotFiring, h.LateJob, h.Late.Round(time.Millisecond))
		if refused != nil {
			err = fmt.Errorf("%w: the database does not take its row: %w", err, refused)
		}
		h.Leader = errors.Join(h.Leader, err)
	}
	return h
}

// Check is the error of [Scheduler.Health], for a health check that wants one
// answer to all questions.
func (s *Scheduler) Check() error { return s.Health().Err() }

// nextTick is the first tick that the term has not dealt with, for callers
// outside its loop: they see it become overdue even when the loop is stuck.
type nextTick struct {
	began time.Time // the term

	mu       sync.Mutex
	tick     time.Time // zero: none
	job      string
	rejected error // why the database does not take its row
}

// late is how long the tick has been left in this term.
func (n *nextTick) late(now time.Time) (time.Duration, string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	const sweeps = 2 * time.Second
	if n.tick.IsZero() {
		return 0, "", nil
	}
	late := min(now.Sub(n.tick), time.Since(n.began))
	if late < sweeps {
		return 0, "", nil
	}
	return late, n.job, n.rejected
}
