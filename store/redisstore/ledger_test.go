package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
)

// bench is a group with a term, of a store of its own.
type bench struct {
	testing.TB
	*redisstore.Store
	client *redis.Client
	name   string
	h      store.Holder
}

func newBench(t testing.TB, addr string) *bench {
	t.Helper()
	name := fmt.Sprintf("{test%d}", names.Add(1))
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	b := &bench{TB: t, Store: open(t, addr, name), client: client, name: name}
	b.take("alice")
	b.ok(b.Declare(t.Context(), b.h, []store.Declared{{Name: "report", Schedule: "every 1m"}, {Name: "cleanup", Schedule: "every 1h"}}))
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// take begins a term.
func (b *bench) take(owner string) {
	b.Helper()
	ctx := b.Context()
	b.ok(b.Prepare(ctx, "group", time.Minute))
	rs, err := b.Read(ctx, "group")
	b.ok(err)
	token, err := b.Acquire(ctx, store.Acquire{Read: rs[0], Owner: owner, Heartbeat: 1, TTL: time.Minute})
	b.ok(err)
	b.h = store.Holder{Group: "group", Owner: owner, Token: token}
}

func at(n int) jobs.Key {
	return jobs.Key{Job: "report", Tick: time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC)}
}

// run claims a tick to run.
func (b *bench) run(k jobs.Key) jobs.Record {
	b.Helper()
	claimed, err := b.Claim(b.Context(), b.h, store.ClaimID{1}, []store.Claim{{Key: k, State: jobs.Running}})
	b.ok(err)
	if !claimed[0].Mine {
		b.Fatalf("the claim of %v is not mine: %+v", k, claimed[0])
	}
	return claimed[0].Record
}

func moveOf(r jobs.Record, to jobs.State) store.Move {
	return store.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: to}
}

// move moves runs, all of which have to be as expected.
func (b *bench) move(moves ...store.Move) {
	b.Helper()
	moved, err := b.Move(b.Context(), b.h, moves)
	b.ok(err)
	if slices.Contains(moved, false) {
		b.Fatalf("Move: %v", moved)
	}
}

// dump is what the keys of the store hold.
func (b *bench) dump() map[string]string {
	b.Helper()
	ctx := b.Context()
	all := map[string]string{}
	keys, err := b.client.Keys(ctx, b.name+"*").Result()
	b.ok(err)
	for _, key := range keys {
		all[key], err = b.client.Dump(ctx, key).Result()
		b.ok(err)
	}
	return all
}

// same compares two dumps.
func (b *bench) same(was, is map[string]string, what string) {
	b.Helper()
	for key := range maps.Keys(was) {
		if is[key] != was[key] {
			b.Errorf("%s: key %q was changed", what, key)
		}
	}
	for key := range is {
		if _, ok := was[key]; !ok {
			b.Errorf("%s: key %q was written", what, key)
		}
	}
}

