package ledger_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
	"github.com/cronlease/cronlease/store/storetest"
)

// The rules pass the suite that all stores do. Each of their conditions is needed for that: see docs/checks.md on mutation.
func TestRules(t *testing.T) {
	t.Parallel()
	storetest.Ledger(t, func(testing.TB) storetest.Harness {
		s := memdb.New()
		return storetest.Harness{
			Open:      func(testing.TB) store.Leases { return s },
			StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
		}
	})
}

// rows are those of one group, at noon.
type rows struct{ *ledger.Content }

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func (r rows) Do(_ context.Context, _ string, need ledger.Need, f func(*ledger.Tx)) error {
	tx := r.Page(need, noon, "a server")
	f(tx)
	r.Take(tx)
	return nil
}

// Of what is not old, so many are kept: more than the suite would ask a server to write.
func TestPruneArchiveByNumber(t *testing.T) {
	t.Parallel()
	g := rows{ledger.NewContent()}
	for id := range uint64(store.MaxAudit + 2) {
		g.Audit = append(g.Audit, jobs.AuditEntry{ID: id, At: noon})
	}
	for token := range uint64(store.MaxTerms + 3) {
		g.Terms = append(g.Terms, jobs.Term{Token: token, Began: noon, Ended: noon})
	}
	for _, want := range []int{5, 0} {
		deleted, err := ledger.New("test", g).PruneArchive(t.Context(), "g", 0)
		if err != nil || deleted != want {
			t.Fatalf("deleted %d, %v, want %d", deleted, err, want)
		}
		if g.Audit[0].ID != 2 || g.Terms[0].Token != 3 || len(g.Audit) != store.MaxAudit || len(g.Terms) != store.MaxTerms {
			t.Fatalf("left are %d entries from %d on and %d terms from %d on", len(g.Audit), g.Audit[0].ID, len(g.Terms), g.Terms[0].Token)
		}
	}
}

// What no table would keep as it is, is refused before anything is read.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := store.Holder{Group: "g", Owner: "o", Token: 1}
	key := func(job string, trigger uint64) jobs.Key { return jobs.Key{Job: job, Tick: noon, Trigger: trigger} }
	const large = math.MaxInt64 + 1
	check := func(what string, call func(ledger.Ledger) error) {
		t.Helper()
		if err := call(ledger.New("test", nil)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want one that says %s", err, what)
		}
	}
	for what, call := range map[string]func(ledger.Ledger) error{
		`job "a b"`: func(l ledger.Ledger) error {
			return l.Declare(ctx, h, []store.Declared{{Name: "a b", Schedule: "every 1m"}})
		},
		`schedule "\xff": not UTF-8`: func(l ledger.Ledger) error {
			return l.Declare(ctx, h, []store.Declared{{Name: "a", Schedule: "\xff"}})
		},
		"trigger 9223372036854775808: at most 9223372036854775807": func(l ledger.Ledger) error {
			_, err := l.Claim(ctx, h, store.ClaimID{}, []store.Claim{{Key: key("a", large), State: jobs.Running}})
			return err
		},
		"follower of job \"b\": must have a trigger": func(l ledger.Ledger) error {
			_, err := l.Claim(ctx, h, store.ClaimID{}, []store.Claim{{Key: key("a", 0), State: jobs.Running, Then: []store.Follower{{Key: key("b", 0)}}}})
			return err
		},
		`job "b": trigger 9223372036854775808`: func(l ledger.Ledger) error {
			_, err := l.Move(ctx, h, []store.Move{{Key: key("a", 0), From: jobs.Running, To: jobs.Failed, Then: []store.Follower{{Key: key("b", large)}}}})
			return err
		},
		`job "c": trigger 9223372036854775808`: func(l ledger.Ledger) error {
			_, err := l.Trigger(ctx, "g", "c", jobs.Request{Trigger: large})
			return err
		},
		`group "a b"`: func(l ledger.Ledger) error { return l.Pause(ctx, "a b", "") },
		"no such run": func(l ledger.Ledger) error { return l.Cancel(ctx, "g", key("a", large)) },
		"backfill of job \"a\": its text has 20001 bytes: at most 20000": func(l ledger.Ledger) error {
			_, err := l.Trigger(ctx, "g", "a", jobs.Request{Backfill: strings.Repeat("x", 20_001)})
			return err
		},
		"must be of whole microseconds": func(l ledger.Ledger) error {
			_, err := l.Trigger(ctx, "g", "a", jobs.Request{Tick: noon.Add(1)})
			return err
		},
	} {
		check(what, call)
	}
	for what, change := range map[string]func(*store.Move){
		"from state failed":     func(m *store.Move) { m.From = jobs.Failed },
		"to state State(0)":     func(m *store.Move) { m.To = 0 },
		"to state State(10)":    func(m *store.Move) { m.To = jobs.Interrupted + 1 },
		"verdict 3: there":      func(m *store.Move) { m.Verdict = store.JobFails + 1 },
		"attempt -1: must not":  func(m *store.Move) { m.Attempt = -1 },
		"of whole microseconds": func(m *store.Move) { m.Tick = m.Tick.Add(1) },
	} {
		check(what, func(l ledger.Ledger) error {
			m := store.Move{Key: key("a", 0), From: jobs.Waiting, To: jobs.Running}
			change(&m)
			_, err := l.Move(ctx, h, []store.Move{m})
			return err
		})
	}
}
