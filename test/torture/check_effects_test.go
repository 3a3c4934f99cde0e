package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheckEffects(t *testing.T) {
	// An attempt that ends so.
	failed := func(outcome string) *story {
		s := handOver().row("failed", "w2", of(8, "once", 0, 1))
		return s.attempt(4100, "w2", outcome, of(8, "once", 0, 1))
	}
	// left has stored its effect nevertheless.
	left := func(s *story) *story {
		s.Effects = append(s.Effects, Effect{"once", 5, second(0), 1, 8, ownerOf("w2")})
		return s
	}
	unknownThen := func(outcome string) *story {
		return failed(Unknown).do(func(s *story) { s.rowOf("once", 0).Attempt = 2 }).attempt(4200, "w2", outcome, of(8, "once", 0, 2))
	}
	// storedAgain does a retry twice, as after a failover that has lost it.
	storedAgain := func() *story {
		s, e := failed(Refused), of(8, "once", 0, 2)
		s.rowOf("once", 0).Attempt = 2
		s.attempt(4200, "w2", Stored, e)
		s.last["once"]--
		s.Effects = s.Effects[:len(s.Effects)-1]
		return s.attempt(4300, "w2", Stored, e)
	}
	// cut ends without a Commit, by a kill.
	cut := func() *story {
		s := takeOver().killed(2700, "w1").row("interrupted", "w2", of(8, "once", 0, 1))
		return s.add(2600, "w1", Run, of(5, "once", 0, 1)).add(2601, "w1", Begin, of(5, "once", 0, 1))
	}
	swap := func(s *story, a, b int64) *story {
		x, y := s.effectOf("all", a), s.effectOf("all", b)
		x.Seq, y.Seq = y.Seq, x.Seq
		s.event(Commit, "w2", "all", a).Seq, s.event(Commit, "w2", "all", b).Seq = x.Seq, y.Seq
		return s
	}
	judge(t, []judged{
		{name: "a gap", story: handOver().do(func(s *story) { s.effectOf("all", 4).Seq = 5; s.event(Commit, "w2", "all", 4).Seq = 5 }),
			guarantee: 3, want: "effect 5 of job all comes after effect 3"},
		{name: "not from 1", story: handOver().dropEffect("all", 1), guarantee: 3, want: "effect 2 of job all comes after effect 0"},
		{name: "a number twice", story: handOver().do(func(s *story) { s.effectOf("all", 4).Seq = 3; s.event(Commit, "w2", "all", 4).Seq = 3 }),
			guarantee: 3, want: "effect 3 of job all comes after effect 3"},
		{name: "an older token", story: handOver().do(func(s *story) { s.effectOf("all", 3).Seq, s.effectOf("all", 2).Seq = 2, 3 }),
			guarantee: 3, want: "effect 3 of job all is of token 5, and effect 2 before it of 8"},

		{name: "no transaction", story: handOver().drop(Begin, "w2", "all", 4).drop(Commit, "w2", "all", 4),
			guarantee: 3, want: "under token 8 of owner-w2: it began no transaction"},
		{name: "of another attempt", story: handOver().do(func(s *story) { s.effectOf("all", 4).Attempt = 2 }),
			guarantee: 3, want: "attempt 2 under token 8 of owner-w2: it began no transaction"},
		{name: "under another token", story: handOver().do(func(s *story) { s.effectOf("all", 4).Token = 5; s.effectOf("all", 4).Owner = ownerOf("w1") }),
			guarantee: 3, want: "under token 5 of owner-w1: it began no transaction"},

		{name: "stored, and not there", story: handOver().dropEffect("all", 4), guarantee: 3, want: "effect 4 of all@00:00:04 was stored, and is not there"},
		{name: "not any more", story: handOver().dropEffect("all", 4).lose(4005, 4006), count: forgotten},
		{name: "not any more, and stored again under its number", story: storedAgain().lose(4190, 4250), count: forgotten},
		{name: "stored again under its number", story: storedAgain(), guarantee: 3, want: "was stored, and is not there"},
		{name: "though nothing was forgotten before", story: handOver().dropEffect("all", 4).lose(3990, 3999), guarantee: 3, want: "was stored, and is not there"},
		{name: "nor after", story: handOver().dropEffect("all", 4).lose(4012, 4020), guarantee: 3, want: "was stored, and is not there"},
		{name: "under another number", story: handOver().do(func(s *story) { s.event(Commit, "w2", "all", 4).Seq = 9 }),
			guarantee: 3, want: "effect 9 of all@00:00:04 was stored, and is not there"},

		{name: "refused", story: failed(Refused)},
		{name: "refused, and there", story: left(failed(Refused)), guarantee: 3, want: "no transaction has stored it"},
		{name: "broken", story: failed(Broken)},
		{name: "broken, and there", story: left(failed(Broken)), guarantee: 3, want: "no transaction has stored it"},
		{name: "refused, and there, in a failover", story: left(failed(Refused)).lose(4050, 4150), guarantee: 3, want: "no transaction has stored it"},
		{name: "unknown", story: failed(Unknown)},
		{name: "unknown, and there", story: left(failed(Unknown))},
		{name: "unknown, and there twice", story: left(left(failed(Unknown))), guarantee: 3, want: "no transaction has stored it"},
		{name: "none, and nothing", story: failed(None), guarantee: 3, want: "the effect of once@00:00:00 was there, and is not any more"},
		{name: "none, and nothing, in a failover", story: failed(None).lose(4105, 4106), guarantee: 3, want: "was there, and is not any more"},
		{name: "none, and forgotten", story: unknownThen(None).lose(4105, 4106), count: forgotten},
		{name: "none, and nothing was forgotten", story: unknownThen(None).lose(4120, 4130), guarantee: 3, want: "was there, and is not any more"},
		{name: "none, and there", story: left(failed(None)), guarantee: 3, want: "no transaction has stored it"},
		{name: "none, and another's", story: left(unknownThen(None))},
		{name: "broken, and then stored", story: handOver().row("succeeded", "w2", of(8, "once", 0, 1)).do(func(s *story) {
			e := of(8, "once", 0, 1)
			s.attempt(4100, "w2", Stored, e).add(4050, "w2", Begin, e)
			e.Outcome = Broken
			s.add(4051, "w2", Commit, e).event(Run, "w2", "once", 0).At = instant(4040)
		})},

		{name: "cut", story: cut()},
		{name: "cut, and there", story: cut().do(func(s *story) {
			for i := range s.Effects { // it was the third
				if e := &s.Effects[i]; e.Job == "once" && e.Seq > 2 {
					e.Seq++
					s.event(Commit, "w2", "once", e.Tick/1e6-storyBegins).Seq++
				}
			}
			s.Effects = append(s.Effects, Effect{"once", 3, second(0), 1, 5, ownerOf("w1")})
		})},
		{name: "cut, and there too late", story: cut().do(func(s *story) {
			s.Effects = append(s.Effects, Effect{"once", 5, second(0), 1, 5, ownerOf("w1")})
		}), guarantee: 3, want: "effect 5 of job once is of token 5, and effect 4 before it of 8"},

		{name: "in another order than time", story: swap(handOver(), 3, 4), guarantee: 3, want: "effect 4 of job all was stored before effect 3 was begun"},
		{name: "at one time", story: swap(handOver(), 3, 4).do(func(s *story) {
			s.event(Begin, "w2", "all", 4).At = instant(3011)
			s.event(Run, "w2", "all", 4).At = instant(3005)
			s.MaxSkew = time.Second
		})},
		{name: "and the other number was forgotten", story: failOver(), count: forgotten},
	})
}