func TestLargestNumbers(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	b.h.Token = math.MaxInt64
	b.ok(b.client.HSet(ctx, b.name+":fence:group", "token", uint64(math.MaxInt64)).Err())
	k := jobs.Key{Job: "report", Tick: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), Trigger: math.MaxUint64}
	then := store.Follower{Key: jobs.Key{Job: "cleanup", Tick: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), Trigger: 1}, Delay: math.MaxInt64}
	id := store.ClaimID{0, 255, '\n'}
	claims := []store.Claim{{Key: k, State: jobs.Running, Missed: math.MaxInt64, Then: []store.Follower{then}}}
	claimed, err := b.Claim(ctx, b.h, id, claims)
	b.ok(err)
	r := claimed[0]
	if !r.Mine || r.Key != k || r.Token != math.MaxInt64 || r.Missed != math.MaxInt64 {
		t.Errorf("claimed %+v", r)
	}
	again, err := b.Claim(ctx, b.h, id, claims)
	b.ok(err)
	if again[0] != r {
		t.Errorf("claimed again: %+v, want %+v", again[0], r)
	}
	b.ok(b.client.HSet(ctx, b.name+":run:group report "+keyTexts(k), "attempt", math.MaxInt32).Err())
	m := moveOf(r.Record, jobs.Waiting)
	m.Attempt, m.Delay, m.Output = math.MaxInt32, math.MaxInt64, []byte{0, 255}
	b.move(m)
	attempts, err := b.Attempts(ctx, "group", k)
	b.ok(err)
	if len(attempts) != 1 || attempts[0].Number != math.MaxInt32 || attempts[0].Token != math.MaxInt64 {
		t.Errorf("attempts %+v", attempts)
	}
	runs, err := b.Runs(ctx, "group", jobs.Filter{})
	b.ok(err)
	if len(runs) != 2 || runs[0].Key != k || runs[1].Key != then.Key {
		t.Fatalf("runs %+v, want %v and %v", runs, k, then.Key)
	}
	for _, r := range runs {
		// Instants are exact to the microsecond up to the year 2255.
		if off := r.Due.Sub(r.Claimed.Truncate(time.Microsecond)) - math.MaxInt64; off < -time.Minute {
			t.Errorf("due %v, claimed %v: not as late as it can be", r.Due, r.Claimed)
		}
	}
	b.ok(b.NoteTerm(ctx, store.TermNote{Holder: b.h, Began: math.MaxInt64, Over: true}))
	terms, err := b.Terms(ctx, "group", jobs.TermFilter{})
	b.ok(err)
	if len(terms) != 1 || terms[0].Token != math.MaxInt64 || terms[0].Began.Year() > 1740 {
		t.Errorf("terms %+v", terms)
	}
	n, err := b.PassOver(ctx, b.h, "report", at(0).Tick)
	b.ok(err)
	if n != 0 {
		t.Errorf("%d runs were passed over", n)
	}
}

func keyTexts(k jobs.Key) string {
	return fmt.Sprintf("%019d %020d", k.Tick.UnixMicro()+1_000_000_000_000_000_000, k.Trigger)
}

func TestTicksThatNoKeyHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	was := b.dump()
	for _, tick := range []time.Time{time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		k := jobs.Key{Job: "report", Tick: tick}
		if _, err := b.Claim(ctx, b.h, store.ClaimID{1}, []store.Claim{{Key: k, State: jobs.Running}}); err == nil {
			t.Errorf("Claim of %v: no error", tick)
		}
		then := []store.Follower{{Key: jobs.Key{Job: "report", Tick: tick, Trigger: 1}}}
		if _, err := b.Claim(ctx, b.h, store.ClaimID{1}, []store.Claim{{Key: at(1), State: jobs.Running, Then: then}}); err == nil {
			t.Errorf("Claim with a follower of %v: no error", tick)
		}
		if _, err := b.Trigger(ctx, "group", "report", jobs.Request{Tick: tick}); err == nil {
			t.Errorf("Trigger of %v: no error", tick)
		}
		if _, err := b.Args(ctx, "group", k); !errors.Is(err, jobs.ErrNoRun) {
			t.Errorf("Args of %v: %v", tick, err)
		}
		if _, err := b.Runs(ctx, "group", jobs.Filter{Since: tick, Until: tick.Add(time.Hour), Behind: k}); err != nil {
			t.Errorf("Runs at %v: %v", tick, err)
		}
	}
	b.same(was, b.dump(), "what is refused")
	r := b.run(jobs.Key{Job: "report", Tick: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), Trigger: 1})
	k := r.Key
	k.Tick = k.Tick.Add(-time.Hour)
	if err := b.Cancel(ctx, "group", k); !errors.Is(err, jobs.ErrNoRun) || loaded(b).Open[0].CancelAsked {
		t.Errorf("Cancel of %v: %v, of %v: %t", k.Tick, err, r.Tick, loaded(b).Open[0].CancelAsked)
	}
}

