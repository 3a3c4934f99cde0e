package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// ErrRestored says that the ledger has gone back behind what this replica has
// seen in it, as after its tables were restored from a backup, and that the group
// is paused until [jobs.Group.Resume] or [jobs.Group.ResumeSkipping].
var ErrRestored = errors.New("scheduler: the ledger has gone back: was it restored?")

// load reads the ledger. If it has gone back, the group is paused first, so that
// no tick is claimed a second time before an operator has said how to go on.
// deep asks for a search for missing ticks behind the newest ones, which reads
// the history of a few jobs. Another server than before is always searched, since
// some of what was there is forgotten with that.
func (s *Scheduler) load(ctx context.Context, deep bool) (jobs.Snapshot, error) {
	mono := func() time.Time { return s.clock.Own().Mono }
	var snapshot jobs.Snapshot
	var lacks string
	var sent time.Time
	for range 2 { // one reading may lack a row that is there, or that was written since it was sent
		sent = mono()
		var err error
		if snapshot, err = s.read(ctx); err != nil {
			return snapshot, err
		}
		s.memory.Answer(snapshot)
		lacks = s.memory.Lacks(snapshot, sent)
		if lacks == "" && (deep || !s.memory.IsOf(snapshot.Server)) {
			if lacks, err = s.hole(ctx, snapshot, sent); err != nil {
				return snapshot, err
			}
		}
		if lacks == "" && s.memory.Behind(snapshot, mono()).Jobs == 0 {
			break
		}
	}
	if lacks != "" {
		if err := s.restored(ctx, snapshot, lacks); err != nil {
			return snapshot, err
		}
		var err error
		sent = mono()
		if snapshot, err = s.read(ctx); err != nil {
			return snapshot, err
		}
		s.memory.Answer(snapshot) // an operator, or a program, may have resumed the group since
	}
	if snapshot.Paused && s.memory.Restored() == nil {
		if gone, err := s.pausedBy(ctx); err == nil && gone != nil { // after an error the next reading tries again
			s.memory.Heed(gone, snapshot, mono())
		}
	}
	if err := s.tellLost(ctx, snapshot, sent); err != nil {
		return snapshot, err
	}
	s.memory.Learn(snapshot, mono())
	return snapshot, nil
}

func (s *Scheduler) read(ctx context.Context) (snapshot jobs.Snapshot, err error) {
	err = s.events.Timed(s.head(), "load", 0, func() (err error) {
		snapshot, err = s.db.Load(ctx, s.group)
		return err
	})
	return snapshot, err
}

// hole looks for missing ticks older than the newest ones: in restored tables, another
// leader that has seen less may have claimed some more.
func (s *Scheduler) hole(ctx context.Context, snapshot jobs.Snapshot, sent time.Time) (lacks string, err error) {
	for job, marks := range s.memory.Witnesses(s.list.jobNames(), snapshot, sent) {
		records, err := s.recent(ctx, job)
		if err != nil {
			return "", err
		}
		for _, mark := range marks {
			// Pruning deletes the oldest rows first. So a tick that was pruned leaves
			// no run behind that had ended before it.
			older := slices.ContainsFunc(records, func(r jobs.Record) bool {
				return r.Trigger == 0 && r.State.Over() && r.Tick.Before(mark.Tick) && !r.Finished.After(mark.Tick)
			})
			if older && !mark.IsAmong(records) {
				return fmt.Sprintf("it had tick %v of job %q, and has only others", mark.Tick, job), nil
			}
		}
	}
	return "", nil
}

// restored pauses the group, and cancels what the ledger has as open: it may have
// come to its end since. All of that is in the ledger, where it binds whichever
// replica leads, and may be repeated.
func (s *Scheduler) restored(ctx context.Context, snapshot jobs.Snapshot, lacks string) error {
	log := s.log.With(zap.String("lacks", lacks))
	if s.memory.IsAnswered(snapshot) {
		log.Warn("the ledger has gone back, and the group was resumed since: this replica goes on")
		s.memory.Forget(nil, s.clock.Own().Mono)
		return nil
	}
	ctx = acting(ctx, s.Owner())
	// Where another replica has paused the group for the same loss, an operator may have answered by now. Another pause would undo that.
	paused := false
	if snapshot.Paused {
		gone, err := s.pausedBy(ctx)
		if err != nil {
			return fmt.Errorf("read the pause of the group: %w", err)
		}
		paused = gone != nil
	}
	if !paused {
		if err := s.db.Pause(ctx, s.group, ""); err != nil {
			return fmt.Errorf("pause the group: %w", err)
		}
	}
	cancelled, last := 0, s.memory.Last()
	for _, r := range snapshot.Open {
		if s.sessions == nil && r.Token > last {
			continue // by a term after the restore
		}
		if err := s.db.Cancel(ctx, s.group, r.Key); err != nil && !errors.Is(err, jobs.ErrNoRun) {
			return fmt.Errorf("cancel a run: %w", err)
		}
		cancelled++
	}
	log.Error("the ledger has gone back, as after a backup was restored: the group is paused, and its open runs are cancelled, "+
		"so that nothing runs a second time. To go on: worker resume (the misfire policies decide about ticks since then, which may run again), "+
		"or worker resume --skip-missed (they are recorded as skipped)", zap.Int("cancelled", cancelled))
	s.memory.Forget(fmt.Errorf("%w: %s", ErrRestored, lacks), s.clock.Own().Mono)
	return nil
}

// lookout reads the ledger when another replica has begun a term, so that a
// replica which has not led knows, too, what was there; and when a term of this
// one was lost. When the lease has gone back, as after a restore, it reads for as long as no other replica can lead, and longer: another
// replica may pause the group meanwhile, and a second restore take the pause away. At rest it reads nothing.
func (s *Scheduler) lookout(ctx context.Context) {
	attempt := s.election.Timing().AttemptTimeout
	again := time.NewTimer(0)
	defer again.Stop()
	var state election.State
	lost := false // a restore may be the cause of what was seen, and the ledger was not read since
	var limit time.Duration
	var until, wary time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.states:
			if now := s.election.State(); now != state {
				state, limit, until = now, attempt, time.Now().Add(openMost)
			}
		case <-s.rewound:
			lost, limit, until = true, attempt, time.Now().Add(openMost)
			wary = time.Now().Add(2 * s.election.Timing().TTL)
		case <-again.C:
		}
		switch {
		case state.Cause != nil:
			lost = lost || errors.Is(state.Cause, election.ErrLost)
			continue
		case state.Role == election.Leading, time.Now().After(until):
			lost = false // the term that began has read the ledger
			continue
		case !lost && state.Token <= s.memory.Last():
			continue
		}
		soon, cancel := context.WithTimeout(ctx, limit)
		_, err := s.load(soon, true)
		cancel()
		switch {
		case err != nil:
			limit = min(2*limit, openMost/2) // a large ledger takes its time
		case time.Now().Before(wary): // lost
		case state.Token <= s.memory.Last():
			lost = false
			continue
		default:
			lost = false
		}
		again.Reset(s.election.Timing().TTL / 3)
	}
}

// changed tells the lookout of another state.
func (s *Scheduler) changed(election.State) {
	s.roster.Poke()
	s.states.give()
}
