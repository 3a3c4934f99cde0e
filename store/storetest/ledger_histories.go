package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// historyCases compare a store with the one ledger (internal/ledger), in memory: random calls, some of them late or
// repeated, get the same answers from both and leave the same rows behind. The other cases say what is right; this one
// finds the meetings of two rules that nobody has thought of.
var historyCases = []ledgerCase{
	{"histories/as the one ledger", func(e *ledgerEnv) {
		s := e.open()
		long := time.Duration(rounds.Of(e.TB, 2)) * time.Second
		if e.h.quick > 0 {
			long = 2 * time.Second
		}
		until := time.Now().Add(long)
		histories, failed := 0, false
		for histories == 0 || time.Now().Before(until) {
			rapid.Check(e.TB, func(t *rapid.T) {
				if !failed && histories > 0 && time.Now().After(until) {
					return // there is no time for more
				}
				histories++
				failed = true // until the history is over: rapid looks for a shorter one then
				var out rapid.TB = t
				if e.h.quick > 0 {
					out = e.TB // it ends the case at once, where rapid would look for a shorter history
				}
				playHistory(e.ctx(), t, out, e.h.AnyServer, s, fmt.Sprintf("history%d", histories))
				failed = false
			})
		}
		e.Logf("%d histories", histories)
	}},
}

// side is one of the two stores of a history.
type side struct {
	store.Jobs
	ctx     context.Context
	name    string
	group   string
	server  string
	marks   []time.Time // its clock before and after each call
	tokens  []uint64    // of its terms, the first one is nobody's
	changes uint64
	manual  map[int]jobs.Key  // the runs that were asked for
	chosen  map[jobs.Key]bool // the store has chosen their Trigger

	// Both nil where the store of the test has none.
	archive  store.Archive
	replicas store.Replicas
}

// historyCall is one call, which may be carried out late, or again.
type historyCall struct {
	text string
	do   func(*side) (any, error)
	// changes compares whether the number of [store.Ledger.Changes] has changed.
	changes bool
}

// history draws the calls.
type history struct {
	rapid.TB
	random       *rapid.T
	anyServer    bool // see [Harness.AnyServer]
	store, model *side
	calls        []historyCall
	owners       []string // of the terms
	asked        int      // for runs
}

var (
	historyJobs   = []string{report, cleanup, "unknown"}
	historyOwners = []string{alice, bob}
)

func playHistory(ctx context.Context, t *rapid.T, out rapid.TB, anyServer bool, s store.Jobs, group string) {
	h := &history{TB: out, anyServer: anyServer, random: t, owners: []string{alice}}
	begin := func(name string, s store.Jobs) *side {
		return &side{Jobs: s, ctx: ctx, name: name, group: group, tokens: []uint64{1}, manual: map[int]jobs.Key{}, chosen: map[jobs.Key]bool{}}
	}
	h.store, h.model = begin("the store", s), begin("the one ledger", memdb.New())
	_, archives := s.(store.Archive)
	_, registers := s.(store.Replicas)
	for _, s := range []*side{h.store, h.model} {
		if archives {
			s.archive, _ = s.Jobs.(store.Archive)
		}
		if registers {
			s.replicas, _ = s.Jobs.(store.Replicas)
		}
		rs, err := s.Read(ctx, group)
		if err != nil {
			h.Fatalf("%v", err)
		}
		s.server = rs[0].Server
	}
	h.carryOut(h.takeOver(alice))
	h.carryOut(h.declare(historyHolder{1, alice}, []store.Declared{{Name: report, Schedule: "every 1m"}, {Name: cleanup, Schedule: "every 1h"}}))
	for range rapid.IntRange(1, 30).Draw(t, "calls") {
		switch rapid.IntRange(0, 9).Draw(t, "when") {
		case 0: // late: a later one carries it out
			h.calls = append(h.calls, h.draw())
		case 1, 2:
			h.carryOut(rapid.SampledFrom(h.calls).Draw(t, "again"))
		default:
			h.carryOut(h.draw())
		}
	}
	h.compareRows()
}

