package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// All limits of the values, in one statement, so that no row's type is taken
// for another's; and what a claim returns is what the table has.
func TestClaimKeepsValues(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for group, s := range map[string]*mysqlstore.Store{"one": migrated(t, db.DSN), "odd": openOn(t, openSQL(t, oddDSN(t, db)))} {
			h := holder(t, s, group, "me")
			claims := []store.Claim{
				{Key: jobs.Key{Job: "a", Tick: time.UnixMicro(0)}, State: jobs.Running},
				{Key: jobs.Key{Job: "a", Tick: time.UnixMicro(-1)}, State: jobs.Skipped, Error: "paused"},
				{Key: jobs.Key{Job: "a", Tick: noon.In(time.FixedZone("", 3600)), Trigger: 1}, State: jobs.Running},
				{Key: jobs.Key{Job: "A", Tick: noon, Trigger: math.MaxUint64}, State: jobs.Waiting, Delay: 1500 * time.Microsecond},
				{Key: jobs.Key{Job: strings.Repeat("j", 128), Tick: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)}, State: jobs.Waiting, Delay: 100 * 365 * 24 * time.Hour, Missed: math.MaxInt32},
				{Key: jobs.Key{Job: "a+b/c:d@e._-", Tick: noon}, State: jobs.Skipped, Error: "a\x00'\\\n?" + strings.Repeat("é", store.MaxError), Missed: 3},
				{Key: jobs.Key{Job: "late", Tick: noon}, State: jobs.Waiting, Delay: -time.Hour},
			}
			for i := range claims {
				claims[i].Tick = claims[i].Tick.Truncate(time.Microsecond)
			}
			claimed, err := s.Claim(soon(t), h, id(), claims)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range claimed {
				want, got := claims[i], c.Record
				if !c.Mine || !got.Tick.Equal(want.Tick) || got.Tick.Location() != time.UTC || got.Job != want.Job || got.Trigger != want.Trigger || got.State != want.State ||
					got.Owner != h.Owner || got.Token != h.Token || got.Missed != want.Missed || len(got.Error) > store.MaxError || !strings.HasPrefix(want.Error, got.Error) {
					t.Errorf("claim %d: %+v", i, c)
				}
				if r := run(t, s, group, got.Key); r != got {
					t.Errorf("claim %d returned\n%+v, and the table has\n%+v", i, got, r)
				}
			}
			if got := claimed[5].Error; len(got) != store.MaxError-1 && len(got) != store.MaxError || !strings.HasSuffix(got, "é") {
				t.Errorf("the error was cut to %d bytes that end in %q", len(got), got[len(got)-2:])
			}
			if r := claimed[0]; r.Attempt != 1 || r.Started != r.Claimed || r.Claimed.IsZero() || !r.Due.IsZero() || !r.Finished.IsZero() {
				t.Errorf("running: %+v", r)
			}
			if r := claimed[1]; r.Attempt != 0 || !r.Started.IsZero() || r.Finished != r.Claimed {
				t.Errorf("skipped: %+v", r)
			}
			if r := claimed[3]; r.Attempt != 0 || r.Due != r.Claimed.Add(1500*time.Microsecond) || !r.Finished.IsZero() {
				t.Errorf("waiting: %+v", r)
			}
			if r := claimed[6]; r.Due != r.Claimed {
				t.Errorf("waiting for less than nothing: %+v", r)
			}
		}
	})
}

