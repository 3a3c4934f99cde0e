package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

var (
	mine   = process{Group: "locks/mine", Token: 5}
	theirs = process{Group: "locks/theirs", Token: 5, Owner: "theirs"}
)

// given is the place of a process: the first one, granted under that token.
func given(of int, id string, token uint64) place { return place{ID: id, Process: of, Granted: token} }

// requested is a request in a session that goes on.
func requested(n *name, id string, in state) *request {
	r := &request{
		name: n, place: place{ID: id}, state: in, session: &session{},
		decided: make(chan struct{}), left: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	n.add(r)
	return r
}

// What a row and the requests of its lock say of each other.
func TestRequestsAndTheirRow(t *testing.T) {
	t.Parallel()
	both := []process{mine, theirs}
	for _, test := range []struct {
		name                       string
		places                     []place
		states                     map[string]state
		waits                      string
		isPending, hasOrphan       bool
		swept                      string // the places that stay
		joins                      int
		over, sessionOver, unknown bool
	}{
		{name: "nothing"},
		{name: "a request", states: map[string]state{"a": wanted}, isPending: true, joins: 1},
		{name: "a place that waits", places: []place{given(1, "x", 3), given(0, "a", 0)}, states: map[string]state{"a": wanted}, waits: "a", swept: "x a"},
		{name: "behind a place of its own", places: []place{given(0, "b", 3), given(0, "a", 0)}, states: map[string]state{"a": wanted, "b": held}, waits: "a", swept: "b a"},
		{name: "a holder", places: []place{given(0, "a", 3)}, states: map[string]state{"a": held}, swept: "a"},
		{name: "one that leaves", places: []place{given(0, "a", 3)}, states: map[string]state{"a": leaving}, isPending: true},
		{name: "one that left", states: map[string]state{"a": leaving}, isPending: true},
		{name: "a lost unlock", places: []place{given(0, "b", 3)}, hasOrphan: true},
		{name: "beside a holder", places: []place{given(0, "a", 3), given(0, "b", 0)}, states: map[string]state{"a": held}, hasOrphan: true, swept: "a"},
		{name: "places of others", places: []place{given(1, "x", 3), given(1, "y", 0)}, swept: "x y"},
		{name: "of a session that is over", places: []place{given(1, "x", 3), given(0, "a", 0)}, states: map[string]state{"a": wanted}, over: true, waits: "a", swept: "a"},
		{name: "an unknown row", places: []place{given(1, "x", 3), given(0, "a", 0)}, states: map[string]state{"a": wanted}, unknown: true, swept: "x a"},
		{name: "without a session", places: []place{given(1, "x", 3)}, states: map[string]state{"a": wanted, "b": leaving}, sessionOver: true, swept: "x"},
		{name: "a place of it", places: []place{given(0, "a", 0)}, states: map[string]state{"a": wanted}, sessionOver: true, swept: "a"},
	} {
		n := &name{text: "stock"}
		for _, id := range []string{"a", "b"} {
			if in, ok := test.states[id]; ok {
				requested(n, id, in).session.over = test.sessionOver
			}
		}
		n.row.read(1, queue{both, test.places}, 0, time.Minute)
		if test.unknown {
			n.row.forget(false)
		}
		waits := ""
		if p := n.waits(); p != nil {
			waits = p.ID
		}
		if waits != test.waits || n.isPending() != test.isPending || n.hasOrphan(mine.sessionID()) != test.hasOrphan {
			t.Errorf("%s: waits %q, pending %v, an orphan %v", test.name, waits, n.isPending(), n.hasOrphan(mine.sessionID()))
		}
		q := n.row.shown().clone()
		changed := n.sweep(&q, mine.sessionID(), func(id sessionID) bool { return test.over && id == theirs.sessionID() })
		var ids []string
		for _, p := range q.Places {
			ids = append(ids, p.ID)
		}
		if got := strings.Join(ids, " "); got != test.swept || changed != (len(ids) < len(test.places)) {
			t.Errorf("%s: %q stay, changed %v, want %q", test.name, got, changed, test.swept)
		}
		before := len(q.Places)
		if joined, busy := n.join(&q, mine, false, 9); joined != (test.joins > 0) || len(busy) > 0 || len(q.Places)-before != test.joins {
			t.Errorf("%s: joined %v, %d places, %d busy", test.name, joined, len(q.Places)-before, len(busy))
		}
	}
}

// Who may not join a queue.
func TestRequestsThatAreTurnedAway(t *testing.T) {
	t.Parallel()
	full := queue{[]process{theirs}, make([]place, placesMost)}
	for i := range full.Places {
		full.Places[i] = place{ID: fmt.Sprint("x", i), Read: true}
	}
	almost := queue{full.Processes, full.Places[1:]}
	taken, read := queue{[]process{theirs}, []place{given(0, "x", 3)}}, queue{[]process{theirs}, []place{{ID: "x", Read: true}}}
	for _, test := range []struct {
		name              string
		queue             queue
		try, read, barred bool
		want              bool
	}{
		{"a try of a free lock", queue{}, true, false, false, true},
		{"a try of a barred lock", queue{}, true, false, true, false},
		{"a wait for a barred lock", queue{}, false, false, true, true},
		{"a try of a taken lock", taken, true, false, false, false},
		{"a wait for a taken lock", taken, false, false, false, true},
		{"a reader's try beside readers", read, true, true, false, true},
		{"a writer's try beside readers", read, true, false, false, false},
		{"the last place", almost, false, true, false, true},
		{"no place", full, false, true, false, false},
	} {
		n := &name{}
		r := requested(n, "a", wanted)
		r.try, r.Read = test.try, test.read
		q := test.queue.clone()
		joined, busy := n.join(&q, mine, test.barred, 9)
		if joined != test.want || (len(busy) == 0) != test.want || test.want && r.Since != 9 {
			t.Errorf("%s: joined %v, busy %d, since %d", test.name, joined, len(busy), r.Since)
		}
	}
}

// newTestRows is what a client knows, without a client.
func newTestRows() *rows {
	var mu sync.Mutex
	timing, _ := lease.Timing{}.Complete()
	return newRows(&mu, zap.NewNop(), timing, newNotifier(newBackground(time.Second), zap.NewNop(), &mu), mine)
}

// What was not used for an hour is dropped, unless it is in use or will be written.
func TestTidy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rs := newTestRows()
		requested(rs.name("requested"), "a", wanted)
		rs.rounds.touch(rs.name("written"))
		rs.rounds.take(false)
		rs.rounds.touch(rs.name("due"))
		rs.name("idle")
		rs.sight.ended(theirs)
		time.Sleep(tidyEvery)
		rs.name("used")
		other := process{Group: "locks/other", Token: 1}
		rs.sight.ended(other)
		rs.tidy()
		if len(rs.names) != 5 || !rs.sight.isOver(theirs.sessionID()) {
			t.Errorf("%d names are left after an hour", len(rs.names))
		}
		time.Sleep(time.Nanosecond)
		rs.tidy()
		var left []string
		for text := range rs.names {
			left = append(left, text)
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != "due requested used written" {
			t.Errorf("left are %q", got)
		}
		if rs.sight.isOver(theirs.sessionID()) || !rs.sight.isOver(other.sessionID()) {
			t.Error("not the sessions that no waiter found over for an hour")
		}
	})
}

