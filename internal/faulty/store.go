package faulty

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// value is send for a statement that has a result.
func value[T any](ctx context.Context, send Send, op string, run func(context.Context) (T, error)) (T, error) {
	var result, none T
	err := send(ctx, op, func(ctx context.Context) (err error) {
		result, err = run(ctx)
		return err
	})
	if err != nil {
		return none, err // a late statement may be writing its result
	}
	return result, nil
}

// Leases sends the statements of a store's leases, but for AskResign, which goes to the store itself. Operations have
// the names of the methods.
type Leases struct {
	To   store.Leases
	Send Send
}

var _ store.Leases = Leases{}

// Read implements [store.Leases].
func (s Leases) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	return value(ctx, s.Send, "Read", func(ctx context.Context) ([]store.Reading, error) { return s.To.Read(ctx, groups...) })
}

// Prepare implements [store.Leases].
func (s Leases) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	return s.Send(ctx, "Prepare", func(ctx context.Context) error { return s.To.Prepare(ctx, group, ttl) })
}

// Acquire implements [store.Leases].
func (s Leases) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return value(ctx, s.Send, "Acquire", func(ctx context.Context) (uint64, error) { return s.To.Acquire(ctx, a) })
}

// Renew implements [store.Leases].
func (s Leases) Renew(ctx context.Context, r store.Renew) (int, error) {
	return value(ctx, s.Send, "Renew", func(ctx context.Context) (int, error) { return s.To.Renew(ctx, r) })
}

// Release implements [store.Leases].
func (s Leases) Release(ctx context.Context, group, owner string, token uint64) error {
	return s.Send(ctx, "Release", func(ctx context.Context) error { return s.To.Release(ctx, group, owner, token) })
}

// AskResign implements [store.Leases].
func (s Leases) AskResign(ctx context.Context, group string, token uint64) error {
	return s.To.AskResign(ctx, group, token)
}

// Signals sends what the signals of a store do to leases, as the operations Release and Take. Nothing happens to the
// signals themselves.
type Signals struct {
	To   store.HandoverSignals
	Send Send
}

var _ store.HandoverSignals = Signals{}

// HandoverSignal implements [store.HandoverSignals].
func (s Signals) HandoverSignal(group string) store.HandoverSignal {
	signal := s.To.HandoverSignal(group)
	if h, ok := signal.(handovers); ok {
		return handover{h, s.Send}
	}
	return signal
}

type handovers interface {
	store.DirectHandover
	store.PresenceSignal
}

type handover struct {
	handovers
	send Send
}

// Release implements [store.DirectHandover].
func (s handover) Release(ctx context.Context, owner string, token uint64) error {
	return s.send(ctx, "Release", func(ctx context.Context) error { return s.handovers.Release(ctx, owner, token) })
}

// Take implements [store.DirectHandover].
func (s handover) Take(ctx context.Context, a store.Acquire) (uint64, error) {
	return value(ctx, s.send, "Take", func(ctx context.Context) (uint64, error) { return s.handovers.Take(ctx, a) })
}

// Store is a store of leases at the other end of a line.
type Store struct {
	Line
	Leases
}

// New returns a store whose statements go to another one.
func New(to store.Leases) *Store {
	s := &Store{}
	s.Leases = Leases{To: to, Send: s.Line.Send}
	return s
}

// Ledger sends the statements of a leader.
type Ledger struct {
	To   store.Ledger
	Send Send
}

// Declare implements [store.Ledger].
func (s Ledger) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	return s.Send(ctx, "Declare", func(ctx context.Context) error { return s.To.Declare(ctx, h, declared) })
}

// Load implements [store.Ledger].
func (s Ledger) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return value(ctx, s.Send, "Load", func(ctx context.Context) (jobs.Snapshot, error) { return s.To.Load(ctx, group) })
}

// Changes implements [store.Ledger].
func (s Ledger) Changes(ctx context.Context, group string) (store.Changes, error) {
	return value(ctx, s.Send, "Changes", func(ctx context.Context) (store.Changes, error) { return s.To.Changes(ctx, group) })
}

// Claim implements [store.Ledger].
func (s Ledger) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	return value(ctx, s.Send, "Claim", func(ctx context.Context) ([]store.Claimed, error) { return s.To.Claim(ctx, h, id, claims) })
}

// Move implements [store.Ledger].
func (s Ledger) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	return value(ctx, s.Send, "Move", func(ctx context.Context) ([]bool, error) { return s.To.Move(ctx, h, moves) })
}