// Before its first term, the fence of a group has no owner, and the token 0.
func TestNobodyHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	for _, h := range []store.Holder{{Group: "group"}, {Group: "group", Owner: "alice"}, {Group: "group", Token: 1}} {
		b.ok(b.client.HSet(ctx, b.name+":fence:group", "owner", h.Owner, "token", h.Token).Err())
		was := b.dump()
		for what, err := range map[string]error{
			"Declare":  b.Declare(ctx, h, []store.Declared{{Name: "new"}}),
			"Gone":     b.Gone(ctx, h, []string{"report"}),
			"Claim":    errOf(b.Claim(ctx, h, store.ClaimID{1}, []store.Claim{{Key: at(1), State: jobs.Running}})),
			"Move":     errOf(b.Move(ctx, h, []store.Move{{Key: at(1), From: jobs.Running, To: jobs.Failed}})),
			"PassOver": errOf(b.PassOver(ctx, h, "report", at(0).Tick)),
		} {
			if !errors.Is(err, store.ErrReplaced) {
				t.Errorf("%s by %+v: %v", what, h, err)
			}
		}
		b.same(was, b.dump(), fmt.Sprintf("what is refused to %+v", h))
	}
}

// hostile are texts that a script, a key or an answer may take for something else.
var hostile = []string{
	"a b", "a:b", "a b c", "\x00", "a\x00b", "\r\n+OK\r\n", "*1\r\n$4\r\nPING\r\n", "']] return 1 --", "\xff\xfe", "nil", "0", "group report", "{x}", "*", "%s%d",
	"report 1000000000000000000 00000000000000000001", strings.Repeat("x", 300),
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	for n, text := range hostile {
		for what, err := range map[string]error{
			"Pause":   b.Pause(ctx, "group", text),
			"Resume":  b.Resume(ctx, "group", text),
			"Cancel":  b.Cancel(ctx, "group", jobs.Key{Job: text, Tick: at(1).Tick, Trigger: 1}),
			"Trigger": errOf(b.Trigger(ctx, "group", text, jobs.Request{})),
		} {
			if !errors.Is(err, jobs.ErrNoJob) && !errors.Is(err, jobs.ErrNoRun) {
				t.Errorf("%s of job %.40q: %v", what, text, err)
			}
		}
		for what, err := range map[string]error{
			"Declare": b.Declare(ctx, b.h, []store.Declared{{Name: text, Schedule: "every 1m"}}),
			"Claim":   errOf(b.Claim(ctx, b.h, store.ClaimID{1}, []store.Claim{{Key: jobs.Key{Job: text, Tick: at(1).Tick}, State: jobs.Running}})),
			"Move":    errOf(b.Move(ctx, b.h, []store.Move{{Key: jobs.Key{Job: text, Tick: at(1).Tick}, From: jobs.Running, To: jobs.Failed}})),
			"Enlist":  b.Enlist(ctx, "group", jobs.Replica{Owner: text}),
		} {
			if err == nil && text != "0" && text != "nil" && text != "a:b" {
				t.Errorf("%s of %.40q: no error", what, text)
			}
		}
		if _, err := b.LoadOf(ctx, "group", []string{text}); err != nil {
			t.Errorf("LoadOf %.40q: %v", text, err)
		}
		if _, err := b.Runs(ctx, text, jobs.Filter{Job: text, Behind: jobs.Key{Job: text, Tick: at(1).Tick}}); err != nil {
			t.Errorf("Runs of %.40q: %v", text, err)
		}
		schedule := strings.ToValidUTF8(text, "?")
		b.ok(b.Declare(ctx, b.h, []store.Declared{{Name: "report", Schedule: schedule}}))
		r := b.run(at(n))
		m := moveOf(r, jobs.Waiting)
		m.Error, m.Output = text, []byte(text)
		b.move(m)
		var got jobs.Record
		for _, r := range loaded(b).Open {
			if r.Key == at(n) {
				got = r
			}
		}
		if got.Error != text || loaded(b).Jobs["report"].Schedule != schedule {
			t.Errorf("%.40q is kept as %.40q, as a schedule as %.40q", text, got.Error, loaded(b).Jobs["report"].Schedule)
		}
		attempts, err := b.Attempts(ctx, "group", at(n))
		b.ok(err)
		if len(attempts) != 1 || string(attempts[0].Output) != text {
			t.Errorf("the output %.40q is kept as %+v", text, attempts)
		}
		b.ok(b.NoteTerm(ctx, store.TermNote{Holder: store.Holder{Group: "group", Owner: text, Token: uint64(n) + 1}, Over: true, Why: text}))
		actor := jobs.WithActor(ctx, jobs.Actor{Name: text, Via: jobs.ViaCLI})
		k, err := b.Trigger(actor, "group", "report", jobs.Request{Note: text, Backfill: text})
		b.ok(err)
		entries, err := b.Audit(ctx, "group", jobs.AuditFilter{Job: "report", Limit: 1})
		b.ok(err)
		if len(entries) != 1 || entries[0].Key != k {
			t.Errorf("the audit has %+v, want %v", entries, k)
		}
	}
	if got := len(loaded(b).Jobs); got != 5 {
		t.Errorf("%d jobs are known, want report, cleanup, and three that are names", got)
	}
}