// Numbers are compared with the highest of all that was stored before, whichever that is.
func TestCheckTimes(t *testing.T) {
	t.Parallel()
	transactionOf := func(begin, end int64, seq uint64) *transaction {
		return &transaction{run: &run{Event: Event{Job: "all"}}, begin: Event{At: begin}, commit: &Event{At: end, Seq: seq, Outcome: Stored}}
	}
	for last, want := range map[uint64]int{5: 1, 6: 0} {
		c := newCheck(History{}, 0)
		c.checkTimes([]*transaction{transactionOf(1, 20, 5), transactionOf(2, 25, 4), transactionOf(30, 31, last)})
		if len(c.found) != want {
			t.Errorf("the last one has %d: %v", last, c.found)
		}
	}
}

// A violation shows the events that it is about, and no others.
func TestCheckShows(t *testing.T) {
	t.Parallel()
	for what, s := range map[string]*story{
		"begin all@3, commit all@3, begin all@2, commit all@2": handOver().do(func(s *story) { s.effectOf("all", 3).Seq, s.effectOf("all", 2).Seq = 2, 3 }),
		"begin all@4, commit all@4":                            handOver().dropEffect("all", 4),
		"up hold@0, lead hold@0":                               handOver().do(func(s *story) { s.rowOf("hold", 2).Owner = ownerOf("w1") }),
	} {
		_, found := Check(s.History)
		var got []string
		for _, v := range found {
			var shown []string
			for _, e := range v.Events {
				shown = append(shown, fmt.Sprintf("%s %s@%d", e.Kind, cmp.Or(e.Job, "hold"), max(0, e.Tick/1e6-storyBegins)))
			}
			got = append(got, strings.Join(shown, ", "))
		}
		if !slices.Contains(got, what) {
			t.Errorf("got %q, want %q", got, what)
		}
	}
}