// carryOut makes a call on both stores, and compares.
func (h *history) carryOut(c historyCall) {
	h.calls = append(h.calls, c)
	var answers [2]string
	var changed [2]bool
	for i, s := range []*side{h.model, h.store} {
		s.mark(h)
		before := s.changes
		answer, err := c.do(s)
		s.mark(h)
		changed[i] = s.changes != before
		if answers[i] = kindOf(err); err == nil || !isZero(answer) {
			answers[i] += " " + s.show(answer)
		}
		if strings.HasPrefix(answers[i], "other") {
			h.Fatalf("%s: %s: %v", c.text, s.name, err)
		}
	}
	h.Logf("%s: %s", c.text, answers[0])
	if answers[0] != answers[1] {
		h.compareRows()
		h.Fatalf("%s:\nthe store answers\n\t%s\nand the one ledger\n\t%s", c.text, answers[1], answers[0])
	}
	if c.changes && changed[0] != changed[1] {
		h.Fatalf("%s: the number of Changes has changed: in the store %t, in the one ledger %t", c.text, changed[1], changed[0])
	}
}

func isZero(answer any) bool {
	switch v := reflect.ValueOf(answer); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// kindOf tells the errors apart that the contract has.
func kindOf(err error) string {
	for _, known := range []error{store.ErrReplaced, store.ErrOtherServer, store.ErrChanged, jobs.ErrNoJob, jobs.ErrNoRun, jobs.ErrManyOpen} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "other"
	}
	return "ok"
}

// mark reads the clock and the number of changes. Of two instants of different calls, one is earlier.
func (s *side) mark(h *history) {
	pause := func() {
		for begin := time.Now(); time.Since(begin) < 5*time.Microsecond; {
			runtime.Gosched()
		}
	}
	pause()
	c, err := s.Changes(s.ctx, s.group)
	if err != nil {
		h.Fatalf("%s: Changes: %v", s.name, err)
	}
	s.marks, s.changes = append(s.marks, c.Now), c.Number
	pause()
}

// label gives an instant of the database's clock the number of the call in which it was, and leaves planned ones. All
// delays are whole hours, and no history takes one.
func (s *side) label(at time.Time) time.Time {
	first, last := s.marks[0], s.marks[len(s.marks)-1]
	if at.Year() < last.Year()-1 || at.Year() > last.Year()+1 {
		return at.UTC()
	}
	var shift time.Duration
	if at.After(last) {
		shift = (at.Sub(last) + time.Hour - 1).Truncate(time.Hour)
	} else if at.Before(first) {
		shift = -(first.Sub(at) + time.Hour - 1).Truncate(time.Hour)
	}
	at = at.Add(-shift)
	call, exact := slices.BinarySearchFunc(s.marks, at, time.Time.Compare)
	if !exact {
		call--
	}
	return time.Unix(int64(call), 0).UTC().Add(shift)
}

// show prints an answer without what differs by itself.
func (s *side) show(answer any) string {
	if isZero(answer) {
		return "nothing"
	}
	return fmt.Sprintf("%+v", s.relabel(reflect.ValueOf(answer)))
}

// relabel copies a value, with labels for instants, tokens and numbers of runs.
func (s *side) relabel(v reflect.Value) reflect.Value {
	switch one := v.Interface().(type) {
	case time.Time:
		if one.IsZero() {
			return v
		}
		return reflect.ValueOf(s.label(one))
	case jobs.Key:
		if s.chosen[one] {
			return reflect.ValueOf(jobs.Key{Job: one.Job, Tick: s.label(one.Tick), Trigger: math.MaxUint64})
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		for i := range c.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(s.relabel(v.Field(i)))
			}
		}
		return c
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(s.relabel(v.Index(i)))
		}
		return c
	case reflect.Map:
		c := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			if value.Kind() == reflect.Slice && value.Len() == 0 {
				continue // as if there were none
			}
			c.SetMapIndex(s.relabel(key), s.relabel(value))
		}
		return c
	case reflect.Uint64:
		if term := slices.Index(s.tokens, v.Uint()); term > 0 {
			return reflect.ValueOf(uint64(term)).Convert(v.Type())
		}
	}
	return v
}

