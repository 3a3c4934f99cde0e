package zkstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
	"github.com/cronlease/cronlease/store/zkstore"
)

// bench is a store with a term.
type bench struct {
	testing.TB
	*zkstore.Store
	h store.Holder
}

func newBench(t testing.TB, addr, root string) *bench {
	t.Helper()
	b := &bench{TB: t, Store: open(t, addr, root)}
	b.take("alice")
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// take begins a term that has the job report.
func (b *bench) take(owner string) {
	b.Helper()
	b.acquire(owner)
	b.ok(b.Declare(b.Context(), b.h, []store.Declared{{Name: "report", Schedule: "every 1m"}}))
}

// acquire begins a term.
func (b *bench) acquire(owner string) {
	b.Helper()
	ctx := b.Context()
	b.ok(b.Prepare(ctx, "group", time.Minute))
	r, err := b.Read(ctx, "group")
	b.ok(err)
	token, err := b.Acquire(ctx, store.Acquire{Read: r[0], Owner: owner, Heartbeat: 1, TTL: time.Minute})
	b.ok(err)
	b.h = store.Holder{Group: "group", Owner: owner, Token: token}
}

func at(n int) jobs.Key { return jobs.Key{Job: "report", Tick: time.Unix(int64(60*n), 0).UTC()} }

func (b *bench) run(k jobs.Key) jobs.Record {
	b.Helper()
	claimed, err := b.Claim(b.Context(), b.h, newID(), []store.Claim{{Key: k, State: jobs.Running}})
	b.ok(err)
	if !claimed[0].Mine {
		b.Fatalf("claim of %v: %+v", k, claimed[0])
	}
	return claimed[0].Record
}

func newID() (id store.ClaimID) {
	_, _ = rand.Read(id[:])
	return id
}

func moveOf(r jobs.Record, to jobs.State) store.Move {
	return store.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: to}
}

func random(n int) string {
	text := make([]byte, n/2)
	_, _ = rand.Read(text)
	return hex.EncodeToString(text)
}

// What is too large for one transaction is written all the same, at once, and read by another replica.
func TestMoreThanATransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/large")
	ctx := t.Context()
	var declared []store.Declared
	for i := range 3000 {
		declared = append(declared, store.Declared{Name: fmt.Sprint("job", i), Schedule: random(600)})
	}
	b.ok(b.Declare(ctx, b.h, declared))
	r := b.run(at(1))
	end := moveOf(r, jobs.Succeeded)
	for i := range 40 {
		args := json.RawMessage(`"` + random(jobs.MaxArgs-2) + `"`)
		end.Then = append(end.Then, store.Follower{Key: jobs.Key{Job: "report", Tick: at(2).Tick, Trigger: uint64(i + 1)}, Args: args})
	}
	moved, err := b.Move(ctx, b.h, []store.Move{end})
	b.ok(err)
	if !moved[0] {
		t.Fatal("the run was not moved")
	}
	other := open(t, shared.Addr(), "/large")
	is, err := other.Load(ctx, "group")
	b.ok(err)
	if len(is.Jobs) != len(declared)+1 || len(is.Open) != len(end.Then) {
		t.Errorf("another replica finds %d jobs and %d runs, want %d and %d", len(is.Jobs), len(is.Open), len(declared)+1, len(end.Then))
	}
	for _, d := range declared {
		if is.Jobs[d.Name].Schedule != d.Schedule {
			t.Fatalf("%s has another schedule", d.Name)
		}
	}
	for _, f := range end.Then {
		args, err := other.Args(ctx, "group", f.Key)
		b.ok(err)
		if !bytes.Equal(args, f.Args) {
			t.Fatalf("the arguments of %v are others", f.Key)
		}
	}
	// The term is replaced: what it writes now leaves nothing.
	old := b.h
	b.take("bob")
	if err := other.Declare(ctx, old, []store.Declared{{Name: "late", Schedule: random(1 << 20)}}); err == nil {
		t.Error("a replaced term declared a job")
	}
	last := moveOf(is.Open[0], jobs.Running)
	if _, err := other.Move(ctx, old, []store.Move{last}); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("Move by a replaced term: %v", err)
	}
}