// Only rows that have a place of a session which is over are written for it.
func TestReleaseDead(t *testing.T) {
	t.Parallel()
	rs := newTestRows()
	for text, of := range map[string]process{"dead": theirs, "living": mine} {
		rs.name(text).row.read(1, queue{[]process{of}, []place{given(0, "x", 3)}}, 0, time.Minute)
	}
	rs.releaseDead(theirs)
	if !rs.name("dead").turn.isDue() || rs.name("living").turn.isDue() {
		t.Errorf("due: %v of the dead, %v of the living", rs.name("dead").turn.isDue(), rs.name("living").turn.isDue())
	}
}

// What is said of a lock that was waited for in vain.
func TestWhy(t *testing.T) {
	t.Parallel()
	rs := newTestRows()
	n := rs.name("stock")
	r := requested(n, "a", wanted)
	is := func(want string) {
		t.Helper()
		if got := rs.why(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	is("")
	n.row.read(1, queue{[]process{mine, theirs}, []place{given(1, "x", 0), given(0, "a", 0)}}, 0, time.Minute)
	is("") // after a restart, the first one may wait too
	n.row.read(2, queue{[]process{mine, theirs}, []place{given(1, "x", 7), given(0, "a", 0)}}, 0, time.Minute)
	is(" (held by theirs under token 7)")
	n.row.read(3, queue{[]process{mine}, []place{given(0, "a", 8)}}, 0, time.Minute)
	is("")
	rs.rounds.setAside(n)
	is(" (another transaction keeps its row locked)")
	rs.rounds.noted(errNoClient)
	is(" (the database: " + errNoClient.Error() + ")")
	rs.rounds.noted(nil)
	rs.rounds.failed(round{[]*name{n}, true}, ErrBusy, false)
	is(" (the database: " + ErrBusy.Error() + ")")
}

// The locks that are waited for, with and without a session.
func TestWaiting(t *testing.T) {
	t.Parallel()
	rs := newTestRows()
	add := func(text string, in state) *name {
		n := rs.name(text)
		requested(n, text, in)
		rs.requests.active[n] = true
		n.row.read(1, queue{[]process{mine}, []place{given(0, text, 0)}}, 0, time.Minute)
		return n
	}
	add("waits", wanted)
	add("left", leaving)
	rs.rounds.touch(add("written", wanted))
	rs.rounds.take(false)
	is := func(when string, names int, want ...store.LockWatch) {
		t.Helper()
		got, watches := rs.requests.waiting()
		if len(got) != names || len(watches) != len(want) || len(want) > 0 && watches[0].Name != want[0].Name {
			t.Errorf("%s: %d names, and %v", when, len(got), watches)
		}
	}
	is("before a session", 1, store.LockWatch{Name: "waits"})
	rs.requests.session = &session{}
	is("in a session", 1, store.LockWatch{Name: "waits"})
	rs.requests.session.over = true
	for n := range rs.requests.locks() {
		for _, r := range n.all() {
			r.session = nil
		}
	}
	is("between two sessions", 1)
}

// Names that are not used any more are kept, but not more than a certain number, unless what was seen of
// their rows still matters.
func TestNamesThatAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rs := newTestRows()
		show := func(text string, versions ...uint64) {
			for _, version := range versions {
				rs.name(text).row.read(version, oneHolder(), 0, time.Minute)
			}
		}
		show("back", 2, 1)
		show("old", 1)
		time.Sleep(pruneIdle*9/10 - 1)
		show("seen", 1)
		requested(rs.name("requested"), "a", wanted)
		is := func(when string, want ...string) {
			t.Helper()
			for i := len(rs.names); i < rs.room; i++ {
				rs.name(fmt.Sprint(when, i))
			}
			if len(rs.names) < namesMost {
				t.Errorf("%s: only %d names are kept", when, len(rs.names))
			}
			time.Sleep(time.Nanosecond)
			rs.name(when)
			for _, text := range []string{"back", "old", "requested", "seen"} {
				if got := rs.names[text] != nil; got != slices.Contains(want, text) {
					t.Errorf("%s: %q is kept: %v", when, text, got)
				}
			}
			if len(rs.names) != len(want)+1 {
				t.Errorf("%s: %d names are kept", when, len(rs.names))
			}
		}
		is("after 9 s", "back", "requested", "seen")
		show("old", 1)
		is("seen again", "back", "old", "requested", "seen")
		time.Sleep(pruneIdle * 9 / 10)
		is("after 18 s", "back", "requested")
		time.Sleep(time.Minute)
		is("after a minute", "requested")
	})
}

