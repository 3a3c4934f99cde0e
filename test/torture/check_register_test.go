package torture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func TestCheckRegister(t *testing.T) {
	// An attempt of w1 under its old token, whose transaction begins when w2 leads.
	zombie := func(begin int64, outcome string) *story {
		s := takeOver().pause(2100, 4350, "w1").returns(5000).row("failed", "w2", of(8, "once", 0, 1))
		e := of(5, "once", 0, 1)
		s.add(2050, "w1", Run, e).add(begin, "w1", Begin, e)
		e.Outcome = outcome
		if outcome == Stored {
			e.Seq = 5
		}
		return s.add(4400, "w1", Commit, e).add(4401, "w1", End, of(5, "once", 0, 1))
	}
	is := func(s *story) *story {
		s.Effects = append(s.Effects, Effect{"once", 5, second(0), 1, 5, ownerOf("w1")})
		return s
	}
	const after = "a transaction under token 5 began when the term of token 8 had been there"
	judge(t, []judged{
		{name: "refused", story: zombie(4360, Refused), count: excused},
		{name: "stored after the takeover", story: is(zombie(4360, Stored)), guarantee: 3, want: after},
		{name: "unknown", story: zombie(4360, Unknown), count: excused},
		{name: "unknown, and stored after the takeover", story: is(zombie(4360, Unknown)), guarantee: 3, want: after},
		{name: "before its term", story: handOver().do(func(s *story) {
			s.event(Lead, "w2", "", -1).At = instant(3300)
			s.event(Begin, "w2", "all", 3).At = instant(3001)
		}), guarantee: 2, want: "before w2 led under it"},
	})

	// What no other check sees: a process that follows takes the lease under a token that another had and gave back.
	back := bare().up(0, "w1").up(0, "w2").lead(100, "w1", 5).yield(200, "w1", 5).lead(400, "w2", 8).yield(500, "w2", 8).
		add(1000, "w1", Follow, Event{}).lead(1100, "w1", 7).yield(1200, "w1", 7).down(1300, "w1").down(1300, "w2")
	_, found := Check(back.History)
	if len(found) != 1 || found[0].Guarantee != 1 || found[0].What != "the term of token 7 began when the term of token 8 had been there" {
		t.Error(found)
	}
}

