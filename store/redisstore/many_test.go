package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// What one script does not look at is looked at by the next one.
func TestMoreRowsThanAScript(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	const n = 1234
	claims := make([]store.Claim, n)
	for i := range claims {
		claims[i] = store.Claim{Key: at(i), State: jobs.Skipped}
		if i%100 == 0 {
			claims[i].State = jobs.Running
		}
		if i%3 == 0 { // rows beside the schedule's
			claims[i].Then = []store.Follower{{Key: jobs.Key{Job: "report", Tick: at(i).Tick, Trigger: 1}}}
		}
	}
	claimed, err := b.Claim(ctx, b.h, store.ClaimID{1}, claims)
	b.ok(err)
	for i, c := range claimed {
		if !c.Mine || c.Key != at(i) {
			t.Fatalf("claim %d: %+v", i, c)
		}
	}
	const followers = (n + 2) / 3
	for _, c := range []struct {
		filter jobs.Filter
		want   int
	}{
		{jobs.Filter{Limit: 5000}, n + followers},
		{jobs.Filter{Limit: 5000, Job: "report"}, n + followers},
		{jobs.Filter{Limit: 5000, State: jobs.Running}, 13},
		{jobs.Filter{Limit: 5000, Job: "report", State: jobs.Running}, 13},
		{jobs.Filter{Limit: 700, Job: "report", State: jobs.Skipped}, 700},
	} {
		runs, err := b.Runs(ctx, "group", c.filter)
		b.ok(err)
		seen := map[jobs.Key]bool{}
		for _, r := range runs {
			seen[r.Key] = true
		}
		if len(runs) != c.want || len(seen) != c.want {
			t.Errorf("Runs of %+v: %d, of which %d differ, want %d", c.filter, len(runs), len(seen), c.want)
		}
	}
	for _, of := range [][]string{nil, {"report"}} {
		counts, err := b.Counts(ctx, "group", jobs.CountFilter{Jobs: of, Since: at(0).Tick, Until: at(n).Tick, Every: 24 * time.Hour})
		b.ok(err)
		got := map[jobs.State]int{}
		for _, c := range counts.List {
			got[c.State] += c.Runs
		}
		if got[jobs.Running] != 13 || got[jobs.Skipped] != n-13 || got[jobs.Waiting] != followers || len(counts.Cut) > 0 {
			t.Errorf("Counts of %q: %v, cut %v", of, got, counts.Cut)
		}
	}

	b.take("bob")
	passed, err := b.PassOver(ctx, b.h, "report", at(100).Tick)
	b.ok(err)
	if passed != n-101 {
		t.Errorf("%d runs were passed over, want %d", passed, n-101)
	}
	if cursor := loaded(b).Jobs["report"].Cursor; !cursor.Equal(at(100).Tick) {
		t.Errorf("cursor %v, want %v", cursor, at(100).Tick)
	}
	b.run(at(101))
	deleted, err := b.Prune(ctx, "group", "report", jobs.History{Keep: 1}, 5000)
	b.ok(err)
	if deleted != n-14 {
		t.Errorf("%d runs were pruned, want those that are over but for the newest, %d", deleted, n-14)
	}
}

