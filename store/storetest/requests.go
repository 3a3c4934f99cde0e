package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// requestCases are for what a leader learns with its heartbeat ([store.Heartbeats]) and
// by its signal ([store.RequestSignals]).
var requestCases = []ledgerCase{
	{"requests/Beat renews, and tells the clock and the server", func(e *ledgerEnv) {
		s, h, beat := e.beats()
		before := e.now()
		r := beat(2, 1, e.changes(group))
		if !r.Renewed || r.Asked {
			e.Errorf("Beat when nothing was asked: %+v", r)
		}
		e.between(r.Now, before, "the database's clock, by Beat")
		changes, err := s.Changes(e.ctx(), group)
		e.ok(err, "Changes")
		if !e.h.ManyServers && r.Server != changes.Server {
			e.Errorf("Beat says that server %q answered, and Changes %q", r.Server, changes.Server)
		}
		l := e.lease()
		if l.Heartbeat != 2 || l.Token != h.Token || l.RenewedAt.Before(before) {
			e.Errorf("after Beat the row is %s", showLease(l))
		}
		if r := beat(3, 2, e.changes(group)); !r.Renewed {
			e.Errorf("the next Beat: %+v", r)
		}
	}},

	{"requests/Beat compares what Renew does", func(e *ledgerEnv) {
		s, h, _ := e.beats()
		right := store.Renewal{Group: group, Token: h.Token, Heartbeat: 1}
		was := showLease(e.lease())
		for what, wrong := range map[string]struct {
			owner  string
			change func(*store.Renewal)
		}{
			"another owner":       {bob, func(*store.Renewal) {}},
			"no owner":            {"", func(*store.Renewal) {}},
			"another group":       {alice, func(r *store.Renewal) { r.Group = "other" }},
			"a newer token":       {alice, func(r *store.Renewal) { r.Token++ }},
			"an older token":      {alice, func(r *store.Renewal) { r.Token-- }},
			"another heartbeat":   {alice, func(r *store.Renewal) { r.Heartbeat++ }},
			"a request to resign": {alice, func(r *store.Renewal) { r.ResignAsked = true }},
		} {
			r := right
			wrong.change(&r)
			beat, err := s.(store.Heartbeats).Beat(e.ctx(), wrong.owner, 2, r, 0)
			e.ok(err, "Beat")
			if beat.Renewed || showLease(e.lease()) != was {
				e.Errorf("Beat with %s: %+v, and the row is %s", what, beat, showLease(e.lease()))
			}
		}
		e.ok(s.AskResign(e.ctx(), group, h.Token), "AskResign")
		beat, err := s.(store.Heartbeats).Beat(e.ctx(), alice, 2, right, 0)
		e.ok(err, "Beat")
		if beat.Renewed {
			e.Error("Beat by a holder that does not know that it was asked to resign")
		}
		right.ResignAsked = true
		if beat, err = s.(store.Heartbeats).Beat(e.ctx(), alice, 2, right, 0); err != nil || !beat.Renewed {
			e.Errorf("Beat by a holder that knows that it was asked to resign: %+v, %v", beat, err)
		}
		e.ok(s.Release(e.ctx(), group, alice, h.Token), "Release")
		right.Heartbeat = 2
		if beat, err = s.(store.Heartbeats).Beat(e.ctx(), alice, 3, right, 0); err != nil || beat.Renewed {
			e.Errorf("Beat after the release: %+v, %v", beat, err)
		}
	}},

	{"requests/Beat tells of each request", func(e *ledgerEnv) {
		s, _, beat := e.beats()
		e.ok(s.Pause(e.ctx(), "another", ""), "Pause of another group")
		heartbeat := uint64(1)
		for _, r := range e.requests(s) {
			known := e.changes(group)
			r.ask()
			for range 2 { // until it is known
				if b := beat(heartbeat+1, heartbeat, known); !b.Renewed || !b.Asked {
					e.Errorf("Beat after %s: %+v", r.what, b)
				}
				heartbeat++
			}
			if b := beat(heartbeat+1, heartbeat, e.changes(group)); !b.Renewed || b.Asked {
				e.Errorf("Beat when %s is known: %+v", r.what, b)
			}
			heartbeat++
		}
		known := e.changes(group)
		e.ok(s.Pause(e.ctx(), "other", ""), "Pause of another group")
		if b := beat(heartbeat+1, heartbeat, known); b.Asked {
			e.Errorf("Beat after a request in another group: %+v", b)
		}
	}},

	{"requests/the signal comes with each request", func(e *ledgerEnv) {
		s, h, _ := e.beats()
		e.ok(s.Pause(e.ctx(), "another", ""), "Pause of another group")
		signal := e.requestSignal(s, h.Token)
		other := e.open()
		for _, r := range e.requests(other) {
			asked := e.waitForRequest(signal, new(e.changes(group)))
			e.stillWaitsForRequest(asked)
			r.ask()
			e.wantRequest(asked, r.what)
		}
		asked := e.waitForRequest(signal, new(e.changes(group)))
		e.stillWaitsForRequest(asked)
		e.ok(other.AskResign(e.ctx(), group, h.Token), "AskResign")
		e.wantRequest(asked, "AskResign")
		e.wantRequest(e.waitForRequest(signal, nil), "AskResign, again")
	}},

	{"requests/the signal comes for what was asked before", func(e *ledgerEnv) {
		s, h, _ := e.beats()
		signal := e.requestSignal(s, h.Token)
		other := e.open()
		for _, r := range e.requests(other) {
			known := e.changes(group)
			r.ask()
			e.wantRequest(e.waitForRequest(signal, &known), r.what)
		}
		known := e.changes(group) + 1
		e.wantRequest(e.waitForRequest(signal, &known), "a request that was taken back")
		e.ok(other.AskResign(e.ctx(), group, h.Token), "AskResign")
		e.wantRequest(e.waitForRequest(signal, nil), "AskResign")
	}},

	{"requests/a holder without a ledger waits for a request to resign alone", func(e *ledgerEnv) {
		s, h, _ := e.beats()
		signal := e.requestSignal(s, h.Token)
		e.ok(s.Pause(e.ctx(), group, ""), "Pause")
		asked := e.waitForRequest(signal, nil)
		e.stillWaitsForRequest(asked)
		e.ok(e.open().AskResign(e.ctx(), group, h.Token), "AskResign")
		e.wantRequest(asked, "AskResign")
	}},

	{"requests/each term waits for its own", func(e *ledgerEnv) {
		s, old, _ := e.beats()
		earlier := e.requestSignal(s, old.Token)
		e.ok(s.AskResign(e.ctx(), group, old.Token), "AskResign")
		h := e.take(s, group, bob)
		before := e.waitForRequest(earlier, new(e.changes(group)))
		e.stillWaitsForRequest(before)
		if e.h.Update != nil {
			like := *e.lease() // another group has a term of the same number
			like.ResignAsked = true
			e.h.Update(e.TB, otherOne, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return &like, nil })
		}
		later := e.waitForRequest(e.requestSignal(s, h.Token), new(e.changes(group)))
		e.stillWaitsForRequest(later)
		e.ok(e.open().AskResign(e.ctx(), group, h.Token), "AskResign")
		e.wantRequest(later, "AskResign of the present term")
		e.stillWaitsForRequest(before)
	}},

	{"requests/a context ends the wait", func(e *ledgerEnv) {
		s, h, _ := e.beats()
		signal := e.requestSignal(s, h.Token)
		ctx, cancel := context.WithCancel(e.ctx())
		known := e.changes(group)
		w := beginRequestWait(func() error { return signal.Wait(ctx, &known) })
		e.stillWaitsForRequest(w)
		cancel()
		select {
		case err := <-w.ended:
			if !errors.Is(err, context.Canceled) {
				e.Errorf("Wait: %v, want its context's error", err)
			}
		case <-e.ctx().Done():
			e.Fatal("Wait goes on after its context has ended")
		}
		e.ok(signal.Close(), "Close")
		e.ok(signal.Close(), "Close, again")
		soon, cancel := context.WithTimeout(e.ctx(), 4*moment)
		defer cancel()
		if err := signal.Wait(soon, nil); err == nil || soon.Err() != nil {
			e.Errorf("Wait after Close: error %v, want one at once", err)
		}
	}},
}