// A register whose newest terms a failover has lost takes what is stored under those before them.
func TestRegister(t *testing.T) {
	t.Parallel()
	type op struct {
		gain      bool
		token     uint64
		call, end int64
		forgotten bool
	}
	const never = endless
	const atOnce = "no two of them"
	for _, c := range []struct {
		name string
		ops  []op
		want string
	}{
		{"in order", []op{{true, 5, 0, 1, false}, {false, 5, 2, 3, false}, {true, 8, 4, 5, false}, {false, 8, 6, 7, false}}, ""},
		{"any time within", []op{{true, 5, 0, 1, false}, {true, 8, 0, 5, false}, {false, 5, 4, 7, false}, {false, 5, 2, 3, false}}, ""},
		{"a commit that is open", []op{{true, 5, 0, 1, false}, {false, 5, 2, never, false}, {true, 8, 3, 4, false}, {false, 8, 5, 6, false}}, ""},
		{"a gain that waits for a commit", []op{{true, 5, 0, 1, false}, {true, 8, 2, 9, false}, {true, 9, 2, 12, false}, {false, 5, 7, 8, false}, {false, 8, 10, 11, false}}, ""},
		{"forgotten", []op{{true, 5, 0, 1, false}, {true, 8, 2, 3, true}, {false, 5, 4, 5, false}, {true, 9, 6, 7, false}, {false, 9, 8, 9, false}}, ""},
		{"two forgotten", []op{{true, 5, 0, 1, false}, {true, 8, 2, 3, true}, {true, 9, 4, 5, true}, {false, 8, 6, 7, false}, {false, 5, 8, 9, false}}, ""},

		{"too late", []op{{true, 5, 0, 1, false}, {true, 8, 2, 3, false}, {false, 5, 4, 5, false}}, "the term of token 8 before a transaction under token 5"},
		{"too late, and open", []op{{true, 5, 0, 1, false}, {true, 8, 2, 3, false}, {false, 5, 4, never, false}}, "the term of token 8 before a transaction under token 5"},
		{"too early", []op{{false, 5, 0, 1, false}, {true, 5, 2, 3, false}}, "a transaction under token 5 before the term of token 5"},
		{"shrinks", []op{{true, 8, 0, 1, false}, {true, 5, 2, 3, false}}, "the term of token 8 before the term of token 5"},
		{"twice", []op{{true, 5, 0, 1, false}, {true, 5, 2, 3, false}}, "the term of token 5 before the term of token 5"},
		{"at once", []op{{true, 5, 0, 3, false}, {true, 5, 2, 4, false}}, atOnce},
		{"by a later commit", []op{{true, 5, 0, 1, false}, {true, 8, 2, 9, false}, {false, 8, 3, 4, false}, {false, 5, 5, 6, false}}, "a transaction under token 8 before a transaction under token 5"},
		{"after one that was not forgotten", []op{{true, 5, 0, 1, false}, {true, 8, 2, 3, true}, {true, 9, 4, 5, false}, {false, 5, 6, 7, false}}, "the term of token 9 before a transaction under token 5"},
		{"before the forgotten", []op{{true, 5, 0, 1, false}, {true, 7, 2, 3, false}, {true, 8, 4, 5, true}, {false, 5, 6, 7, false}}, "the term of token 8 before a transaction under token 5"},
	} {
		var steps []porcupine.Operation
		for i, o := range c.ops {
			s := step{o.gain, o.token, 0, o.forgotten, i}
			for _, other := range c.ops {
				if o.gain && other.gain && other.token < o.token {
					s.before = max(s.before, other.token)
				}
			}
			steps = append(steps, porcupine.Operation{ClientId: i, Input: s, Call: o.call, Return: o.end})
		}
		want := porcupine.Ok
		if c.want != "" {
			want = porcupine.Illegal
		}
		if got := porcupine.CheckOperationsTimeout(registerModel, steps, time.Minute); got != want {
			t.Errorf("%s: the model says %v, want %v", c.name, got, want)
		}
		said := ""
		if a, b, is := contradiction(steps); is {
			said = fmt.Sprintf("%v before %v", a.Input, b.Input)
		}
		if said != c.want && c.want != atOnce {
			t.Errorf("%s: the contradiction is %q, want %q", c.name, said, c.want)
		}
	}
	check := newCheck(History{}, time.Minute)
	check.judge(porcupine.Illegal, 2)
	if len(check.found) != 1 || !strings.Contains(check.found[0].What, "no order of the 2 terms") {
		t.Error(check.found)
	}
}

