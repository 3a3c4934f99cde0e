package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// historyCases compare a store with the one ledger (store/ledger), in memory: random calls, some of them late or
// repeated, get the same answers from both and leave the same rows behind. The other cases say what is right; this one
// finds the meetings of two rules that nobody has thought of.
var historyCases = []ledgerCase{
	{"histories/as the one ledger", func(e *ledgerEnv) {
		s := e.open()
		long := time.Duration(rounds.Of(e.TB, 2)) * time.Second
		if e.h.quick > 0 {
			long = 2 * time.Second
		}
		began := time.Now()
		histories, failed := 0, false
		over := func() bool { // a slow machine plays some, too, unless it is so slow that the case would run out of time
			took := time.Since(began)
			return took > long && (histories >= 30 || took > e.h.Patience/2)
		}
		for !over() {
			rapid.Check(e.TB, func(t *rapid.T) {
				if !failed && over() {
					return // there is no time for more
				}
				histories++
				failed = true // until the history is over: rapid looks for a shorter one then
				var out rapid.TB = t
				if e.h.quick > 0 {
					out = e.TB // it ends the case at once, where rapid would look for a shorter history
				}
				calls := rapid.IntRange(1, 30).Draw(t, "calls")
				if histories == 1 {
					calls = 250 // of which much stays beside the groups of all later ones
				}
				playHistory(e.ctx(), t, out, e.h.AnyServer, s, fmt.Sprintf("history%d", histories), calls)
				failed = false
			})
		}
		e.Logf("%d histories", histories)
	}},
}

// history draws the calls.
type history struct {
	rapid.TB
	random       *rapid.T
	anyServer    bool // see [Harness.AnyServer]
	store, model *side
	calls        []historyCall
	terms        []historyTerm
	spreads      bool // the store is a [store.Spreads]
	asked        int  // for runs
}

func playHistory(ctx context.Context, t *rapid.T, out rapid.TB, anyServer bool, s store.Jobs, group string, calls int) {
	h := &history{TB: out, anyServer: anyServer, random: t, terms: []historyTerm{{owner: alice}}}
	begin := func(name string, s store.Jobs) *side {
		return &side{Jobs: s, ctx: ctx, name: name, group: group, tokens: []uint64{1}, manual: map[int]jobs.Key{}, chosen: map[jobs.Key]bool{}}
	}
	h.store, h.model = begin("the store", s), begin("the one ledger", memdb.New())
	_, archives := s.(store.Archive)
	_, registers := s.(store.Replicas)
	_, h.spreads = s.(store.Spreads)
	for _, s := range []*side{h.store, h.model} {
		if archives {
			s.archive, _ = s.Jobs.(store.Archive)
		}
		if registers {
			s.replicas, _ = s.Jobs.(store.Replicas)
		}
		if h.spreads {
			s.spreads, _ = s.Jobs.(store.Spreads)
		}
		rs, err := s.Read(ctx, group)
		if err != nil {
			h.Fatalf("%v", err)
		}
		s.server = rs[0].Server
	}
	h.carryOut(h.takeOver(alice))
	h.carryOut(h.declare(historyHolder{term: 1, owner: alice}, []store.Declared{{Name: report, Schedule: "every 1m"}, {Name: cleanup, Schedule: "every 1h"}}))
	if h.spreads {
		h.carryOut(h.session())
	}
	for range calls {
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
	if changed[0] != changed[1] && (c.changes || changed[0]) {
		h.Fatalf("%s: the number of Changes has changed: in the store %t, in the one ledger %t", c.text, changed[1], changed[0])
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
