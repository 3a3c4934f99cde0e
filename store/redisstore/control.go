package redisstore

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

//go:embed scripts/pause.lua
var pauseSource string

//go:embed scripts/trigger.lua
var triggerSource string

//go:embed scripts/cancel.lua
var cancelSource string

//go:embed scripts/args.lua
var argsSource string

var (
	pauseScript   = newLedgerScript(pauseSource)
	triggerScript = newLedgerScript(triggerSource)
	cancelScript  = newLedgerScript(cancelSource)
	argsScript    = newLedgerScript(argsSource)
)

func noJob(group, job string) error {
	return fmt.Errorf("%w: %.80q in group %.80q", jobs.ErrNoJob, job, group)
}

func noRun(group string, key jobs.Key) error {
	return fmt.Errorf("%w: %s of %.80q in group %.80q", jobs.ErrNoRun, key.Tick.Format(time.RFC3339Nano), key.Job, group)
}

// actorArgs is who asks for what, for the audit.
func actorArgs(e jobs.AuditEntry) []any {
	return []any{e.Name, string(e.Via), string(e.Action), e.Note}
}

// Pause implements [jobs.Control].
func (s *Store) Pause(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, jobs.ActionPause)
}

// Resume implements [jobs.Control].
func (s *Store) Resume(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, jobs.ActionResume)
}

// ResumeSkipping implements [jobs.Control].
func (s *Store) ResumeSkipping(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, jobs.ActionSkipping)
}

func (s *Store) setPaused(ctx context.Context, group, job string, action jobs.Action) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	// A name that no job has is found to be none, and the audit has the beginning of it.
	entry := ledgerrows.Entry(ctx, action, jobs.Key{Job: job}, "")
	args := append([]any{group, job, entry.Job, flag(action == jobs.ActionPause), flag(action == jobs.ActionSkipping)}, actorArgs(entry)...)
	result, err := s.result(ctx, string(action), pauseScript, args...)
	if err == nil && result == jobs.Refused {
		err = noJob(group, job)
	}
	return err
}

// result runs a script that answers with what became of an action.
func (s *Store) result(ctx context.Context, doing string, of script, args ...any) (jobs.Result, error) {
	answer, err := s.run(ctx, doing, of, args...)
	if err != nil {
		return "", err
	}
	f := &fields{doing: doing, values: []any{answer}}
	return jobs.Result(f.text()), f.err
}

// Trigger implements [jobs.Control].
func (s *Store) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	if err := store.CheckName("group", group); err != nil {
		return jobs.Key{}, err
	}
	if err := ledgerrows.CheckRequest("redisstore", job, r); err != nil {
		return jobs.Key{}, err
	}
	key, tick, trigger := jobs.Key{Job: job, Trigger: r.Trigger}, "", ""
	if !r.Tick.IsZero() {
		key.Tick = r.Tick.UTC()
		if key.Tick.Before(firstTick) || !key.Tick.Before(endOfTime) {
			return jobs.Key{}, fmt.Errorf("redisstore: job %.80q: tick %v: must be of the years 1 to 9999", job, r.Tick)
		}
		tick = tickText(key.Tick)
	}
	if r.Trigger != 0 {
		trigger = triggerText(r.Trigger)
	}
	entry := ledgerrows.Entry(ctx, ledgerrows.ActionOf(r), key, r.Note)
	args := []any{group, job, entry.Job, tick, trigger, plainInstant(key.Tick), flag(r.Args != nil), []byte(r.Args), r.Backfill, jobs.MaxOpen}
	f, err := s.fieldsOf(ctx, "trigger", triggerScript, append(args, actorArgs(entry)...)...)
	if err != nil {
		return jobs.Key{}, err
	}
	switch result := f.text(); {
	case f.err != nil:
	case result == string(jobs.Refused):
		return jobs.Key{}, noJob(group, job)
	case result == "full":
		return jobs.Key{}, ledgerrows.ManyOpen(group, job)
	}
	key.Tick = f.entryTick(f.text())
	key.Trigger = f.number()
	return key, f.err
}

// Args implements [jobs.Control].
func (s *Store) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if checkKey(key) != nil {
		return nil, noRun(group, key) // no run has it
	}
	f, err := s.fieldsOf(ctx, "read arguments", argsScript, append([]any{group}, keyArgs(key)...)...)
	if err != nil {
		return nil, err
	}
	if f.absent() {
		return nil, noRun(group, key)
	}
	f.next()
	if f.absent() {
		return nil, nil
	}
	return json.RawMessage(f.text()), f.err
}

// Cancel implements [jobs.Control].
func (s *Store) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	which := []any{"", "", ""} // no run has it
	if checkKey(key) == nil {
		which = keyArgs(key)
	}
	entry := ledgerrows.Entry(ctx, jobs.ActionCancel, key, "")
	args := append(append([]any{group}, which...), entry.Job, plainInstant(entry.Tick), entry.Trigger)
	result, err := s.result(ctx, "cancel", cancelScript, append(args, actorArgs(entry)...)...)
	if err == nil && result == jobs.Refused {
		err = noRun(group, key)
	}
	return err
}