// beats begins a term of alice with two jobs, and returns what sends its heartbeats.
func (e *ledgerEnv) beats() (s store.Jobs, h store.Holder, beat func(heartbeat, before, known uint64) store.Beat) {
	e.Helper()
	s = e.open()
	beats, ok := s.(store.Heartbeats)
	if !ok {
		e.Skip("left out: the store has no Heartbeats")
	}
	h = e.begin(s)
	return s, h, func(heartbeat, before, known uint64) store.Beat {
		e.Helper()
		r, err := beats.Beat(e.ctx(), alice, heartbeat, store.Renewal{Group: group, Token: h.Token, Heartbeat: before}, known)
		e.ok(err, "Beat")
		return r
	}
}

func (e *ledgerEnv) lease() *store.Lease {
	e.Helper()
	rs, err := e.watch.Read(e.ctx(), group)
	e.ok(err, "Read")
	return rs[0].Lease
}

// request is something that is asked of a leader.
type request struct {
	what string
	ask  func()
}

func (e *ledgerEnv) requests(s store.Jobs) []request {
	var key jobs.Key
	return []request{
		{"Pause of a job", func() { e.ok(s.Pause(e.ctx(), group, report), "Pause") }},
		{"Resume of a job", func() { e.ok(s.Resume(e.ctx(), group, report), "Resume") }},
		{"Pause of the group", func() { e.ok(s.Pause(e.ctx(), group, ""), "Pause") }},
		{"ResumeSkipping of the group", func() { e.ok(s.ResumeSkipping(e.ctx(), group, ""), "ResumeSkipping") }},
		{"Trigger", func() {
			var err error
			key, err = s.Trigger(e.ctx(), group, cleanup, jobs.Request{})
			e.ok(err, "Trigger")
		}},
		{"Cancel", func() { e.ok(s.Cancel(e.ctx(), group, key), "Cancel") }},
	}
}

