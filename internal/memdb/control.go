package memdb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Pause implements [jobs.Control].
func (s *Store) Pause(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, true, false)
}

// Resume implements [jobs.Control].
func (s *Store) Resume(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, false, false)
}

// ResumeSkipping implements [jobs.Control].
func (s *Store) ResumeSkipping(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, false, true)
}

func (s *Store) setPaused(ctx context.Context, group, job string, paused, skipping bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(group)
	action := jobs.ActionPause
	switch {
	case skipping:
		action = jobs.ActionSkipping
	case !paused:
		action = jobs.ActionResume
	}
	flag := &l.paused
	if job != "" {
		known, ok := l.jobs[job]
		if !ok {
			s.note(ctx, group, jobs.Refused, action, jobs.Key{Job: job}, "")
			return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
		}
		flag = &known.Paused
	}
	if *flag == paused {
		s.note(ctx, group, jobs.Unchanged, action, jobs.Key{Job: job}, "")
		return nil
	}
	s.note(ctx, group, jobs.Done, action, jobs.Key{Job: job}, "")
	*flag = paused
	l.changes++
	s.ask(group)
	pauses := l.pauses[job]
	if paused {
		pauses = append(pauses, jobs.Pause{Began: s.now()})
	} else {
		last := &pauses[len(pauses)-1]
		last.Ended = s.now()
		if skipping {
			last.Began = time.Time{}
		}
	}
	l.pauses[job] = pauses[max(0, len(pauses)-store.MaxPauses):]
	return nil
}

// Trigger implements [jobs.Control].
func (s *Store) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	if err := ctx.Err(); err != nil {
		return jobs.Key{}, err
	}
	if err := ledgerrows.CheckRequest("memstore", job, r); err != nil {
		return jobs.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.ledger(group), s.now()
	action := ledgerrows.ActionOf(r)
	if _, ok := l.jobs[job]; !ok {
		s.note(ctx, group, jobs.Refused, action, jobs.Key{Job: job}, r.Note)
		return jobs.Key{}, fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
	}
	key := jobs.Key{Job: job, Tick: r.Tick.UTC(), Trigger: r.Trigger}
	if r.Tick.IsZero() {
		key.Tick = now
	}
	if key.Trigger == 0 {
		key.Trigger = 1
		for l.get(key) != nil {
			key.Trigger++
		}
	}
	if l.get(key) != nil {
		s.note(ctx, group, jobs.Unchanged, action, key, r.Note)
		return key, nil
	}
	if l.open(job) >= jobs.MaxOpen {
		s.note(ctx, group, jobs.Refused, action, jobs.Key{Job: job}, r.Note)
		return jobs.Key{}, ledgerrows.ManyOpen(group, job)
	}
	s.note(ctx, group, jobs.Done, action, key, r.Note)
	l.insert(&run{args: slices.Clone(r.Args), Record: jobs.Record{
		Key: key, State: jobs.Waiting, Claimed: now, Due: now, HasArgs: r.Args != nil, Backfill: r.Backfill,
	}})
	l.changes++
	s.ask(group)
	return key, nil
}

// Args implements [jobs.Control].
func (s *Store) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.ledger(group).get(key)
	if r == nil {
		return nil, noRun(group, key)
	}
	return slices.Clone(r.args), nil
}

// Cancel implements [jobs.Control].
func (s *Store) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(group)
	r := l.get(key)
	if r == nil || r.State.Over() {
		s.note(ctx, group, jobs.Refused, jobs.ActionCancel, key, "")
		return noRun(group, key)
	}
	if r.CancelAsked {
		s.note(ctx, group, jobs.Unchanged, jobs.ActionCancel, key, "")
		return nil
	}
	s.note(ctx, group, jobs.Done, jobs.ActionCancel, key, "")
	r.CancelAsked = true
	l.changes++
	s.ask(group)
	return nil
}