func TestCheckEffectsOfTicks(t *testing.T) {
	// A tick with an effect under each term.
	twice := func(job string) *story {
		s := handOver().row("succeeded", "w2", of(8, job, 0, 2)).
			attempt(2200, "w1", Stored, of(5, job, 0, 1)).attempt(3200, "w2", Stored, of(8, job, 0, 2))
		seqs := map[[2]int64]uint64{{1, 1}: 1, {2, 1}: 2, {0, 1}: 3, {3, 1}: 4, {0, 2}: 5, {4, 1}: 6} // by tick and attempt
		for i := range s.Effects {
			if e := &s.Effects[i]; e.Job == job {
				tick := e.Tick/1e6 - storyBegins
				e.Seq = seqs[[2]int64{tick, int64(e.Attempt)}]
				s.event(Commit, strings.TrimPrefix(e.Owner, "owner-"), job, tick).Seq = e.Seq
			}
		}
		return s
	}
	unstored := func(job, state string) *story {
		s := handOver()
		s.event(Commit, "w2", job, 4).Outcome, s.event(Commit, "w2", job, 4).Seq = Broken, 0
		s.rowOf(job, 4).State = state
		return s.dropEffect(job, 4)
	}
	judge(t, []judged{
		{name: "two effects", story: twice("once"), guarantee: 2, want: "once@00:00:00 has 2 effects"},
		{name: "two of one that is run again", story: twice("rerun"), guarantee: 2, want: "rerun@00:00:00 has 2 effects"},
		{name: "the first claim forgotten", story: twice("all").lose(2150, 2199), count: forgotten},
		{name: "nothing of it forgotten", story: twice("all").lose(2220, 2230), guarantee: 2, want: "has 2 effects"},
		{name: "not in the ledger", story: handOver().dropRow("once", 4), guarantee: 2, want: "once@00:00:04 has an effect, and is not in the ledger"},
		{name: "not any more", story: handOver().dropRow("once", 4).lose(4000, 4001), count: forgotten},

		{name: "succeeded without", story: unstored("once", "succeeded"), guarantee: 3, want: "once@00:00:04 succeeded, and has no effect"},
		{name: "failed without", story: unstored("once", "failed")},
		{name: "all failed without", story: unstored("all", "failed")},
		{name: "succeeded, and forgotten", story: handOver().dropEffect("once", 4).lose(4005, 4006), count: forgotten},

		{name: "rerun failed", story: unstored("rerun", "failed"), guarantee: 6, want: "rerun@00:00:04 is failed after attempt 1 (), and has no effect"},
		{name: "rerun interrupted", story: unstored("rerun", "interrupted"), guarantee: 6, want: "rerun@00:00:04 is interrupted"},
		{name: "rerun given up", story: unstored("rerun", "interrupted").do(func(s *story) {
			r := s.rowOf("rerun", 4)
			r.Attempt, r.Text = 5, "not finished by x, and interrupted too often to be run again"
		})},
		{name: "rerun given up too early", story: unstored("rerun", "interrupted").do(func(s *story) {
			r := s.rowOf("rerun", 4)
			r.Attempt, r.Text = 4, "not finished by x, and interrupted too often to be run again"
		}), guarantee: 6, want: "rerun@00:00:04 is interrupted"},
		{name: "rerun given up without a word", story: unstored("rerun", "interrupted").do(func(s *story) { s.rowOf("rerun", 4).Attempt = 5 }),
			guarantee: 6, want: "rerun@00:00:04 is interrupted"},
		{name: "rerun cancelled at last", story: unstored("rerun", "cancelled").do(func(s *story) { s.rowOf("rerun", 4).Attempt = 5 })},
		{name: "rerun cancelled", story: unstored("rerun", "cancelled"), guarantee: 6, want: "rerun@00:00:04 is cancelled"},
		{name: "rerun failed after the round", story: unstored("rerun", "failed").do(func(s *story) { s.To = second(3) })},
		{name: "rerun failed before the round", story: unstored("rerun", "failed").do(func(s *story) { s.From, s.To = second(5), second(4) })},
	})
}
