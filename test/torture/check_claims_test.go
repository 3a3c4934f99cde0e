package torture

import (
	"testing"
)

func TestCheckClaims(t *testing.T) {
	again := func(s *story, ms int64, worker string, token uint64) *story {
		return s.add(ms, worker, Run, of(token, "hold", 3, 1)).add(ms+1, worker, End, of(token, "hold", 3, 1))
	}
	// The same attempt under both terms; the first of them at ms, its tick long due.
	twice := func(ms int64) *story {
		return again(again(handOver().row("succeeded", "w2", of(8, "hold", 3, 1)), ms, "w1", 5), 3800, "w2", 8).
			do(func(s *story) {
				for i := range s.Events {
					if e := &s.Events[i]; e.Job == "hold" && e.Tick == second(3) {
						e.Tick = second(1)
					}
				}
				s.rowOf("hold", 3).Tick = second(1)
			})
	}
	judge(t, []judged{
		{name: "started twice", story: twice(2200), guarantee: 2, want: "attempt 1 of hold@00:00:01 was started twice"},
		{name: "and the first was forgotten", story: twice(2200).lose(2150, 2250), count: forgotten},
		{name: "its claim was", story: twice(2200).lose(2100, 2150), count: forgotten},
		{name: "forgotten before its tick", story: twice(2200).lose(900, 999), guarantee: 2, want: "started twice"},
		{name: "forgotten after its start", story: twice(2200).lose(2201, 2290), guarantee: 2, want: "started twice"},
		{name: "in one term", story: again(again(handOver().row("succeeded", "w2", of(8, "hold", 3, 1)), 3100, "w2", 8), 3200, "w2", 8),
			guarantee: 2, want: "started twice"},
		{name: "in one term, though forgotten", story: again(again(handOver().row("succeeded", "w2", of(8, "hold", 3, 1)), 3100, "w2", 8), 3200, "w2", 8).lose(3050, 3150),
			guarantee: 2, want: "started twice"},
		{name: "a retry in one term", story: retried(), guarantee: 2, want: "attempt 2 of hold@00:00:03 was started twice"},
		{name: "a retry in one term, forgotten", story: retried().lose(3150, 3250), count: forgotten},
		{name: "a retry in one term, forgotten too late", story: retried().lose(3201, 3250), guarantee: 2, want: "started twice"},
		{name: "two attempts", story: again(handOver().row("succeeded", "w2", of(8, "hold", 3, 2)), 3100, "w2", 8).
			add(3200, "w2", Run, of(8, "hold", 3, 2)).add(3201, "w2", End, of(8, "hold", 3, 2))},

		{name: "not in the ledger", story: again(handOver(), 3100, "w2", 8), guarantee: 2, want: "hold@00:00:03 was started, and is not in the ledger"},
		{name: "not any more", story: again(handOver(), 3100, "w2", 8).lose(3050, 3060), count: forgotten},
		{name: "not, and the failover was before", story: again(handOver(), 3100, "w2", 8).lose(2950, 2999), guarantee: 2, want: "is not in the ledger"},
		{name: "not known to be started", story: again(handOver().row("skipped", "w2", of(8, "hold", 3, 0)), 3100, "w2", 8),
			guarantee: 2, want: "attempt 1 of hold@00:00:03 was started, and the ledger knows of 0"},
		{name: "not known any more", story: again(handOver().row("skipped", "w2", of(8, "hold", 3, 0)), 3100, "w2", 8).lose(3100, 3110), count: forgotten},

		{name: "under no term of its own", story: again(handOver().row("succeeded", "w2", of(8, "hold", 3, 1)), 3100, "w1", 8),
			guarantee: 2, want: "a run under token 8 of w1, which never led under it"},
		{name: "before its term", story: handOver().do(func(s *story) { s.event(Lead, "w2", "", -1).At = instant(2801) }),
			guarantee: 2, want: "a run under token 8 before w2 led under it"},
		{name: "beside its beginning", story: handOver().do(func(s *story) { s.event(Lead, "w2", "", -1).At = instant(2799) })},
		{name: "before it, and paused", story: handOver().pause(2710, 2750, "w2").do(func(s *story) { s.event(Lead, "w2", "", -1).At = instant(2950) })},
		{name: "killed beside it", story: killBeside(400)},
		{name: "killed some time later", story: killBeside(401), guarantee: 2, want: "which never led under it"},

		{name: "two rows", story: handOver().row("skipped", "w2", of(8, "all", 4, 0)), guarantee: 2, want: "all@00:00:04 has 2 rows"},
	})
}

// retried is a history in which a term starts the same retry twice.
func retried() *story {
	s := handOver().row("succeeded", "w2", of(8, "hold", 3, 2))
	for i, at := range []int64{3100, 3200, 3300} {
		e := of(8, "hold", 3, min(i+1, 2))
		s.add(at, "w2", Run, e).add(at+1, "w2", End, e)
	}
	return s
}

// killBeside is a history in which w2 is killed so soon after its first run, at 300, that nothing was heard of its term.
func killBeside(ms int64) *story {
	return bare().up(0, "w1").up(0, "w2").
		lead(100, "w1", 5).yield(200, "w1", 5).
		add(300, "w2", Run, of(8, "hold", 0, 1)).killed(ms, "w2").
		lead(3000, "w1", 9).row("interrupted", "w1", of(9, "hold", 0, 1)).yield(3100, "w1", 9).down(3200, "w1")
}