func TestManyLocks(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	const n = 2500
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("lock-%04d", i)
	}
	write := func(expect, version uint64, queue string) {
		t.Helper()
		was, err := b.ReadLocks(ctx, "lock-0000")
		b.ok(err)
		writes := make([]store.LockWrite, n)
		for i := range writes {
			writes[i] = store.LockWrite{Name: names[i], Expect: expect, Version: version + uint64(i), Queue: []byte(queue)}
			if expect > 0 {
				writes[i].Expect += uint64(i)
			}
		}
		done, err := b.WriteLocks(ctx, was.Server, writes)
		b.ok(err)
		if slices.Contains(done, false) {
			t.Errorf("not all of version %d were written", version)
		}
		is, err := b.ReadLocks(ctx, names...)
		b.ok(err)
		for i, row := range is.Rows {
			if row.Name != names[i] || row.Version != version+uint64(i) || string(row.Queue) != queue {
				t.Fatalf("row %d of version %d: %+v", i, version, row)
			}
		}
	}
	write(0, 10_000, "holder")
	held, err := b.HeldLocks(ctx, -time.Hour, "", n)
	b.ok(err)
	if !slices.Equal(held, names) {
		t.Errorf("%d locks are held, want %d", len(held), n)
	}
	write(10_000, 20_000, "")
	// Those that are held again are still among the ones to look at, before the others.
	names = names[:1000]
	for i, name := range names {
		was, err := b.ReadLocks(ctx, name)
		b.ok(err)
		done, err := b.WriteLocks(ctx, was.Server, []store.LockWrite{{Name: name, Expect: was.Rows[0].Version, Version: 30_000 + uint64(i), Queue: []byte("next")}})
		b.ok(err)
		if !done[0] {
			t.Fatalf("%s was not written", name)
		}
	}
	for _, want := range []int{100, n - 1100, 0} {
		found, err := b.PruneLocks(ctx, -time.Hour, max(want, 100))
		b.ok(err)
		if found != want {
			t.Errorf("%d locks were pruned, want %d", found, want)
		}
	}
	held, err = b.HeldLocks(ctx, -time.Hour, "", n)
	b.ok(err)
	if !slices.Equal(held, names) {
		t.Errorf("%d locks are held, want %d", len(held), len(names))
	}
}

func TestLongArchive(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	const n = 1100
	for i := range n {
		b.ok(b.Resume(ctx, "group", []string{"report", "cleanup", ""}[min(i%100, 2)]))
		b.ok(b.NoteTerm(ctx, store.TermNote{Holder: store.Holder{Group: "group", Owner: "alice", Token: uint64(i) + 1}, Over: i%2 == 0}))
	}
	for job, want := range map[string]int{"": n, "report": n / 100, "cleanup": n / 100} {
		var ids []uint64
		filter := jobs.AuditFilter{Job: job, Limit: 650}
		for {
			page, err := b.Audit(ctx, "group", filter)
			b.ok(err)
			for _, e := range page {
				ids = append(ids, e.ID)
			}
			if len(page) < filter.Limit {
				break
			}
			filter.Before = page[len(page)-1].ID
		}
		for i := 1; i < len(ids); i++ {
			if ids[i] >= ids[i-1] {
				t.Fatalf("entry %d after %d", ids[i], ids[i-1])
			}
		}
		if len(ids) != want {
			t.Errorf("the audit of %q has %d entries, want %d", job, len(ids), want)
		}
	}
	terms, err := b.Terms(ctx, "group", jobs.TermFilter{Limit: 5000})
	b.ok(err)
	if len(terms) != n || terms[0].Token != n {
		t.Errorf("%d terms", len(terms))
	}
	last := terms[0].Began.Add(time.Second)
	b.ok(b.NoteTerm(ctx, store.TermNote{Holder: store.Holder{Group: "group", Owner: "bob", Token: n + 1}, Before: last}))
	terms, err = b.Terms(ctx, "group", jobs.TermFilter{Limit: 5000})
	b.ok(err)
	for _, term := range terms[1:] {
		if term.Ended.IsZero() || term.Token%2 == 0 && term.Why != store.WhyUntold {
			t.Fatalf("a term before: %+v", term)
		}
	}
	// The audit is pruned to so many, whatever their age, and IDs go on where they were.
	entries, err := b.Audit(ctx, "group", jobs.AuditFilter{Limit: 1})
	b.ok(err)
	b.ok(b.client.LTrim(ctx, b.name+":audit:group", 1000, -1).Err())
	older, err := b.Audit(ctx, "group", jobs.AuditFilter{Before: entries[0].ID, Limit: 5000})
	b.ok(err)
	if len(older) != n-1001 || older[0].ID != entries[0].ID-1 {
		t.Errorf("%d entries before the newest, want %d", len(older), n-1001)
	}
	if _, err := b.Audit(ctx, "group", jobs.AuditFilter{Before: 1}); err != nil {
		t.Error(err)
	}
}