// What the register has to explain, and until when each step can have been.
func TestRegisterSteps(t *testing.T) {
	t.Parallel()
	steps := func(s *story) string {
		c := newCheck(s.History, time.Minute)
		c.record()
		c.gather()
		all, events := c.steps()
		var text []string
		for i, o := range all {
			end := "open"
			if o.Return != endless {
				end = fmt.Sprint((o.Return - instant(0)) / 1e6)
			}
			text = append(text, fmt.Sprintf("%v %d-%s", o.Input, (o.Call-instant(0))/1e6, end))
			if len(events[i]) == 0 {
				t.Errorf("%v shows nothing", o.Input)
			}
		}
		return strings.NewReplacer("the term of token", "term", "a transaction under token", "transaction").Replace(strings.Join(text, ", "))
	}
	// w1 has a transaction from 2050 on; w2 leads from 4300 on.
	one := func(outcome string, there bool) *story {
		e := of(5, "once", 0, 1)
		s := bare().up(0, "w1").up(0, "w2").up(0, "w3").lead(100, "w1", 5).attempt(2050, "w1", outcome, e)
		if there != (outcome == Stored) {
			s.Effects = append(s.Effects, Effect{"once", 1, e.Tick, 1, 5, ownerOf("w1")})
		}
		return s.killed(2100, "w1").lead(4300, "w2", 8).yield(6000, "w2", 8).lead(6100, "w3", 9)
	}
	const terms = "term 5 0-100, term 8 0-4300, term 9 0-6100"
	for _, c := range []struct {
		name  string
		story *story
		want  string
	}{
		{"stored", one(Stored, true), terms + ", transaction 5 2051-2061"},
		{"unknown", one(Unknown, true), terms + ", transaction 5 2051-4300"},
		{"unfinished", one(Unknown, true).drop(Commit, "w1", "once", 0).drop(End, "w1", "once", 0), terms + ", transaction 5 2051-4300"},
		{"unknown, and not there", one(Unknown, false), terms},
		{"refused", one(Refused, false), terms},
		{"refused, and there", one(Refused, true), terms},
		{"none", one(None, false), terms},
		{"in a failover", one(Stored, true).lose(2055, 2056), "term 5 0-100, term 8 0-4300, term 9 0-6100"},
		{"before one", one(Unknown, true).lose(2070, 2080), "term 5 0-100, term 8 0-4300, term 9 0-6100, transaction 5 2051-open"},
		{"under no term", one(Stored, true).drop(Lead, "w1", "", -1), "term 8 0-4300, term 9 0-6100"},
		{"when it was replaced", one(Unknown, true).do(func(s *story) {
			s.event(Lead, "w2", "", -1).At = instant(2040)
		}), "term 5 0-100, term 8 0-2040, term 9 0-6100, transaction 5 2051-2051"},
	} {
		if got := steps(c.story); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A search without an end is not taken for a good one.
func TestRegisterUndecided(t *testing.T) {
	t.Parallel()
	check := newCheck(History{}, time.Minute)
	check.judge(porcupine.Unknown, 0)
	if len(check.found) != 1 || !strings.Contains(check.found[0].What, "undecided") {
		t.Error(check.found)
	}
	// Nor is it by the whole check, when it has no time.
	check = newCheck(long(2000).History, time.Nanosecond)
	_, found := check.run()
	if len(found) != 1 || !strings.Contains(found[0].What, "undecided") {
		t.Error(found)
	}
}

// long is a history of so many ticks, with terms of 30 s, mostly; w1 and w2 follow each other, and w3 always waits.
func long(ticks int64) *story {
	s := newStory().up(0, "w1").up(0, "w2").up(0, "w3")
	token, worker := uint64(5), "w1"
	s.lead(100, worker, token)
	for tick := int64(1); tick <= ticks; tick++ {
		at := tick * 1000
		s.work(at, worker, token, tick)
		if tick%30 == 0 {
			s.yield(at+100, worker, token)
			token += 3
			worker = map[string]string{"w1": "w2", "w2": "w1"}[worker]
			s.lead(at+200, worker, token)
		}
	}
	s.To = second(ticks)
	end := ticks*1000 + 500
	return s.yield(end, worker, token).down(end+20, "w1").down(end+20, "w2").down(end+20, "w3")
}

// A round's history is checked within the time that one waits for it.
func BenchmarkCheck(b *testing.B) {
	for _, ticks := range []int64{100, 1000, 2000} {
		s := long(ticks)
		// The outcome of every tenth transaction is unknown, although it is stored.
		for i := range s.Events {
			if e := &s.Events[i]; e.Kind == Commit && i%10 == 0 {
				e.Outcome, e.Seq = Unknown, 0
			}
		}
		b.Run(fmt.Sprintf("%d events, %d effects", len(s.Events), len(s.Effects)), func(b *testing.B) {
			for b.Loop() {
				if _, found := Check(s.History); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
	}
}

// A process learns late that its write was stored, while many transactions of the next term are open at once: the check
// decides that without trying all their orders.
func TestCheckRegisterOfManyAtOnce(t *testing.T) {
	t.Parallel()
	s := bare().up(0, "w1").up(0, "w2").lead(100, "w1", 5)
	old := of(5, "slow", 0, 1)
	s.add(150, "w1", Run, old).add(160, "w1", Begin, old).lead(3100, "w2", 8)
	const many = 40
	for i := range int64(many) {
		e := of(8, "all", i, 1)
		s.add(3200+i, "w2", Run, e).add(3200+i, "w2", Begin, e)
		e.Outcome, e.Seq = Stored, uint64(i+1)
		s.add(3400+i, "w2", Commit, e)
	}
	old.Outcome, old.Seq = Stored, 1
	s.add(5000, "w1", Commit, old)
	c := newCheck(s.History, 5*time.Second)
	c.record()
	c.gather()
	c.checkRegister()
	for _, v := range c.found {
		if v.Guarantee == 3 || strings.Contains(v.What, "undecided") {
			t.Error(v)
		}
	}
}