// PassOver implements [store.Ledger].
func (s Ledger) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	return value(ctx, s.Send, "PassOver", func(ctx context.Context) (int, error) { return s.To.PassOver(ctx, h, job, after) })
}

// Prune implements [store.Ledger].
func (s Ledger) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	return value(ctx, s.Send, "Prune", func(ctx context.Context) (int, error) { return s.To.Prune(ctx, group, job, history, batch) })
}

// Args implements [jobs.Control].
func (s Ledger) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	return value(ctx, s.Send, "Args", func(ctx context.Context) (json.RawMessage, error) { return s.To.Args(ctx, group, key) })
}

// Runs implements [jobs.Control].
func (s Ledger) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	return value(ctx, s.Send, "Runs", func(ctx context.Context) ([]jobs.Record, error) { return s.To.Runs(ctx, group, filter) })
}

// Beat implements [store.Heartbeats], where To does. It is a Renew to the line.
func (s Ledger) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	return value(ctx, s.Send, "Renew", func(ctx context.Context) (store.Beat, error) {
		return s.To.(store.Heartbeats).Beat(ctx, owner, heartbeat, r, known)
	})
}

// RequestSignal implements [store.RequestSignals], where To does.
func (s Ledger) RequestSignal(group string, token uint64) store.RequestSignal {
	return requestSignal{s.To.(store.RequestSignals).RequestSignal(group, token), s.Send}
}

// Open implements [store.Spreads], where To does.
func (s Ledger) Open(ctx context.Context, group, owner string) (jobs.Snapshot, error) {
	return value(ctx, s.Send, "Open", func(ctx context.Context) (jobs.Snapshot, error) { return s.To.(store.Spreads).Open(ctx, group, owner) })
}

// Wake implements [store.Spreads].
func (s Ledger) Wake(ctx context.Context, group string) error {
	return s.Send(ctx, "Wake", func(ctx context.Context) error { return s.To.(store.Spreads).Wake(ctx, group) })
}

// Enlist implements [store.Replicas], where To does; so do the methods that follow.
func (s Ledger) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	return s.Send(ctx, "Enlist", func(ctx context.Context) error { return s.To.(store.Replicas).Enlist(ctx, group, r) })
}

// Refresh implements [store.Replicas].
func (s Ledger) Refresh(ctx context.Context, group, owner string) error {
	return s.Send(ctx, "Refresh", func(ctx context.Context) error { return s.To.(store.Replicas).Refresh(ctx, group, owner) })
}

// Strike implements [store.Replicas].
func (s Ledger) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	return s.Send(ctx, "Strike", func(ctx context.Context) error { return s.To.(store.Replicas).Strike(ctx, group, owner, idle) })
}

// Roster implements [jobs.Registry].
func (s Ledger) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	return value(ctx, s.Send, "Roster", func(ctx context.Context) (jobs.Roster, error) {
		return s.To.(store.Replicas).Roster(ctx, group, known)
	})
}

// Gone implements [store.Replicas].
func (s Ledger) Gone(ctx context.Context, h store.Holder, names []string) error {
	return s.Send(ctx, "Gone", func(ctx context.Context) error { return s.To.(store.Replicas).Gone(ctx, h, names) })
}

// GoneSince implements [jobs.Registry].
func (s Ledger) GoneSince(ctx context.Context, group, job string) (time.Time, error) {
	return value(ctx, s.Send, "GoneSince", func(ctx context.Context) (time.Time, error) {
		return s.To.(store.Replicas).GoneSince(ctx, group, job)
	})
}

// Forget implements [jobs.Registry].
func (s Ledger) Forget(ctx context.Context, group, job string, gone time.Time) (bool, error) {
	return value(ctx, s.Send, "Forget", func(ctx context.Context) (bool, error) {
		return s.To.(store.Replicas).Forget(ctx, group, job, gone)
	})
}

// NoteTerm implements [store.Archive], where To does; so do the methods that follow.
func (s Ledger) NoteTerm(ctx context.Context, note store.TermNote) error {
	return s.Send(ctx, "NoteTerm", func(ctx context.Context) error { return s.To.(store.Archive).NoteTerm(ctx, note) })
}

