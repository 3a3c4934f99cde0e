package redisstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var _ store.Spreads = (*Store)(nil)

var (
	loadScript    = newLedgerScript("load")
	changesScript = newScript("changes")
)

// rowsMost is how many rows one script writes: nothing else runs on the server meanwhile.
const rowsMost = 200

func holderArgs(h store.Holder) []any { return []any{h.Group, h.Owner, h.Token} }

// writerArgs are holderArgs with the server that is compared, and whether the holder assigns.
func writerArgs(h store.Holder) []any { return append(holderArgs(h), h.Server, flag(h.Assigns)) }

// Load implements [jobs.Control]. It is one script, so that cursors, runs and the number of requests are of one instant. Jobs and
// cursors are one hash each, which 10,000 of them do not make slow.
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return s.load(ctx, group, "", "1")
}

// Open implements [store.Spreads].
func (s *Store) Open(ctx context.Context, group, owner string) (jobs.Snapshot, error) {
	snapshot, err := s.load(ctx, group, owner, "0")
	snapshot.Jobs, snapshot.Pauses = nil, nil
	return snapshot, err
}

// LoadOf implements [jobs.Archive].
func (s *Store) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	if err := jobs.CheckNames(names); err != nil {
		return jobs.Snapshot{}, err
	}
	return s.load(ctx, group, "", append([]any{"0"}, texts(names)...)...)
}

func (s *Store) load(ctx context.Context, group, owner string, which ...any) (jobs.Snapshot, error) {
	f, err := s.fieldsOf(ctx, "read the ledger", loadScript, append([]any{group, owner}, which...)...)
	if err != nil {
		return jobs.Snapshot{}, err
	}
	tx := ledger.NewTx(f.instant(), f.text())
	f.row(append([]any{&tx.Group.Changes}, groupColumns(&tx.Group)...))
	all, cursors, failing := f.nested(), f.nested(), f.nested()
	for len(all.values) > 0 {
		tx.Jobs[all.text()] = all.job()
	}
	for len(cursors.values) > 0 {
		tx.Newest[cursors.text()] = cursors.entryTick(cursors.text())
	}
	for len(failing.values) > 0 {
		name := failing.text()
		if known, ok := tx.Jobs[name]; ok {
			known.Failing = true
			tx.Jobs[name] = known
		}
	}
	open := f.records()
	for _, part := range []*fields{all, cursors, failing} {
		f.keep(part)
	}
	if f.err != nil {
		return jobs.Snapshot{}, f.err
	}
	slices.SortFunc(open, func(a, b jobs.Record) int {
		return cmp.Or(a.Tick.Compare(b.Tick), ledgerrows.CompareKeys(a.Key, b.Key))
	})
	return tx.Snapshot(open), nil
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
