package torture

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// step is an operation on the group's current token: a term takes it, or a transaction is stored under it.
type step struct {
	gain   bool
	token  uint64
	before uint64 // of a gain: the next older token. Tokens grow, so it is the current one; saying so keeps the search short.
	// forgotten: of a gain, that a failover may have lost it.
	forgotten bool
	number    int
}

func (s step) String() string {
	if s.gain {
		return fmt.Sprintf("the term of token %d", s.token)
	}
	return fmt.Sprintf("a transaction under token %d", s.token)
}

// register is the current token.
type register struct {
	token  uint64
	stored uint64 // the last that no failover can have lost: after one, any from it on may be the current one
}

func (r register) step(s step) (bool, register) {
	if !s.gain {
		return r.stored <= s.token && s.token <= r.token, r
	}
	next := register{s.token, s.token}
	if s.forgotten {
		next.stored = r.stored
	}
	return r.token == s.before, next
}

var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		return state.(register).step(input.(step))
	},
}

// steps is what the register has to explain, and the events of each step. A transaction with an unknown outcome counts
// at any time from its Begin on, if its effect is there; otherwise, that it never happened is always a valid explanation.
// Writes that a failover forgot are left out, and so are those of a term whose beginning was not recorded: other checks
// cover them.
func (c *check) steps() (steps []porcupine.Operation, events [][]Event) {
	add := func(s step, at period, of ...Event) {
		s.number = len(steps)
		steps = append(steps, porcupine.Operation{ClientId: s.number, Input: s, Call: at.from, Return: at.to})
		events = append(events, of)
	}
	tokens := []uint64{0}
	for _, t := range c.terms {
		tokens = append(tokens, t.Token)
	}
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	for _, t := range c.terms {
		s := step{gain: true, token: t.Token, forgotten: t.forgotten}
		if at, _ := slices.BinarySearch(tokens, t.Token); at > 0 {
			s.before = tokens[at-1]
		}
		add(s, t.gained, t.follow, t.Event)
	}
	// A write under a token is stored before a newer token exists, even if its process learned of it later: so its end is
	// no later than that. The search then detects an error there, and not after it has tried all later steps.
	replaced := func(token uint64) int64 {
		at := int64(endless)
		for _, t := range c.terms {
			if t.Token > token && !t.forgotten {
				at = min(at, t.gained.to)
			}
		}
		return at
	}
	there := map[runKey]bool{}
	for _, e := range c.Effects {
		there[runKey{e.Job, e.Tick, e.Attempt, e.Token}] = true
	}
	for _, r := range c.runs {
		for _, x := range r.transactions {
			unclear := x.outcome() != Stored
			if r.term == nil || c.forgets(x.time()) || !x.mayStore() || unclear && !there[keyOf(r.Event)] {
				continue
			}
			at := x.time()
			if unclear {
				at.to = endless
			}
			at.to = max(at.from, min(at.to, replaced(r.Token)))
			add(step{token: r.Token}, at, x.events()...)
		}
	}
	return steps, events
}

// checkRegister: there is an order of all terms and stored transactions, in agreement with time, in which tokens grow
// and each transaction is stored under the current one. Two steps that contradict each other are looked for first: they
// are what a person can read, and the search for an order would have to try all others before it gives up.
func (c *check) checkRegister() {
	steps, events := c.steps()
	if a, b, is := contradiction(steps); is {
		first, second := a.Input.(step), b.Input.(step)
		guarantee := 3
		if first.gain && second.gain {
			guarantee = 1
		}
		c.wrong(guarantee, slices.Concat(events[first.number], events[second.number]), "%v began when %v had been there", second, first)
		return
	}
	c.judge(porcupine.CheckOperationsTimeout(registerModel, steps, c.limit), len(steps))
}

func (c *check) judge(result porcupine.CheckResult, steps int) {
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		c.wrong(0, nil, "undecided: no order of the %d terms and transactions was found or ruled out within %v", steps, c.limit)
	default:
		c.wrong(1, nil, "no order of the %d terms and transactions agrees with time and tokens", steps)
	}
}

// contradiction finds two steps of which the first was over before the second began, and which can only have been the
// other way round. Of those that are over, the one with the newest token rules out the most.
func contradiction(steps []porcupine.Operation) (first, second porcupine.Operation, is bool) {
	var sure []uint64 // tokens that no failover can have lost
	for _, s := range steps {
		if s := s.Input.(step); s.gain && !s.forgotten {
			sure = append(sure, s.token)
		}
	}
	slices.Sort(sure)
	begun, over := slices.Clone(steps), slices.Clone(steps)
	slices.SortStableFunc(begun, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(over, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	at := 0
	for _, b := range begun {
		for ; over[at].Return < b.Call; at++ {
			if at == 0 || over[at].Input.(step).token > first.Input.(step).token {
				first = over[at]
			}
		}
		if at > 0 && first.Input.(step).rulesOut(b.Input.(step), sure) {
			return first, b, true
		}
	}
	return first, second, false
}

// rulesOut reports whether y cannot come after s.
func (s step) rulesOut(y step, sure []uint64) bool {
	switch {
	case y.gain: // also for a transaction before its own term
		return s.token >= y.token
	case s.token <= y.token:
		return false
	}
	at, _ := slices.BinarySearch(sure, y.token+1)
	return at < len(sure) && sure[at] <= s.token
}
