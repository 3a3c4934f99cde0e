package ledger_test

import (
	"bytes"
	"encoding/gob"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// full returns a content that has something of everything, in order.
func full() *ledger.Content {
	run := func(minutes int, trigger uint64) *ledger.KeptRun {
		r := &ledger.KeptRun{Run: ledger.Run{ID: store.ClaimID{1}, Number: trigger + 1}}
		r.Job, r.Tick, r.Trigger = "a", noon.Add(time.Duration(minutes)*time.Minute), trigger
		r.Claimed = noon
		return r
	}
	runs := []*ledger.KeptRun{run(1, 0), run(1, 1), run(2, 0)}
	runs[1].Args, runs[1].HasArgs, runs[1].Error = []byte(` { "a" : "<" } `), true, "\xff"
	runs[2].Attempts = []jobs.Attempt{{Number: 1, Started: noon, Output: []byte("x")}}
	c := ledger.NewContent()
	c.Group = ledger.Group{Changes: 1, Paused: true, Pauses: []jobs.Pause{{Began: noon}}, Opened: jobs.Opened{Token: 2, At: noon}, LastEntry: 3, LastRun: 4}
	c.Jobs["a"] = ledger.Job{Known: jobs.Known{Schedule: "every 1m", Since: noon}, Pauses: []jobs.Pause{{Began: noon, Ended: noon}}}
	c.Runs["a"] = runs
	c.Audit = []jobs.AuditEntry{{ID: 1, At: noon}, {ID: 2}, {ID: 3}}
	c.Terms = []jobs.Term{{Token: 1, Began: noon}, {Token: 2}, {Token: 3}}
	return c
}

// A content that was put together from parts in any order is as one that was not.
func TestSort(t *testing.T) {
	t.Parallel()
	c := full()
	slices.Reverse(c.Runs["a"])
	slices.Reverse(c.Audit)
	slices.Reverse(c.Terms)
	c.Sort()
	if want := full(); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// What encoding/gob writes is read as it was: stores keep contents so.
func TestGob(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]*ledger.Content{"full": full(), "empty": ledger.NewContent()} {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(c); err != nil {
			t.Fatal(err)
		}
		got := ledger.NewContent()
		if err := gob.NewDecoder(&b).Decode(got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, want %+v", what, got, c)
		}
	}
}
