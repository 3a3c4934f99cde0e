package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Jobs = (*Store)(nil)

//go:embed scripts/declare.lua
var declareSource string

//go:embed scripts/load.lua
var loadSource string

//go:embed scripts/changes.lua
var changesSource string

var (
	declareScript = newLedgerScript(declareSource)
	loadScript    = newLedgerScript(loadSource)
	changesScript = newScript(changesSource)
)

// rowsMost is how many rows one script writes: nothing else runs on the server meanwhile.
const rowsMost = 200

func holderArgs(h store.Holder) []any { return []any{h.Group, h.Owner, h.Token} }

// writerArgs are holderArgs with the server that is compared.
func writerArgs(h store.Holder) []any { return append(holderArgs(h), h.Server) }

// Declare implements [store.Ledger]. It is one script, which writes only what has changed.
func (s *Store) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	args := append(holderArgs(h), len(declared))
	for _, d := range declared {
		if err := store.CheckName("job", d.Name); err != nil {
			return err
		}
		args = append(args, d.Name, d.Schedule, plainInstant(d.From))
	}
	return s.asHolder(ctx, "declare jobs", declareScript, args...)
}

// asHolder runs a script that has no answer for a term that was replaced.
func (s *Store) asHolder(ctx context.Context, doing string, of script, args ...any) error {
	answer, err := s.run(ctx, doing, of, args...)
	if err == nil && answer == nil {
		err = store.ErrReplaced
	}
	return err
}

// Load implements [jobs.Control]. It is one script, so that cursors, runs and the number of requests are of one instant. Jobs and
// cursors are one hash each, which 10,000 of them do not make slow.
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return s.load(ctx, group, "1")
}

// LoadOf implements [jobs.Archive].
func (s *Store) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := jobs.CheckNames(names); err != nil {
		return jobs.Snapshot{}, err
	}
	return s.load(ctx, group, append([]any{"0"}, texts(names)...)...)
}

func (s *Store) load(ctx context.Context, group string, which ...any) (jobs.Snapshot, error) {
	f, err := s.fieldsOf(ctx, "read the ledger", loadScript, append([]any{group}, which...)...)
	if err != nil {
		return jobs.Snapshot{}, err
	}
	snapshot := jobs.Snapshot{Now: f.instant(), Server: f.text(), Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{}}
	ledger, all, cursors, failing := f.nested(), f.nested(), f.nested(), f.nested()
	snapshot.Changes, snapshot.Paused = ledger.optionalNumber(), ledger.optional() == "1"
	snapshot.Opened = jobs.Opened{Token: ledger.optionalNumber(), At: ledger.optionalInstant()}
	if pauses := ledgerrows.ParsePauses(ledger.optional(), snapshot.Paused); len(pauses) > 0 {
		snapshot.Pauses[""] = pauses
	}
	for len(all.values) > 0 {
		name := all.text()
		known, pauses := all.job()
		snapshot.Jobs[name] = known
		if len(pauses) > 0 {
			snapshot.Pauses[name] = pauses
		}
	}
	for len(cursors.values) > 0 {
		name, tick := cursors.text(), cursors.text()
		if known, ok := snapshot.Jobs[name]; ok {
			known.Cursor = cursors.entryTick(tick)
			snapshot.Jobs[name] = known
		}
	}
	for len(failing.values) > 0 {
		name := failing.text()
		if known, ok := snapshot.Jobs[name]; ok {
			known.Failing = true
			snapshot.Jobs[name] = known
		}
	}
	snapshot.Open = f.records()
	for _, part := range []*fields{ledger, all, cursors, failing} {
		f.keep(part)
	}
	if f.err != nil {
		return jobs.Snapshot{}, f.err
	}
	slices.SortFunc(snapshot.Open, func(a, b jobs.Record) int {
		return cmp.Or(a.Tick.Compare(b.Tick), ledgerrows.CompareKeys(a.Key, b.Key))
	})
	ledgerrows.CountStarts(snapshot)
	return snapshot, nil
}

// job reads a job as the hash of the jobs has it.
func (f *fields) job() (jobs.Known, []jobs.Pause) {
	text := f.text()
	parts := strings.SplitN(text, " ", 8)
	if len(parts) < 8 {
		f.fail(text, "a job")
		return jobs.Known{}, nil
	}
	known := jobs.Known{
		Since: f.parsedInstant(parts[0]), ScheduleSince: f.parsedInstant(parts[1]), Paused: parts[2] == "1",
		Started: f.parsedInstant(parts[3]), Finished: f.parsedInstant(parts[4]), Gone: f.parsedInstant(parts[5]), Schedule: parts[7],
	}
	return known, ledgerrows.ParsePauses(parts[6], known.Paused)
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (store.Changes, error) {
	f, err := s.fieldsOf(ctx, "look for requests", changesScript, group)
	if err != nil {
		return store.Changes{}, err
	}
	c := store.Changes{Number: f.number(), Now: f.instant(), Server: f.text()}
	return c, f.err
}
