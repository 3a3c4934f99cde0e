package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var (
	historyJobs   = []string{report, cleanup, "unknown"}
	historyOwners = []string{alice, bob}
)

// historyCall is one call, which may be carried out late, or again.
type historyCall struct {
	text string
	do   func(*side) (any, error)
	// changes compares whether the number of [store.Ledger.Changes] has changed. Without it, that of the store may
	// change where it need not.
	changes bool
}

// draw draws a call.
func (h *history) draw() historyCall {
	calls := []func() historyCall{
		h.claim, h.claim, h.claim, h.claim, h.move, h.move, h.move, h.move, h.trigger, h.trigger, h.request, h.request, h.cancel,
		func() historyCall { return h.takeOver(h.owner()) }, h.session,
		func() historyCall { return h.declare(h.declarer(), h.declared()) }, h.switches,
		h.passOver, h.prune, h.gone, h.forget, h.note,
	}
	return rapid.SampledFrom(calls).Draw(h.random, "call")()
}

func (h *history) owner() string { return rapid.SampledFrom(historyOwners).Draw(h.random, "owner") }
func (h *history) job() string   { return rapid.SampledFrom(historyJobs).Draw(h.random, "job") }
func (h *history) tick() int     { return rapid.IntRange(0, 6).Draw(h.random, "tick") }
func (h *history) some() bool    { return rapid.IntRange(0, 3).Draw(h.random, "some") == 0 }
func (h *history) rarely() bool  { return rapid.IntRange(0, 19).Draw(h.random, "rarely") == 0 }

func (h *history) delay() time.Duration {
	return time.Duration(rapid.IntRange(0, 2).Draw(h.random, "hours")) * time.Hour
}

func (h *history) text() string {
	return rapid.SampledFrom([]string{"", "paused", "late"}).Draw(h.random, "text")
}

func (h *history) args() json.RawMessage {
	return rapid.SampledFrom([]json.RawMessage{nil, nil, json.RawMessage(`{}`), json.RawMessage(`{"a": 1}`)}).Draw(h.random, "args")
}

func (h *history) backfill() string {
	return rapid.SampledFrom([]string{"", "", `{"until":"2027"}`}).Draw(h.random, "backfill")
}

// historyTerm is a term of the group, or of the session of its owner.
type historyTerm struct {
	owner   string
	session bool
}

// historyHolder is the holder of a term, by its number: each store has tokens of its own.
type historyHolder struct {
	term    int
	owner   string
	session bool // the holder has a session: the term may be one of those
	assigns bool
	cluster string
}

func (h historyHolder) on(s *side) store.Holder {
	of := store.Holder{Group: s.group, Owner: h.owner, Token: s.tokens[h.term], Assigns: h.assigns, Cluster: h.cluster}
	if h.session {
		of.Session = store.SessionGroup(h.owner)
	}
	return of
}

// at is the holder with a server: none, the one that answers, or another one.
func (h historyHolder) at(s *side, which string) store.Holder {
	of := h.on(s)
	of.Server = map[string]string{"own": s.server, "other": "another server"}[which]
	return of
}

// holder is mostly that of the term.
func (h *history) holder() historyHolder { return h.holderOf(false) }

// claimer is a holder that may assign.
func (h *history) claimer() historyHolder {
	of := h.holder()
	of.assigns = h.spreads && rapid.Bool().Draw(h.random, "assigns")
	return of
}

// declarer is a claimer, which may know its cluster.
func (h *history) declarer() historyHolder {
	of := h.claimer()
	if of.assigns {
		of.cluster = rapid.SampledFrom([]string{"", "one", "another"}).Draw(h.random, "cluster")
	}
	return of
}

// mover is a claimer, or a replica under its session.
func (h *history) mover() historyHolder {
	of := h.claimer()
	if h.spreads && rapid.Bool().Draw(h.random, "session") {
		assigns := of.assigns
		of = h.holderOf(true)
		of.assigns = assigns
	}
	if h.rarely() {
		of.owner = h.owner()
	}
	return of
}

// holderOf is mostly that of the newest term of the group, or of a session.
func (h *history) holderOf(session bool) historyHolder {
	term := len(h.terms) - 1
	for term > 0 && h.terms[term].session != session {
		term--
	}
	if h.some() {
		term = h.anyTerm()
	}
	return historyHolder{term: term, owner: h.terms[term].owner, session: session}
}