// The rows that are looked at without a waiter, and until when.
func TestReread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rs := newTestRows()
		is := func(when, want string) {
			t.Helper()
			var got []string
			for _, n := range rs.reread() {
				got = append(got, n.text)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		write := func(n *name) { n.row.written(store.LockWrite{Version: n.row.next()}, queue{}) }
		read := func(n *name, sent time.Time, q queue) {
			reading := store.LockReading{Rows: []store.LockRow{{Version: n.row.next(), Queue: q.encode()}}}
			rs.read([]*name{n}, []uint64{n.row.edition()}, reading, sent, time.Now(), false)
		}
		rs.name("idle")
		write(requested(rs.name("waits"), "a", wanted).name)
		n := rs.name("written")
		write(n)
		first := time.Now()
		is("written", "written")
		time.Sleep(rs.trust - 1)
		read(n, time.Now(), queue{})
		write(rs.name("later"))
		is("read early", "later written")
		time.Sleep(time.Nanosecond)
		for i := range idleMost + 1 {
			write(rs.name(fmt.Sprint("new/", i)))
		}
		if all := rs.reread(); len(all) != 1+idleMost || all[0] != n {
			t.Errorf("of many that were written, the %d at first, beginning with %q", len(all), all[0].text)
		}
		read(n, first.Add(rs.trust-1), queue{})
		if all := rs.reread(); all[0] != n {
			t.Error("a reading that was sent too early counts")
		}
		read(n, time.Time{}, queue{})
		if all := rs.reread(); all[0] != n {
			t.Error("a peek counts")
		}
		rs.requests.session = &session{held: &keeper.Held{}}
		read(n, time.Now(), queue{[]process{{Group: mine.Group}}, []place{given(0, "x", 3)}})
		if all := rs.reread(); all[0] != n {
			t.Error("a reading counts that shows a lost unlock")
		}
		read(n, time.Now(), queue{})
		time.Sleep(rs.trust)
		if all := rs.reread(); len(all) != 1+idleMost+1 || slices.Contains(all, n) {
			t.Errorf("%d are reread, among them one that is proven: %v", len(all), slices.Contains(all, n))
		}
		for text, n := range rs.names {
			if strings.HasPrefix(text, "new/") || text == "later" {
				read(n, time.Now(), queue{})
			}
		}
		is("all are proven", "")
		time.Sleep(time.Nanosecond)
		rs.name("idle")
		requested(rs.name("held"), "b", held)
		if all := rs.reread(); len(all) != 1+idleMost || all[0].text != "held" || all[1].text != "idle" {
			t.Errorf("beside a held one: %d", len(all))
		}
	})
}

// How long rows are pruned after the last one was left, and how long the database's clock is not read again.
func TestForHowLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rs := newTestRows()
		rs.sight.read(store.LockReading{}, time.Now())
		rs.leftovers.add()
		time.Sleep(pruneIdle + pruneIdle/10)
		if rs.leftovers.remain() {
			t.Error("rows that must be gone are pruned again")
		}
		time.Sleep(time.Minute - pruneIdle - pruneIdle/10)
		if rs.sight.isStale() {
			t.Error("the database's clock is read again too early")
		}
		time.Sleep(time.Nanosecond)
		if !rs.sight.isStale() {
			t.Error("the database's clock is not read again")
		}
	})
}