func errOf[T any](_ T, err error) error { return err }

func loaded(b *bench) jobs.Snapshot {
	b.Helper()
	snapshot, err := b.Load(b.Context(), "group")
	b.ok(err)
	return snapshot
}

// Nothing stays of what is forgotten and pruned, so that memory is bounded.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	empty := slices.Sorted(maps.Keys(b.dump()))
	for n := range 700 {
		if n%100 == 0 {
			m := moveOf(b.run(at(n)), jobs.Waiting)
			m.Output = []byte("printed")
			b.move(m)
			continue
		}
		m := moveOf(b.run(at(n)), jobs.Failed)
		m.Output = []byte("printed")
		m.Then = []store.Follower{{Key: jobs.Key{Job: "cleanup", Tick: at(n).Tick, Trigger: 7}}}
		b.move(m)
	}
	_, err := b.Trigger(ctx, "group", "report", jobs.Request{Args: []byte(`1`)})
	b.ok(err)
	b.ok(b.Pause(ctx, "group", "report"))
	b.ok(b.Enlist(ctx, "group", jobs.Replica{Owner: "alice", List: 1, Jobs: manyJobs()}))
	b.ok(b.Enlist(ctx, "group", jobs.Replica{Owner: "alice", List: 2}))
	if n := b.client.HLen(ctx, b.name+":replica:group alice").Val(); n != 6 {
		t.Errorf("a replica without jobs has %d fields, want 5 and one part of its list", n)
	}
	b.ok(b.Strike(ctx, "group", "alice", 0))
	b.ok(b.Gone(ctx, b.h, []string{"report", "cleanup"}))
	for name, known := range loaded(b).Jobs {
		forgotten, err := b.Forget(ctx, "group", name, known.Gone)
		b.ok(err)
		if !forgotten {
			t.Errorf("%s was not forgotten", name)
		}
	}
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(b.dump())), func(key string) bool { return key == b.name+":audit:group" })
	empty = slices.DeleteFunc(empty, func(key string) bool { return key == b.name+":jobs:group" })
	if !slices.Equal(left, empty) {
		t.Errorf("keys %q are left, want %q", left, empty)
	}
}

// manyJobs take several parts.
func manyJobs() map[string]jobs.ScheduleHash {
	many := map[string]jobs.ScheduleHash{}
	for n := range 10_000 {
		many[fmt.Sprintf("%0100d", n)] = jobs.ScheduleHash(n)
	}
	return many
}