// Parts that a call has left which did not come to its end are deleted once they are old. Those that count are not.
func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/swept")
	ctx := t.Context()
	clock := &zkstore.Clock{}
	clock.Drive(b.Store)
	r := b.run(at(1))
	end := moveOf(r, jobs.Failed)
	end.Output, end.Error = []byte("printed"), "broken"
	if _, err := b.Move(ctx, b.h, []store.Move{end}); err != nil {
		t.Fatal(err)
	}
	key, err := b.Trigger(ctx, "group", "report", jobs.Request{Args: json.RawMessage(`"` + random(2000) + `"`)})
	b.ok(err)
	b.ok(zkstore.Leave(b.Store, "group", "r99.12345"))
	for _, want := range []bool{true, false} {
		if _, err := b.PruneArchive(ctx, "group", 0); err != nil {
			t.Fatal(err)
		}
		there, err := zkstore.There(b.Store, "group", "r99.12345")
		b.ok(err)
		if there != want {
			t.Errorf("a part that nothing names is there: %v, want %v", there, want)
		}
		b.ok(clock.Step(b.Store, 2*time.Hour))
	}
	other := open(t, shared.Addr(), "/swept")
	attempts, err := other.Attempts(ctx, "group", r.Key)
	b.ok(err)
	if len(attempts) != 1 || string(attempts[0].Output) != "printed" {
		t.Errorf("attempts after the sweep: %+v", attempts)
	}
	if args, err := other.Args(ctx, "group", key); err != nil || len(args) != 2002 {
		t.Errorf("%d bytes of arguments after the sweep: %v", len(args), err)
	}
}

// A call that gives up leaves the ledger as it was or as it wanted it, and the next one finds out which.
func TestCallsThatGiveUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/impatient")
	for n := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*100*time.Microsecond)
		id, claims := newID(), []store.Claim{{Key: at(n + 1), State: jobs.Running}}
		_, err := b.Claim(ctx, b.h, id, claims)
		cancel()
		if errors.Is(err, store.ErrReplaced) {
			t.Fatal(err)
		}
		claimed, err := b.Claim(t.Context(), b.h, id, claims)
		b.ok(err)
		if !claimed[0].Mine {
			t.Fatalf("a repeated claim: %+v", claimed[0])
		}
	}
	if is, err := b.Load(t.Context(), "group"); err != nil || len(is.Open) != 100 {
		t.Errorf("%d runs, error %v", len(is.Open), err)
	}
}

// A fence that was deleted and begun anew has the version of before, under another term: the one before writes nothing
// more, and the next one does, also in the process that had the one before.
func TestFenceThatBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"alice", "bob"} {
		b := newBench(t, shared.Addr(), "/anew/"+owner)
		b.run(at(1))
		old := b.h
		next := &bench{TB: t, Store: b.Store}
		if owner == "bob" {
			next.Store = open(t, shared.Addr(), "/anew/"+owner)
		}
		b.ok(zkstore.Update(next.Store, "group", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil }))
		next.acquire(owner)
		if _, err := b.Claim(t.Context(), old, newID(), []store.Claim{{Key: at(2), State: jobs.Running}}); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("a claim of the term before, after one of %s: %v", owner, err)
		}
		next.run(at(2))
	}
}

// A move under a session and a takeover of it cannot both succeed: the move is done again, with the fence of the next one.
func TestTakeoverOfASession(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/session")
	var owners []string
	need := ledger.Need{Doing: "move", By: store.Holder{Group: "ledger", Session: b.h.Group, Owner: b.h.Owner, Token: b.h.Token}}
	b.ok(zkstore.Rows(b.Store).Do(t.Context(), need.By.Group, need, func(tx *ledger.Tx) {
		if owners = append(owners, tx.Fence.Owner); len(owners) == 1 {
			b.acquire("bob")
		}
		tx.NoteResign(t.Context(), 1, jobs.Done)
	}))
	if !slices.Equal(owners, []string{"alice", "bob"}) {
		t.Errorf("the transaction has seen the fences of %v", owners)
	}
}