func (h *history) anyTerm() int { return rapid.IntRange(0, len(h.terms)-1).Draw(h.random, "term") }

// assignee is a replica, by the number of the term of its session, or -1: nobody.
func (h *history) assignee() int {
	if term := h.anyTerm(); h.spreads && h.terms[term].session {
		return term
	}
	return -1
}

// assigneeOn is that assignee on a side.
func (h *history) assigneeOn(s *side, term int) store.Assignee {
	if term < 0 {
		return store.Assignee{}
	}
	return store.Assignee{Owner: h.terms[term].owner, Token: s.tokens[term]}
}

func (h *history) server() string {
	servers := []string{"any", "any", "any", "own", "other"}
	if h.anyServer {
		servers = servers[:4]
	}
	return rapid.SampledFrom(servers).Draw(h.random, "server")
}

func (h *history) takeOver(owner string) historyCall {
	return h.begin("a term of "+owner, historyTerm{owner: owner}, func(s *side) string { return s.group })
}

func (h *history) session() historyCall {
	owner := h.owner()
	return h.begin("a session of "+owner, historyTerm{owner, true}, func(*side) string { return store.SessionGroup(owner) })
}

func (h *history) begin(text string, term historyTerm, group func(*side) string) historyCall {
	return historyCall{text, func(s *side) (any, error) {
		taken, err := takeOver(s.ctx, s, group(s), term.owner)
		if s.tokens = append(s.tokens, taken.Token); s == h.model {
			h.terms = append(h.terms, term)
		}
		return taken, err
	}, true}
}

func (h *history) declare(of historyHolder, declared []store.Declared) historyCall {
	return historyCall{fmt.Sprintf("Declare of %+v %+v", of, declared), func(s *side) (any, error) {
		return nil, s.Declare(s.ctx, of.on(s), declared)
	}, true}
}

// switches gives the group a mode.
func (h *history) switches() historyCall {
	if !h.spreads {
		return h.note()
	}
	on := rapid.Bool().Draw(h.random, "spread")
	return historyCall{fmt.Sprintf("SetSpread %t", on), func(s *side) (any, error) { return nil, s.spreads.SetSpread(s.ctx, s.group, on) }, true}
}

func (h *history) declared() []store.Declared {
	var declared []store.Declared
	for _, job := range historyJobs[:2] {
		if !h.some() {
			declared = append(declared, store.Declared{
				Name: job, Schedule: rapid.SampledFrom([]string{"every 1m", "every 2m"}).Draw(h.random, "schedule"),
				From: rapid.SampledFrom([]time.Time{{}, tick(0), tick(3), tick(50 * 365 * 24 * 60)}).Draw(h.random, "from"),
				Now:  rapid.SampledFrom([]time.Time{{}, {}, tick(2), tick(5)}).Draw(h.random, "now"),
			})
		}
	}
	return declared
}

// followers have keys of their own, of which some were there before.
func (h *history) followers(n int) []store.Follower {
	var then []store.Follower
	for i := range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(h.random, "followers") {
		then = append(then, store.Follower{
			Key:   jobs.Key{Job: h.job(), Tick: tick(h.tick()), Trigger: 1<<53 + uint64(10*n+i)},
			Delay: h.delay(), Backfill: h.backfill(), Args: h.args(),
		})
	}
	return then
}

func (h *history) claim() historyCall {
	var id store.ClaimID
	copy(id[:], fmt.Sprint("id", len(h.calls)))
	var claims []store.Claim
	var to []int
	after := map[string]time.Time{}
	for _, job := range historyJobs {
		if h.some() {
			after[job] = tick(h.tick())
		}
	}
	for n := range rapid.IntRange(1, 3).Draw(h.random, "claims") {
		c := store.Claim{
			Key: key(h.job(), h.tick()), Delay: h.delay(), Error: h.text(), Missed: rapid.IntRange(0, 2).Draw(h.random, "missed"),
			State: rapid.SampledFrom([]jobs.State{jobs.Running, jobs.Waiting, jobs.Skipped, jobs.Skipped}).Draw(h.random, "state"),
		}
		switch {
		case h.some():
			c.Trigger = 1<<52 + uint64(h.tick())
		case h.some():
			c.Extends = tick(h.tick())
		}
		c.After = after[c.Job]
		if c.Then = h.followers(n); c.Then != nil {
			for i := range c.Then {
				c.Then[i].Args = nil // a claim has none
			}
		}
		if !slices.ContainsFunc(claims, func(other store.Claim) bool { return other.Key == c.Key }) {
			claims, to = append(claims, c), append(to, h.assignee())
		}
	}
	of, server := h.claimer(), h.server()
	return historyCall{fmt.Sprintf("Claim %s of %+v %+v for %v", id[:4], of, claims, to), func(s *side) (any, error) {
		claims := slices.Clone(claims)
		for i := range claims {
			claims[i].For = h.assigneeOn(s, to[i])
		}
		claimed, err := s.Claim(s.ctx, of.at(s, server), id, claims)
		return claimed, err
	}, !of.assigns}
}

