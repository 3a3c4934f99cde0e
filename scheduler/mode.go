package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
	"github.com/cronlease/cronlease/store"
)

// WithSpread spreads the runs of the group over its replicas: the leader claims each tick and assigns the run to the
// replica with the fewest, which runs it under a lease of its own. Without it, the leader runs all jobs.
//
// It is the mode of the group, which the database keeps. The first leader of a group sets it, and [jobs.Group.SetSpread] changes
// it. A replica of the other mode does not lead, and its health says so ([ErrMode]). The store has to be a [store.Spreads].
//
// A change of leader cancels no run. When a replica dies, its runs are recovered as [jobs.Job].Recover says, once its
// own lease is over, and the other replicas go on. A replica that leaves finishes what runs ([WithDrain]), and gets nothing new.
// [WithMaxRuns] limits each replica, and [jobs.Run].Token is a token of the attempt: it grows from each run of a job to the next,
// unless they may overlap.
func WithSpread() Option { return func(s *settings.Scheduler) { s.Spread = true } }

// ErrMode says that this replica does not lead, because its group is spread over its replicas ([WithSpread]) and this one is not
// to be, or the other way round.
var ErrMode = errors.New("scheduler: the group has another mode than this replica")

// errEarlier says that it will, when the runs of the time before the switch have ended.
var errEarlier = fmt.Errorf("%w: the group was spread over its replicas", ErrMode)

// mode is that of the group: whether its runs are spread, as this replica wants it, and as the ledger has it. It is safe for
// concurrent use.
type mode struct {
	group  string
	spread bool                        // this replica's
	resign func(context.Context) error // of this replica
	crew   *crew.Crew
	log    *zap.Logger
	other  atomic.Pointer[error] // why this replica does not lead; nil until the ledger was read
	barred signal                // this replica does not lead: the sentinel is to read the ledger until it may
	lifted signal                // it may now
}

// saw takes in what a reading says, and returns why this replica does not lead. away is why a leader that runs all jobs
// may not lead yet: runs of the time before the switch go on. Meanwhile a replica of that time may lead, so that the
// group has a leader.
func (m *mode) saw(o jobs.Opened, away error) error {
	var other error
	switch {
	case o.Spread == m.spread, !o.HasMode():
		if !m.spread {
			other = away
		}
	case m.spread && away != nil:
	case o.Spread:
		other = fmt.Errorf("%w: the runs of group %q are spread over its replicas: start this one with WithSpread (spread: true), or switch the group with worker spread off", ErrMode, m.group)
	default:
		other = fmt.Errorf("%w: the leader of group %q runs all jobs: start this replica without WithSpread (spread: true), or switch the group with worker spread on", ErrMode, m.group)
	}
	m.note(other)
	return other
}

func (m *mode) note(other error) {
	was := m.refuses()
	m.other.Store(&other)
	switch {
	case other != nil:
		m.barred.give()
		if was == nil || errors.Is(was, errEarlier) != errors.Is(other, errEarlier) {
			m.log.Warn("this replica does not lead", zap.Error(other))
		}
	case was != nil:
		m.lifted.give()
		m.log.Info("the group has the mode of this replica, which may lead again")
	}
}

// refuses is why this replica does not lead, by what was read last.
func (m *mode) refuses() error {
	if other := m.other.Load(); other != nil {
		return *other
	}
	return nil
}

// mayHave reports whether a run may go on under the session of a replica that was given it.
func (m *mode) mayHave(r jobs.Record) bool {
	return r.Fencing != 0 && r.Owner != "" && !m.crew.IsOver(store.Assignee{Owner: r.Owner, Token: r.Token})
}

// check reports why this replica may not lead: the group has the other mode, or was spread until now, and a run may go on under the session
// of a replica. The crew takes over the sessions of replicas that have died.
func (m *mode) check(snapshot jobs.Snapshot) error {
	var away error
	if o := snapshot.Opened; o.Assigns() && !o.Spread {
		for _, r := range snapshot.Open { // of all, so that the crew looks at all sessions
			if m.mayHave(r) {
				away = fmt.Errorf("%w, and %s may still have a run of job %q", errEarlier, r.Owner, r.Job)
			}
		}
	}
	return m.saw(snapshot.Opened, away)
}
