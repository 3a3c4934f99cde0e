package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

const (
	report  = "report"
	cleanup = "cleanup"

	all = 5000 // more runs than a case makes
)

// tick is the nth planned instant of the cases, in the past.
func tick(n int) time.Time {
	return time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC).Add(time.Duration(n) * time.Minute)
}

func key(job string, n int) jobs.Key { return jobs.Key{Job: job, Tick: tick(n)} }

func newID() (id store.ClaimID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// Ledger tests a store against the contract of [store.Ledger] and, if it has these, [store.Archive] and
// [store.Replicas]. It calls open once for each case, and cases run in parallel.
func Ledger(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	Rows(t, open)
	ruleSuite.run(t, open)
}

// Rows is Ledger for a store that only keeps the rows of a ledger, and has the one that all such stores share decide
// (store/ledger): without the cases that are about its rules alone. That the store reads and writes every part of a
// row, random histories show.
func Rows(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	rowSuite.run(t, open)
}

type ledgerCase = testCase[*ledgerEnv]

var (
	rowSuite = suite[*ledgerEnv]{
		cases: slices.Concat(loadCases, sizeCases, argsCases, changesCases, requestCases, replicaCases, runsCases, valueCases, fenceCases, ledgerConcurrencyCases,
			historyCases, auditCases, termCases, loadOfCases, newestCases, countCases, spreadCases),
		on: newLedgerEnv,
	}
	ruleSuite = suite[*ledgerEnv]{
		cases: slices.Concat(declareCases, passOverCases, claimCases, extendCases, moveCases, verdictCases, pauseCases, triggerCases, followCases, claimThenCases,
			cancelCases, ledgerPruneCases, attemptCases, archivePruneCases),
		on: newLedgerEnv,
	}
)

func newLedgerEnv(e *env) *ledgerEnv {
	e.Helper()
	l := &ledgerEnv{env: e}
	l.watch = l.open()
	return l
}

// ledgerEnv is one case on one database.
type ledgerEnv struct {
	*env
	watch store.Jobs // belongs to no replica: shows rows as they are
}

func (e *ledgerEnv) open() store.Jobs {
	e.Helper()
	return open[store.Jobs](e.env)
}

// is says that err is the answer want.
func (e *ledgerEnv) is(err, want error, what string) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// now is the database's clock.
func (e *ledgerEnv) now() time.Time {
	e.Helper()
	rs, err := e.watch.Read(e.ctx(), group)
	e.ok(err, "Read")
	return rs[0].Now
}

// between says that at is an instant of the database's clock from before to now.
func (e *ledgerEnv) between(at, before time.Time, what string) {
	e.Helper()
	e.betweenPlus(at, before, 0, what)
}

// betweenPlus says that at is later than such an instant by delay.
func (e *ledgerEnv) betweenPlus(at, before time.Time, delay time.Duration, what string) {
	e.Helper()
	if now := e.now(); at.Before(before.Add(delay)) || at.After(now.Add(delay)) {
		e.Errorf("%s: %v, want an instant from %v to %v", what, at, before.Add(delay), now.Add(delay))
	}
	if at.Nanosecond()%1000 != 0 || at.Location() != time.UTC {
		e.Errorf("%s: %v, want it in UTC and of whole microseconds", what, at)
	}
}

// takeOver begins a term of owner in group, whichever owner holds it now.
func takeOver(ctx context.Context, s store.Jobs, group, owner string) (store.Holder, error) {
	if err := s.Prepare(ctx, group, ttl); err != nil {
		return store.Holder{}, fmt.Errorf("prepare: %w", err)
	}
	err := store.ErrChanged
	for attempt := 0; errors.Is(err, store.ErrChanged) && attempt < 5; attempt++ {
		var rs []store.Reading
		if rs, err = s.Read(ctx, group); err != nil {
			return store.Holder{}, fmt.Errorf("read: %w", err)
		}
		var token uint64
		if token, err = s.Acquire(ctx, store.Acquire{Read: rs[0], Owner: owner, Heartbeat: 1, TTL: ttl}); err == nil {
			return store.Holder{Group: group, Owner: owner, Token: token}, nil
		}
	}
	return store.Holder{}, fmt.Errorf("acquire: %w", err)
}

// take begins a term.
func (e *ledgerEnv) take(s store.Jobs, group, owner string) store.Holder {
	e.Helper()
	h, err := takeOver(e.ctx(), s, group, owner)
	e.ok(err, "a term of "+owner+" in "+group)
	return h
}

// begin begins a term of alice that has declared two jobs.
func (e *ledgerEnv) begin(s store.Jobs) store.Holder {
	e.Helper()
	h := e.take(s, group, alice)
	e.declareJobs(s, h, report, cleanup)
	return h
}

func (e *ledgerEnv) declareJobs(s store.Jobs, h store.Holder, names ...string) {
	e.Helper()
	var declared []store.Declared
	for _, name := range names {
		declared = append(declared, store.Declared{Name: name, Schedule: "every 1m"})
	}
	e.ok(s.Declare(e.ctx(), h, declared), "Declare")
}

func (e *ledgerEnv) load(group string) jobs.Snapshot {
	e.Helper()
	snapshot, err := e.watch.Load(e.ctx(), group)
	e.ok(err, "Load")
	return snapshot
}

// known is what the ledger knows of a job of the group, which must be there.
func (e *ledgerEnv) known(group, job string) jobs.Known {
	e.Helper()
	k, ok := e.load(group).Jobs[job]
	if !ok {
		e.Fatalf("Load of %q: no job %q", group, job)
	}
	return k
}

func (e *ledgerEnv) changes(group string) uint64 {
	e.Helper()
	before := e.now()
	changes, err := e.watch.Changes(e.ctx(), group)
	e.ok(err, "Changes")
	e.between(changes.Now, before, "the database's clock, by Changes")
	return changes.Number
}

func (e *ledgerEnv) runs(group string, f jobs.Filter) []jobs.Record {
	e.Helper()
	rs, err := e.watch.Runs(e.ctx(), group, f)
	e.ok(err, "Runs")
	return rs
}

// count is how many runs the group has.
func (e *ledgerEnv) count(group string) int {
	e.Helper()
	return len(e.runs(group, jobs.Filter{Limit: all}))
}

// find reads a run, and nil when there is none.
func (e *ledgerEnv) find(group string, k jobs.Key) *jobs.Record {
	e.Helper()
	rs := e.runs(group, jobs.Filter{Job: k.Job, Since: k.Tick, Limit: all})
	if i := slices.IndexFunc(rs, func(r jobs.Record) bool { return r.Key == k }); i >= 0 {
		return &rs[i]
	}
	return nil
}

// record reads a run that must be there. It looks again if a list lacks it:
// that was seen once, on MariaDB 10.11, when ten claims had just found the run,
// and never again in more than a million reads. Servers have had faults in
// which a scan in descending order passes over a row while pages change
// (PS-9092, PS-9297, MDEV-35525). Claims look by the primary key.
func (e *ledgerEnv) record(group string, k jobs.Key) jobs.Record {
	e.Helper()
	for range 3 {
		if r := e.find(group, k); r != nil {
			return *r
		}
		e.Logf("the list of runs lacks %v in group %q", k, group)
	}
	for _, r := range e.runs(group, jobs.Filter{Limit: all}) {
		e.Logf("there is %s", showRecord(r))
	}
	e.Fatalf("no run %v in group %q", k, group)
	return jobs.Record{}
}

func (e *ledgerEnv) absent(group string, k jobs.Key, what string) {
	e.Helper()
	if r := e.find(group, k); r != nil {
		e.Errorf("%s: there is a run %s", what, showRecord(*r))
	}
}

// same compares whole records.
func (e *ledgerEnv) same(got, want jobs.Record, what string) {
	e.Helper()
	if got != want {
		e.Errorf("%s: run\n\t%s, want\n\t%s", what, showRecord(got), showRecord(want))
	}
}

// unchanged says that a run is still as it was.
func (e *ledgerEnv) unchanged(was jobs.Record, what string) {
	e.Helper()
	e.same(e.record(group, was.Key), was, what)
}

// claim claims, and has an answer for each.
func (e *ledgerEnv) claim(s store.Jobs, h store.Holder, id store.ClaimID, claims ...store.Claim) []store.Claimed {
	e.Helper()
	claimed, err := s.Claim(e.ctx(), h, id, claims)
	e.ok(err, "Claim")
	if len(claimed) != len(claims) {
		e.Fatalf("Claim of %d answered %d", len(claims), len(claimed))
	}
	for i, c := range claimed {
		if c.Key != claims[i].Key {
			e.Fatalf("Claim answered %v for %v", c.Key, claims[i].Key)
		}
	}
	return claimed
}

// mine claims in a call of its own, and gets it.
func (e *ledgerEnv) mine(s store.Jobs, h store.Holder, c store.Claim) jobs.Record {
	e.Helper()
	got := e.claim(s, h, newID(), c)[0]
	if !got.Mine {
		e.Fatalf("Claim of %v is not mine: %s", c.Key, showRecord(got.Record))
	}
	return got.Record
}

// running, waiting and skipped claim a tick as that.
func (e *ledgerEnv) running(s store.Jobs, h store.Holder, k jobs.Key) jobs.Record {
	e.Helper()
	return e.mine(s, h, store.Claim{Key: k, State: jobs.Running})
}

func (e *ledgerEnv) waiting(s store.Jobs, h store.Holder, k jobs.Key) jobs.Record {
	e.Helper()
	return e.mine(s, h, store.Claim{Key: k, State: jobs.Waiting})
}

func (e *ledgerEnv) skipped(s store.Jobs, h store.Holder, k jobs.Key) jobs.Record {
	e.Helper()
	return e.mine(s, h, store.Claim{Key: k, State: jobs.Skipped, Error: "paused"})
}

// to is a move of the run as it is.
func to(state jobs.State, r jobs.Record) store.Move {
	return store.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: state}
}