// Who reads a ledger over a slow network gets it, and nothing old, though the leader writes in between each time.
func TestReadingBesideAWriter(t *testing.T) {
	t.Parallel()
	const delay, every = 100 * time.Millisecond, 300 * time.Millisecond
	b := newBench(t, shared.Addr(), "/slow/reader")
	ctx, stop := context.WithCancel(t.Context())
	var written atomic.Int64
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if _, err := b.Claim(ctx, b.h, newID(), []store.Claim{{Key: at(n), State: jobs.Skipped}}); err != nil && ctx.Err() == nil {
				t.Errorf("claim: %v", err)
			}
			written.Store(int64(n))
			select {
			case <-time.After(every):
			case <-ctx.Done():
			}
		}
	})
	defer writing.Wait()
	defer stop()
	proxy := dbtest.NewZooKeeperProxy(t, shared.Addr())
	far := open(t, proxy.Addr(), "/slow/reader")
	b.ok(far.Check(ctx))
	proxy.Delay(delay)
	for range 4 {
		before := written.Load()
		began := time.Now()
		runs, err := far.Runs(ctx, "group", jobs.Filter{})
		b.ok(err)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a reading took %v", took)
		} else {
			t.Logf("a reading took %v", took)
		}
		if len(runs) < int(min(before, 100)) {
			t.Errorf("%d runs, and there were %d before", len(runs), before)
		}
	}
}

// A replica whose row was damaged has no jobs, and mends its row.
func TestDamagedParts(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Addr(), "/damaged")
	told := jobs.Replica{Owner: "worker/a/1/x", List: 1, Jobs: map[string]jobs.ScheduleHash{"job": 1}}
	for _, parts := range []int{-1, math.MaxInt} {
		if err := s.Enlist(t.Context(), "group", told); err != nil {
			t.Fatal(err)
		}
		if err := zkstore.DamageReplica(t.Context(), s, "group", told.Owner, parts); err != nil {
			t.Fatal(err)
		}
		roster, err := s.Roster(t.Context(), "group", jobs.Roster{})
		if err != nil || len(roster.Replicas) != 0 {
			t.Errorf("%d parts: %+v, %v", parts, roster, err)
		}
	}
	if err := s.Enlist(t.Context(), "group", told); err != nil {
		t.Fatal(err)
	}
	if roster, err := s.Roster(t.Context(), "group", jobs.Roster{}); err != nil || len(roster.Replicas) != 1 {
		t.Errorf("%+v, %v", roster, err)
	}
}

// What a leader has left for readers may be gone when it comes to delete it.
func TestReplacedPartsAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/replaced")
	client, parts := partsOf(b, "/replaced")
	most := 0
	for n := range 200 {
		b.run(at(n))
		if n == 100 {
			names := parts()
			slices.Sort(names) // revisions grow
			for i, name := range names[1:] {
				if number, _, _ := strings.Cut(name, "."); strings.HasPrefix(names[i], number+".") {
					b.ok(client.Delete("/replaced/ledgers/group/"+names[i], -1))
				}
			}
		}
		most = max(most, len(parts()))
	}
	if most > 60 {
		t.Errorf("%d parts for 200 runs of one job", most)
	}
}

// What a leader has left for readers does not pile up where others write to its ledger, as replicas do that runs are assigned to.
func TestReplacedPartsBesideAWriter(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/beside")
	other := open(t, shared.Addr(), "/beside")
	_, parts := partsOf(b, "/beside")
	for n := range 100 {
		first := true
		b.ok(zkstore.Rows(b.Store).Do(t.Context(), "group", ledger.Need{Doing: "note an action", Held: true}, func(tx *ledger.Tx) {
			if first {
				_, err := other.Trigger(t.Context(), "group", "report", jobs.Request{})
				b.ok(err)
			}
			first = false
			tx.NoteResign(t.Context(), uint64(n), jobs.Done)
		}))
	}
	if n := len(parts()); n > 60 {
		t.Errorf("%d parts", n)
	}
}

// partsOf returns what reads the names of a ledger's parts, and the client that it has.
func partsOf(b *bench, root string) (*zk.Conn, func() []string) {
	b.Helper()
	client, _, err := zk.Connect([]string{shared.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	b.ok(err)
	b.Cleanup(client.Close)
	return client, func() []string {
		names, _, err := client.Children(root + "/ledgers/group")
		b.ok(err)
		return names
	}
}
