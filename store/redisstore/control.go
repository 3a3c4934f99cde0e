package redisstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var (
	triggerScript = newLedgerScript("trigger")
	argsScript    = newLedgerScript("args")
)

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
	entry := ledgerrows.Entry(ctx, ledgerrows.ActionOf(r), jobs.Key{Job: job}, r.Note)
	args := []any{group, job, tick, trigger, key.Tick.UnixMicro(), []byte(r.Args), r.Backfill, jobs.MaxOpen}
	f, err := s.fieldsOf(ctx, "trigger", triggerScript, append(args, written("", entryColumns(&entry))...)...)
	if err != nil {
		return jobs.Key{}, err
	}
	switch result := f.text(); {
	case f.err != nil:
	case result == string(jobs.Refused):
		return jobs.Key{}, ledgerrows.NoJob(group, job)
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
		return nil, ledgerrows.NoRun(group, key) // no run has it
	}
	f, err := s.fieldsOf(ctx, "read arguments", argsScript, append([]any{group}, keyArgs(key)...)...)
	if err != nil {
		return nil, err
	}
	if f.absent() {
		return nil, ledgerrows.NoRun(group, key)
	}
	f.next()
	if f.absent() {
		return nil, nil
	}
	return json.RawMessage(f.text()), f.err
}