// A key of another type, which nothing of this module writes, fails the scripts that need it, and none of them writes a
// part of what it does.
func TestKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	fresh := func() (*bench, map[string]func() error) {
		b := newBench(t, shared.Addr())
		b.move(moveOf(b.run(at(0)), jobs.Succeeded))
		waiting, running := b.run(at(1)), b.run(at(2))
		m := moveOf(waiting, jobs.Waiting)
		m.Output = []byte("printed")
		b.move(m)
		waiting.State = jobs.Waiting
		claimed, err := b.Claim(ctx, b.h, store.ClaimID{2}, []store.Claim{{Key: at(3), State: jobs.Skipped, Error: "busy"}})
		b.ok(err)
		skipped := claimed[0]
		k, err := b.Trigger(ctx, "group", "report", jobs.Request{Args: []byte(`1`)})
		b.ok(err)
		b.ok(b.NoteTerm(ctx, store.TermNote{Holder: b.h}))
		b.ok(b.Enlist(ctx, "group", jobs.Replica{Owner: "alice", List: 1}))
		b.ok(b.Gone(ctx, b.h, []string{"cleanup"}))
		gone := loaded(b).Jobs["cleanup"].Gone
		follow := func(k jobs.Key) []store.Follower {
			return []store.Follower{{Key: jobs.Key{Job: "cleanup", Tick: k.Tick, Trigger: 9}}}
		}
		end := moveOf(running, jobs.Failed)
		end.Output, end.Then = []byte("more"), follow(running.Key)
		return b, map[string]func() error{
			"Declare": func() error {
				return b.Declare(ctx, b.h, []store.Declared{{Name: "new", Schedule: "x"}, {Name: "cleanup", Schedule: "y"}})
			},
			"Claim": func() error {
				return errOf(b.Claim(ctx, b.h, store.ClaimID{3}, []store.Claim{
					{Key: at(4), State: jobs.Running, Then: follow(at(4))}, {Key: at(5), State: jobs.Skipped, Error: "busy", Extends: skipped.Tick},
				}))
			},
			"extend": func() error {
				return errOf(b.Claim(ctx, b.h, store.ClaimID{4}, []store.Claim{{Key: at(5), State: jobs.Skipped, Error: "busy", Extends: skipped.Tick}}))
			},
			"Move":     func() error { return errOf(b.Move(ctx, b.h, []store.Move{moveOf(waiting, jobs.Cancelled), end})) },
			"PassOver": func() error { h := b.h; h.Token--; return errOf(b.PassOver(ctx, h, "report", at(0).Tick)) },
			"Prune":    func() error { return errOf(b.Prune(ctx, "group", "report", jobs.History{Keep: 1}, 0)) },
			"Pause":    func() error { return b.Pause(ctx, "group", "report") },
			"Pause of the group": func() error {
				return b.Pause(ctx, "group", "")
			},
			"Trigger":      func() error { return errOf(b.Trigger(ctx, "group", "report", jobs.Request{})) },
			"Cancel":       func() error { return b.Cancel(ctx, "group", k) },
			"Forget":       func() error { return errOf(b.Forget(ctx, "group", "cleanup", gone)) },
			"Gone":         func() error { return b.Gone(ctx, b.h, []string{"report"}) },
			"AskResign":    func() error { return b.AskResign(ctx, "group", b.h.Token) },
			"NoteTerm":     func() error { return b.NoteTerm(ctx, store.TermNote{Holder: b.h, Over: true, Before: time.Now()}) },
			"Enlist":       func() error { return b.Enlist(ctx, "group", jobs.Replica{Owner: "bob", List: 1}) },
			"Strike":       func() error { return b.Strike(ctx, "group", "alice", 0) },
			"PruneArchive": func() error { return errOf(b.PruneArchive(ctx, "group", 0)) },
			"Beat": func() error {
				return errOf(b.Beat(ctx, "alice", 2, store.Renewal{Group: "group", Token: b.h.Token, Heartbeat: 1}, 0))
			},
		}
	}
	first, operations := fresh()
	keys := first.dump()
	for _, operation := range operations {
		_ = operation() // some are of what another one has deleted
		maps.Copy(keys, first.dump())
	}
	failed := 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		b, operations := fresh()
		key := b.name + strings.TrimPrefix(key, first.name)
		b.ok(b.client.Del(ctx, key).Err())
		b.ok(b.client.Set(ctx, key, "of another program", 0).Err())
		for what, operation := range operations {
			was := b.dump()
			if err := operation(); err != nil {
				failed++
				b.same(was, b.dump(), what+" beside a foreign "+key)
			}
		}
	}
	if failed < len(operations) {
		t.Errorf("only %d of the operations failed", failed)
	}
}

func TestScriptCacheIsFlushed(t *testing.T) {
	t.Parallel()
	server := start(t)
	b := newBench(t, server.Addr())
	r := b.run(at(1))
	b.ok(b.client.ScriptFlush(context.Background()).Err())
	b.move(moveOf(r, jobs.Succeeded))
	loaded(b)
}