// PruneArchive implements [store.Archive].
func (s Ledger) PruneArchive(ctx context.Context, group string, batch int) (int, error) {
	return value(ctx, s.Send, "PruneArchive", func(ctx context.Context) (int, error) {
		return s.To.(store.Archive).PruneArchive(ctx, group, batch)
	})
}

// Audit implements [jobs.Archive].
func (s Ledger) Audit(ctx context.Context, group string, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	return value(ctx, s.Send, "Audit", func(ctx context.Context) ([]jobs.AuditEntry, error) {
		return s.To.(store.Archive).Audit(ctx, group, filter)
	})
}

// Terms implements [jobs.Archive].
func (s Ledger) Terms(ctx context.Context, group string, filter jobs.TermFilter) ([]jobs.Term, error) {
	return value(ctx, s.Send, "Terms", func(ctx context.Context) ([]jobs.Term, error) {
		return s.To.(store.Archive).Terms(ctx, group, filter)
	})
}

// Attempts implements [jobs.Archive].
func (s Ledger) Attempts(ctx context.Context, group string, key jobs.Key) ([]jobs.Attempt, error) {
	return value(ctx, s.Send, "Attempts", func(ctx context.Context) ([]jobs.Attempt, error) {
		return s.To.(store.Archive).Attempts(ctx, group, key)
	})
}

// Newest implements [jobs.Archive].
func (s Ledger) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	return value(ctx, s.Send, "Newest", func(ctx context.Context) (map[string][]jobs.Record, error) {
		return s.To.(store.Archive).Newest(ctx, group, of)
	})
}

// Counts implements [jobs.Archive].
func (s Ledger) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	return value(ctx, s.Send, "Counts", func(ctx context.Context) (jobs.Counts, error) {
		return s.To.(store.Archive).Counts(ctx, group, filter)
	})
}

// requestSignal is listened to, and comes, over a line.
type requestSignal struct {
	store.RequestSignal
	send Send
}

// Wait implements [store.RequestSignal].
func (s requestSignal) Wait(ctx context.Context, known *uint64) error {
	sent := func(context.Context) error { return nil }
	if err := s.send(ctx, "Listen", sent); err != nil {
		return err
	}
	if err := s.RequestSignal.Wait(ctx, known); err != nil {
		return err
	}
	return s.send(ctx, "Signal", sent)
}

// Locks sends the statements of locks.
type Locks struct {
	To   store.Locks
	Send Send
}

// ReadLocks implements [store.Locks].
func (s Locks) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	return value(ctx, s.Send, "ReadLocks", func(ctx context.Context) (store.LockReading, error) { return s.To.ReadLocks(ctx, names...) })
}

// WriteLocks implements [store.Locks].
func (s Locks) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	return value(ctx, s.Send, "WriteLocks", func(ctx context.Context) ([]bool, error) { return s.To.WriteLocks(ctx, server, writes) })
}

// HeldLocks implements [store.Locks].
func (s Locks) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	return value(ctx, s.Send, "HeldLocks", func(ctx context.Context) ([]string, error) { return s.To.HeldLocks(ctx, idle, after, limit) })
}

// PruneLocks implements [store.Locks].
func (s Locks) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	return value(ctx, s.Send, "PruneLocks", func(ctx context.Context) (int, error) { return s.To.PruneLocks(ctx, idle, limit) })
}

// PruneSessions implements [store.Locks].
func (s Locks) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	return value(ctx, s.Send, "PruneSessions", func(ctx context.Context) (int, error) {
		return s.To.PruneSessions(ctx, prefix, released, expired, limit)
	})
}

// Notifier sends what a notifier does, but for its end.
type Notifier struct {
	To   store.Notifier
	Send Send
}

var _ store.Notifier = Notifier{}

// Wait implements [store.Notifier].
func (n Notifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	// It ends with its caller's context: nothing waits for an answer that is late.
	return n.Send(ctx, "Wait", func(context.Context) error { return n.To.Wait(ctx, rows, limit) })
}

// Address implements [store.Notifier].
func (n Notifier) Address(ctx context.Context) (string, error) {
	return value(ctx, n.Send, "Address", func(ctx context.Context) (string, error) { return n.To.Address(ctx) })
}

// Notify implements [store.Notifier].
func (n Notifier) Notify(ctx context.Context, addresses ...string) error {
	return n.Send(ctx, "Notify", func(ctx context.Context) error { return n.To.Notify(ctx, addresses...) })
}

// Close implements [store.Notifier].
func (n Notifier) Close() error { return n.To.Close() }