// compareRows compares all that the stores show.
func (h *history) compareRows() {
	for _, s := range []*side{h.store, h.model} {
		s.mark(h)
	}
	got, want := h.store.rows(h), h.model.rows(h)
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			h.Errorf("the store has\n\t%s\nand the one ledger\n\t%s", strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""), line)
		}
	}
	if len(got) > len(want) {
		h.Errorf("the store has besides\n\t%s", strings.Join(got[len(want):], "\n\t"))
	}
}

// inOrder are open runs, of which those of one tick have no order of their own.
func inOrder(open []jobs.Record) []jobs.Record {
	slices.SortFunc(open, func(a, b jobs.Record) int {
		return cmp.Or(a.Tick.Compare(b.Tick), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Trigger, b.Trigger))
	})
	return open
}

// rows is what a store shows of the group, each thing a line.
func (s *side) rows(h *history) []string {
	var lines []string
	add := func(what string, answer any, err error) {
		if err != nil && !errors.Is(err, jobs.ErrNoRun) {
			h.Fatalf("%s: %s: %v", s.name, what, err)
		}
		lines = append(lines, what+": "+s.show(answer))
	}
	snapshot, err := s.Load(s.ctx, s.group)
	snapshot.Server, snapshot.Changes, snapshot.Now = "", 0, time.Time{}
	open := inOrder(snapshot.Open)
	snapshot.Open = nil
	add("Load", snapshot, err)
	add("open runs", open, nil)
	runs, err := s.Runs(s.ctx, s.group, jobs.Filter{Limit: all})
	add("how many runs", len(runs), err)
	for _, r := range runs {
		add("run", r, nil)
		args, err := s.Args(s.ctx, s.group, r.Key)
		add("its arguments", string(args), err)
		if s.archive != nil {
			attempts, err := s.archive.Attempts(s.ctx, s.group, r.Key)
			add("its attempts", attempts, err)
		}
	}
	if s.archive == nil {
		return lines
	}
	entries, err := s.archive.Audit(s.ctx, s.group, jobs.AuditFilter{Limit: all})
	for i := range entries {
		entries[i].ID = 0
	}
	add("audit", entries, err)
	terms, err := s.archive.Terms(s.ctx, s.group, jobs.TermFilter{Limit: all})
	add("terms", terms, err)
	names, err := s.archive.Names(s.ctx, s.group)
	add("names", names, err)
	some, err := s.archive.LoadOf(s.ctx, s.group, []string{report, "unknown"})
	some.Server, some.Changes, some.Now, some.Open = "", 0, time.Time{}, inOrder(some.Open)
	add("LoadOf", some, err)
	for _, over := range []bool{false, true} {
		newest, err := s.archive.Newest(s.ctx, s.group, jobs.Newest{Jobs: historyJobs, Over: over, Limit: 2, Since: tick(1)})
		add("newest runs", newest, err)
	}
	return lines
}

// draw draws a call.
func (h *history) draw() historyCall {
	calls := []func() historyCall{
		h.claim, h.claim, h.claim, h.claim, h.move, h.move, h.move, h.move, h.trigger, h.trigger, h.request, h.request, h.cancel,
		func() historyCall { return h.takeOver(h.owner()) },
		func() historyCall { return h.declare(h.holder(), h.declared()) },
		h.passOver, h.prune, h.gone, h.forget, h.note,
	}
	return rapid.SampledFrom(calls).Draw(h.random, "call")()
}

func (h *history) owner() string { return rapid.SampledFrom(historyOwners).Draw(h.random, "owner") }
func (h *history) job() string   { return rapid.SampledFrom(historyJobs).Draw(h.random, "job") }
func (h *history) tick() int     { return rapid.IntRange(0, 6).Draw(h.random, "tick") }
func (h *history) some() bool    { return rapid.IntRange(0, 3).Draw(h.random, "some") == 0 }

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