func (e *ledgerEnv) requestSignal(s store.Jobs, token uint64) store.RequestSignal {
	e.Helper()
	signals, ok := s.(store.RequestSignals)
	if !ok {
		e.Skip("left out: the store has no RequestSignals")
	}
	signal := signals.RequestSignal(group, token)
	e.Cleanup(func() { _ = signal.Close() })
	return signal
}

// requestWait is a Wait for a request.
type requestWait struct {
	wait  func() error
	ended chan error
}

func (e *ledgerEnv) waitForRequest(signal store.RequestSignal, known *uint64) *requestWait {
	ctx, cancel := context.WithCancel(e.ctx())
	e.Cleanup(cancel)
	return beginRequestWait(func() error { return signal.Wait(ctx, known) })
}

func beginRequestWait(wait func() error) *requestWait {
	w := &requestWait{wait, make(chan error, 1)}
	go func() { w.ended <- wait() }()
	return w
}

// stillWaitsForRequest gives the wait time to begin. The signal may come for nothing, but not
// each time: it is waited for again. A store that signals for nothing, but later, passes.
func (e *ledgerEnv) stillWaitsForRequest(w *requestWait) {
	e.Helper()
	for range spurious {
		select {
		case err := <-w.ended:
			e.ok(err, "Wait")
			go func() { w.ended <- w.wait() }()
		case <-time.After(4 * moment):
			return
		}
	}
	e.Fatalf("Wait returned %d times although nothing was asked", spurious)
}

func (e *ledgerEnv) wantRequest(w *requestWait, what string) {
	e.Helper()
	select {
	case err := <-w.ended:
		e.ok(err, "Wait for "+what)
	case <-e.ctx().Done():
		e.Fatalf("the signal did not come: %s", what)
	}
}