// run is a run that there is, as it is, or another one; and its key on each side.
func (h *history) run() (jobs.Record, func(*side) jobs.Key) {
	runs, err := h.model.Runs(h.model.ctx, h.model.group, jobs.Filter{Limit: all})
	if err != nil {
		h.Fatalf("%v", err)
	}
	var r jobs.Record
	if len(runs) == 0 || h.some() {
		r.Key = key(h.job(), h.tick())
	} else {
		r = rapid.SampledFrom(runs).Draw(h.random, "run")
	}
	for n, k := range h.model.manual {
		if k == r.Key {
			return r, func(s *side) jobs.Key { return cmp.Or(s.manual[n], key(report, 99)) }
		}
	}
	if !r.Tick.Equal(tick(int(r.Tick.Sub(tick(0)) / time.Minute))) {
		r.Key = key(report, 98) // one that was asked for again: it has another instant on each side
	}
	if term := slices.Index(h.model.tokens, r.Trigger); term > 0 { // PassOver gave it that
		return r, func(s *side) jobs.Key { return jobs.Key{Job: r.Job, Tick: r.Tick, Trigger: s.tokens[term]} }
	}
	return r, func(*side) jobs.Key { return r.Key }
}

func (h *history) move() historyCall {
	type one struct {
		store.Move
		term int // whose token it expects
		to   int // the assignee
		key  func(*side) jobs.Key
	}
	var list []one
	states := []jobs.State{jobs.Running, jobs.Waiting, jobs.Succeeded, jobs.Failed, jobs.Skipped, jobs.Cancelled, jobs.Interrupted}
	for n := range rapid.IntRange(1, 3).Draw(h.random, "moves") {
		r, of := h.run()
		m, term := to(rapid.SampledFrom(states).Draw(h.random, "to"), r), -1
		if r.Token != 0 {
			term = slices.Index(h.model.tokens, r.Token)
		}
		m.Delay, m.Error, m.Then = h.delay(), h.text(), h.followers(n)
		m.Verdict = rapid.SampledFrom([]store.Verdict{store.NoVerdict, store.JobWorks, store.JobFails}).Draw(h.random, "verdict")
		m.Unbegun = rapid.IntRange(0, 2).Draw(h.random, "unbegun")
		m.Output = rapid.SampledFrom([][]byte{nil, nil, []byte("done")}).Draw(h.random, "output")
		m.NotBefore = rapid.SampledFrom([]time.Time{{}, {}, tick(0), tick(0).AddDate(100, 0, 0)}).Draw(h.random, "not before")
		if r.State == 0 || r.State.Over() || h.some() {
			m.From = rapid.SampledFrom(states[:2]).Draw(h.random, "from")
		}
		switch rapid.IntRange(1, 12).Draw(h.random, "expects") {
		case 1:
			m.Attempt++
		case 2:
			m.Owner = h.owner()
		case 3:
			term = h.anyTerm()
		}
		m.Token = 0
		if !slices.ContainsFunc(list, func(other one) bool { return other.Key == m.Key }) {
			list = append(list, one{m, term, h.assignee(), of})
		}
	}
	of, server := h.mover(), h.server()
	return historyCall{fmt.Sprintf("Move of %+v %+v", of, list), func(s *side) (any, error) {
		var moves []store.Move
		for _, one := range list {
			one.Key = one.key(s)
			if one.term >= 0 {
				one.Token = s.tokens[one.term]
			}
			one.For = h.assigneeOn(s, one.to)
			moves = append(moves, one.Move)
		}
		moved, err := s.Move(s.ctx, of.at(s, server), moves)
		return moved, err
	}, false}
}