// historyHolder is the holder of a term, by its number: each store has tokens of its own.
type historyHolder struct {
	term  int
	owner string
}

func (h historyHolder) on(s *side) store.Holder {
	return store.Holder{Group: s.group, Owner: h.owner, Token: s.tokens[h.term]}
}

// at is the holder with a server: none, the one that answers, or another one.
func (h historyHolder) at(s *side, which string) store.Holder {
	of := h.on(s)
	of.Server = map[string]string{"own": s.server, "other": "another server"}[which]
	return of
}

// holder is mostly that of the term.
func (h *history) holder() historyHolder {
	term := len(h.owners) - 1
	if h.some() {
		term = rapid.IntRange(0, term).Draw(h.random, "term")
	}
	return historyHolder{term, h.owners[term]}
}

func (h *history) server() string {
	servers := []string{"any", "any", "any", "own", "other"}
	if h.anyServer {
		servers = servers[:4]
	}
	return rapid.SampledFrom(servers).Draw(h.random, "server")
}

func (h *history) takeOver(owner string) historyCall {
	return historyCall{"a term of " + owner, func(s *side) (any, error) {
		taken, err := takeOver(s.ctx, s, s.group, owner)
		if s.tokens = append(s.tokens, taken.Token); s == h.model {
			h.owners = append(h.owners, owner)
		}
		return taken, err
	}, true}
}

func (h *history) declare(of historyHolder, declared []store.Declared) historyCall {
	return historyCall{fmt.Sprintf("Declare of term %d %+v", of.term, declared), func(s *side) (any, error) {
		return nil, s.Declare(s.ctx, of.on(s), declared)
	}, true}
}

func (h *history) declared() []store.Declared {
	var declared []store.Declared
	for _, job := range historyJobs[:2] {
		if !h.some() {
			declared = append(declared, store.Declared{
				Name: job, Schedule: rapid.SampledFrom([]string{"every 1m", "every 2m"}).Draw(h.random, "schedule"),
				From: rapid.SampledFrom([]time.Time{{}, tick(0), tick(3), tick(50 * 365 * 24 * 60)}).Draw(h.random, "from"),
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
		if c.Then = h.followers(n); c.Then != nil {
			for i := range c.Then {
				c.Then[i].Args = nil // a claim has none
			}
		}
		if !slices.ContainsFunc(claims, func(other store.Claim) bool { return other.Key == c.Key }) {
			claims = append(claims, c)
		}
	}
	of, server := h.holder(), h.server()
	return historyCall{fmt.Sprintf("Claim %s of term %d %+v", id[:4], of.term, claims), func(s *side) (any, error) {
		claimed, err := s.Claim(s.ctx, of.at(s, server), id, claims)
		return claimed, err
	}, true}
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
		m.Output = rapid.SampledFrom([][]byte{nil, nil, []byte("done")}).Draw(h.random, "output")
		if r.State == 0 || r.State.Over() || h.some() {
			m.From = rapid.SampledFrom(states[:2]).Draw(h.random, "from")
		}
		switch rapid.IntRange(1, 12).Draw(h.random, "expects") {
		case 1:
			m.Attempt++
		case 2:
			m.Owner = h.owner()
		case 3:
			term = rapid.IntRange(0, len(h.owners)-1).Draw(h.random, "expected term")
		}
		m.Token = 0
		if !slices.ContainsFunc(list, func(other one) bool { return other.Key == m.Key }) {
			list = append(list, one{m, term, of})
		}
	}
	of, server := h.holder(), h.server()
	return historyCall{fmt.Sprintf("Move of term %d %+v", of.term, list), func(s *side) (any, error) {
		var moves []store.Move
		for _, one := range list {
			one.Key = one.key(s)
			if one.term >= 0 {
				one.Token = s.tokens[one.term]
			}
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
	}, true}
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