// What would be cut or rounded is refused, with nothing written.
func TestLedgerRefusesValues(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		good := running("a", 1)[0]
		for name, change := range map[string]func(*store.Claim){
			"long name":       func(c *store.Claim) { c.Job = strings.Repeat("j", 129) },
			"no name":         func(c *store.Claim) { c.Job = "" },
			"nanoseconds":     func(c *store.Claim) { c.Tick = c.Tick.Add(1) },
			"a far tick":      func(c *store.Claim) { c.Tick = time.Date(400_000, 1, 1, 0, 0, 0, 0, time.UTC) },
			"a final state":   func(c *store.Claim) { c.State = jobs.Failed },
			"no state":        func(c *store.Claim) { c.State = 0 },
			"negative missed": func(c *store.Claim) { c.Missed = -1 },
		} {
			bad := good
			change(&bad)
			if _, err := s.Claim(soon(t), h, id(), []store.Claim{good, bad}); err == nil || errors.Is(err, store.ErrReplaced) {
				t.Errorf("claim with %s: %v", name, err)
			}
		}
		if all := runs(t, s, "billing", jobs.Filter{}); len(all) > 0 {
			t.Errorf("written: %+v", all)
		}
		r := claim(t, s, h, good)[0]
		for name, change := range map[string]func(*store.Move){
			"a final state":      func(m *store.Move) { m.From = jobs.Failed },
			"no state":           func(m *store.Move) { m.To = 0 },
			"an unknown state":   func(m *store.Move) { m.To = 10 },
			"a negative attempt": func(m *store.Move) { m.Attempt = -1 },
			"nanoseconds":        func(m *store.Move) { m.Tick = m.Tick.Add(1) },
		} {
			bad := to(r, jobs.Failed)
			change(&bad)
			if _, err := s.Move(soon(t), h, []store.Move{to(r, jobs.Failed), bad}); err == nil || errors.Is(err, store.ErrReplaced) {
				t.Errorf("move with %s: %v", name, err)
			}
		}
		for _, d := range []store.Declared{{Name: ""}, {Name: "a b"}, {Name: "a", Schedule: strings.Repeat("x", 16_001)}} {
			if err := s.Declare(soon(t), h, []store.Declared{d}); err == nil || errors.Is(err, store.ErrReplaced) {
				t.Errorf("declare %.20q: %v", d, err)
			}
		}
		if got := run(t, s, "billing", r.Key); got != r {
			t.Errorf("the run became %+v", got)
		}
	})
}

func TestClaimOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		mine := id()
		first, err := s.Claim(soon(t), h, mine, running("a", 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Claim(soon(t), h, mine, running("a", 3, 2, 1))
		if err != nil {
			t.Fatal(err)
		}
		if !again[0].Mine || again[1] != first[1] || again[2] != first[0] {
			t.Errorf("again with the same id: %+v after %+v", again, first)
		}
		others, err := s.Claim(soon(t), h, id(), append(running("a", 2, 4), running("b", 2)...))
		if err != nil {
			t.Fatal(err)
		}
		if others[0].Mine || others[0].Record != first[1].Record || !others[1].Mine || !others[2].Mine {
			t.Errorf("with another id: %+v", others)
		}
		// The same tick in another group, and as a manual run, is another run.
		elsewhere := holder(t, s, "other", "me")
		manual := running("a", 1)
		manual[0].Trigger = 7
		claim(t, s, elsewhere, running("a", 1)...)
		claim(t, s, h, manual...)
		if none, err := s.Claim(soon(t), h, id(), nil); err != nil || len(none) != 0 {
			t.Errorf("a claim of nothing: %v, %v", none, err)
		}
		twice, err := s.Claim(soon(t), h, id(), running("twice", 1, 1))
		if err != nil || !twice[0].Mine || !twice[1].Mine {
			t.Errorf("one tick twice in a call: %+v, %v", twice, err)
		}
	})
}

func TestTenClaimersOfTheSameTicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		stores := []*mysqlstore.Store{migrated(t, db.DSN), open(t, db.DSN), openOn(t, db.Open(t))}
		h := holder(t, stores[0], "billing", "me")
		var claims []store.Claim
		for n := range 60 {
			for _, job := range []string{"a", "b", "c", "d", "e"} {
				claims = append(claims, running(job, n)...)
			}
		}
		for round := range 3 {
			for i := range claims {
				claims[i].Trigger = uint64(round)
			}
			var all sync.WaitGroup
			got := make([][]store.Claimed, 10)
			for i := range got {
				// Each tick is claimed with those before it: later it would be refused.
				mixed := slices.Clone(claims)
				parts := [][]store.Claim{mixed[:10], mixed[5:150], mixed}
				if i%2 == 0 {
					parts = [][]store.Claim{mixed, mixed, mixed}
					rand.Shuffle(len(mixed), func(a, b int) { mixed[a], mixed[b] = mixed[b], mixed[a] })
				}
				all.Go(func() {
					mine := id()
					for _, part := range parts {
						claimed, err := stores[i%3].Claim(soon(t), h, mine, part)
						if err != nil {
							t.Error(err)
							return
						}
						got[i] = claimed
					}
				})
			}
			all.Wait()
			winners := map[jobs.Key]int{}
			for _, claimed := range got {
				for _, c := range claimed {
					if c.Mine {
						winners[c.Key]++
					}
				}
			}
			if len(winners) != len(claims) {
				t.Errorf("%d of %d ticks were claimed", len(winners), len(claims))
			}
			for k, n := range winners {
				if n != 1 {
					t.Errorf("%v was claimed %d times", k, n)
				}
			}
		}
	})
}