func (h *history) trigger() historyCall {
	job, n := h.job(), h.asked
	h.asked++
	r := jobs.Request{Args: h.args(), Backfill: h.backfill(), Note: h.text()}
	if !h.some() { // then it has a number as well: runs of one tick are in the order of their numbers
		r.Tick, r.Trigger = tick(h.tick()), 1+uint64(h.tick())
	}
	return historyCall{fmt.Sprintf("Trigger of %s %+v", job, r), func(s *side) (any, error) {
		k, err := s.Trigger(s.ctx, s.group, job, r)
		if err == nil {
			s.manual[n] = k
			s.chosen[k] = r.Trigger == 0
		}
		return k, err
	}, true}
}

func (h *history) request() historyCall {
	job := rapid.SampledFrom(append([]string{""}, historyJobs...)).Draw(h.random, "job or all")
	action := rapid.SampledFrom([]jobs.Action{jobs.ActionPause, jobs.ActionResume, jobs.ActionSkipping}).Draw(h.random, "action")
	return historyCall{fmt.Sprintf("%s of %q", action, job), func(s *side) (any, error) {
		return nil, map[jobs.Action]func(context.Context, string, string) error{
			jobs.ActionPause: s.Pause, jobs.ActionResume: s.Resume, jobs.ActionSkipping: s.ResumeSkipping,
		}[action](s.ctx, s.group, job)
	}, true}
}

func (h *history) cancel() historyCall {
	r, of := h.run()
	return historyCall{fmt.Sprintf("Cancel of %v", r.Key), func(s *side) (any, error) {
		return nil, s.Cancel(s.ctx, s.group, of(s))
	}, true}
}

func (h *history) passOver() historyCall {
	of, job, after := h.holder(), h.job(), tick(h.tick())
	return historyCall{fmt.Sprintf("PassOver of term %d %s after %v", of.term, job, after), func(s *side) (any, error) {
		n, err := s.PassOver(s.ctx, of.on(s), job, after)
		return n, err
	}, !h.spreads}
}

func (h *history) prune() historyCall {
	job, batch := h.job(), rapid.IntRange(0, 2).Draw(h.random, "batch")
	keep := jobs.History{
		Keep: rapid.IntRange(0, 3).Draw(h.random, "keep"),
		For:  rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Hour}).Draw(h.random, "for"),
	}
	return historyCall{fmt.Sprintf("Prune of %s %+v, %d at a time", job, keep, batch), func(s *side) (any, error) {
		n, err := s.Prune(s.ctx, s.group, job, keep, batch)
		return n, err
	}, true}
}

func (h *history) gone() historyCall {
	of, names := h.holder(), historyJobs[rapid.IntRange(0, 2).Draw(h.random, "first"):]
	return historyCall{fmt.Sprintf("Gone of term %d %v", of.term, names), func(s *side) (any, error) {
		if s.replicas != nil {
			return nil, s.replicas.Gone(s.ctx, of.on(s), names)
		}
		return nil, nil
	}, false}
}

func (h *history) forget() historyCall {
	job, wrong := h.job(), h.some()
	return historyCall{"Forget of " + job, func(s *side) (any, error) {
		if s.replicas == nil {
			return nil, nil
		}
		gone, err := s.replicas.GoneSince(s.ctx, s.group, job)
		if err != nil {
			return nil, err
		}
		if wrong {
			gone = gone.Add(time.Hour)
		}
		done, err := s.replicas.Forget(s.ctx, s.group, job, gone)
		return done, err
	}, false}
}

func (h *history) note() historyCall {
	ago := []time.Duration{0, time.Hour, 500 * 24 * time.Hour}
	note := store.TermNote{
		Over: h.some(), Early: h.some(), Why: h.text(),
		Began: rapid.SampledFrom(ago).Draw(h.random, "began"), Ended: rapid.SampledFrom(ago).Draw(h.random, "ended"),
		Before: rapid.SampledFrom([]time.Time{{}, tick(0)}).Draw(h.random, "before"),
	}
	of, prunes := h.holder(), h.some()
	return historyCall{fmt.Sprintf("NoteTerm of term %d %+v, prunes: %t", of.term, note, prunes), func(s *side) (any, error) {
		if s.archive == nil {
			return nil, nil
		}
		if prunes {
			n, err := s.archive.PruneArchive(s.ctx, s.group, 0)
			return n, err
		}
		note.Holder = of.on(s)
		return nil, s.archive.NoteTerm(s.ctx, note)
	}, true}
}