func (e *ledgerEnv) move(s store.Jobs, h store.Holder, moves ...store.Move) []bool {
	e.Helper()
	moved, err := s.Move(e.ctx(), h, moves)
	e.ok(err, "Move")
	if len(moved) != len(moves) {
		e.Fatalf("Move of %d answered %d", len(moves), len(moved))
	}
	return moved
}

// moved moves a run, and returns it as it is then.
func (e *ledgerEnv) moved(s store.Jobs, h store.Holder, m store.Move) jobs.Record {
	e.Helper()
	if !e.move(s, h, m)[0] {
		e.Fatalf("Move of %s to %v did nothing", showRecord(e.record(h.Group, m.Key)), m.To)
	}
	return e.record(h.Group, m.Key)
}

// refused makes a move that must not do anything.
func (e *ledgerEnv) refused(s store.Jobs, h store.Holder, m store.Move, what string) {
	e.Helper()
	was := e.find(h.Group, m.Key)
	if e.move(s, h, m)[0] {
		e.Errorf("%s: Move says that the run is as it wants it", what)
	}
	if was == nil {
		e.absent(h.Group, m.Key, what)
	} else {
		e.same(e.record(h.Group, m.Key), *was, what)
	}
}

func (e *ledgerEnv) trigger(s store.Jobs, job string) jobs.Key {
	e.Helper()
	k, err := s.Trigger(e.ctx(), group, job, jobs.Request{})
	e.ok(err, "Trigger")
	if k.Job != job || k.Trigger == 0 {
		e.Fatalf("Trigger of %q answered %v, want a key of that job with a trigger", job, k)
	}
	return k
}

// show prints a run.
func showRecord(r jobs.Record) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Format("2006-01-02T15:04:05.999999999Z07:00 MST")
	}
	return fmt.Sprintf("%s %s/%d %v owner %q token %d attempt %d missed %d error %.60q cancel %t args %t backfill %.60q details %+v claimed %s started %s finished %s due %s",
		r.Job, at(r.Tick), r.Trigger, r.State, r.Owner, r.Token, r.Attempt, r.Missed, r.Error, r.CancelAsked, r.HasArgs, r.Backfill, r.Details,
		at(r.Claimed), at(r.Started), at(r.Finished), at(r.Due))
}

// sameMoment gives a snapshot what another one differs in by itself: the present, and the
// server that has answered if there are several.
func (e *ledgerEnv) sameMoment(snapshot *jobs.Snapshot, as jobs.Snapshot) {
	snapshot.Now = as.Now
	if e.h.ManyServers {
		snapshot.Server = as.Server
	}
}