// One call for more rows than a statement has, in any order, some of them there.
func TestManyRowsInOneCall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		const n = 2*mysqlstore.ClaimChunk + 7
		var claims []store.Claim
		for i := range n {
			claims = append(claims, store.Claim{Key: key(fmt.Sprintf("job-%d", i%13), i), State: jobs.Running, Missed: i})
		}
		for _, part := range [][]store.Claim{claims[:n/2], claims[n/2:]} { // the later ticks are claimed later
			rand.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
		}
		claims[n-1].Job = "another-call"
		mine := id()
		if _, err := s.Claim(soon(t), h, mine, claims[:n/2]); err != nil {
			t.Fatal(err)
		}
		claim(t, s, h, claims[n-1])
		claimed, err := s.Claim(soon(t), h, mine, claims)
		if err != nil {
			t.Fatal(err)
		}
		moves := make([]store.Move, n)
		for i, c := range claimed {
			if c.Key != claims[i].Key || c.Missed != claims[i].Missed || c.Mine != (i < n-1) {
				t.Fatalf("claim %d of %+v: %+v", i, claims[i], c)
			}
			moves[i] = to(c.Record, jobs.State(rand.N(5))+jobs.Succeeded)
		}
		moves[3].Attempt++
		moves[n/2].Token++
		done, err := s.Move(soon(t), h, moves)
		if err != nil {
			t.Fatal(err)
		}
		for i, is := range done {
			if is != (i != 3 && i != n/2) {
				t.Errorf("move %d of %+v: %v", i, moves[i], is)
			}
		}
		states := map[jobs.Key]jobs.State{}
		for _, r := range runs(t, s, "billing", jobs.Filter{Limit: 2 * n}) {
			states[r.Key] = r.State
		}
		for i, m := range moves {
			if want := m.To; done[i] && states[m.Key] != want || !done[i] && states[m.Key] != jobs.Running {
				t.Errorf("%v is %v", m.Key, states[m.Key])
			}
		}
		var names []store.Declared
		for i := range n {
			names = append(names, store.Declared{Name: fmt.Sprintf("declared-%d", i), Schedule: strings.Repeat("x", i)})
		}
		if err := s.Declare(soon(t), h, names); err != nil {
			t.Fatal(err)
		}
		known := load(t, s, "billing").Jobs
		for _, d := range names {
			if known[d.Name].Schedule != d.Schedule {
				t.Errorf("%s has the schedule %.20q...", d.Name, known[d.Name].Schedule)
			}
		}
	})
}

// A claim whose client gave up is carried out later, and is then its caller's.
func TestClaimThatAppliesLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		free := lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = 'billing' FOR UPDATE")
		ctx, cancel := context.WithCancel(soon(t))
		mine, result := id(), make(chan error)
		go func() { _, err := s.Claim(ctx, h, mine, running("a", 1)); result <- err }()
		isWaiting := waits(t, db, "INSERT IGNORE")
		eventually(t, "the claim waits", isWaiting)
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "claim: ") {
			t.Errorf("given up: %v", err)
		}
		free()
		eventually(t, "the claim ends", func() bool { return !isWaiting() })
		claimed, err := s.Claim(soon(t), h, mine, running("a", 1, 2))
		if err != nil || !claimed[0].Mine || !claimed[1].Mine {
			t.Errorf("again: %+v, %v", claimed, err)
		}
	})
}
