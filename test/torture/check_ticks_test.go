package torture

import (
	"testing"
	"time"
)

func TestCheckTicks(t *testing.T) {
	unclaimed := func(job string, tick int64) *story {
		s := handOver().dropRow(job, tick).dropEffect(job, tick)
		for _, kind := range []Kind{Run, Begin, Commit, End} {
			s.drop(kind, "w2", job, tick)
		}
		return s
	}
	judge(t, []judged{
		{name: "not in the ledger", story: unclaimed("all", 4), guarantee: 6, want: "all@00:00:04 is not in the ledger"},
		{name: "run, and not in the ledger", story: handOver().dropRow("all", 4), guarantee: 6, want: "all@00:00:04 is not in the ledger"},
		{name: "not in it, nor in the round", story: unclaimed("all", 4).do(func(s *story) { s.To-- })},
		{name: "the first one", story: handOver().do(func(s *story) { s.From = second(0) }), guarantee: 6, want: "all@00:00:00 is not in the ledger"},
		{name: "between two", story: handOver().do(func(s *story) { s.From = second(0) + 1 })},
		{name: "of one that need not be", story: unclaimed("once", 4)},
		{name: "nor after a failover", story: unclaimed("all", 4).lose(3900, 4500), guarantee: 6, want: "all@00:00:04 is not in the ledger"},
		{name: "run, and forgotten", story: handOver().dropRow("all", 4).dropEffect("all", 4).lose(3990, 4100), guarantee: 6, want: "all@00:00:04 is not in the ledger"},
		{name: "skipped", story: unclaimed("all", 4).row("skipped", "w2", of(8, "all", 4, 0)), guarantee: 6, want: "all@00:00:04 was skipped"},
		{name: "skipped, of one that may be", story: unclaimed("once", 4).row("skipped", "w2", of(8, "once", 4, 0))},
		{name: "no tick", story: handOver().do(func(s *story) {
			s.row("failed", "w2", of(8, "all", 2, 0)).Rows[len(s.Rows)-1].Tick += 500_000
		}), guarantee: 2, want: "the ledger has all@00:00:02.5, which is no tick"},
	})
}

// What may be left open at the end of a round, and what may not.
func TestCheckQuiet(t *testing.T) {
	open := func(state string, tick int64) *story {
		return handOver().row(state, "w2", of(8, "once", tick, 0))
	}
	rerunOpen := func(state string) *story {
		s := handOver().dropEffect("rerun", 4)
		s.event(Commit, "w2", "rerun", 4).Outcome, s.event(Commit, "w2", "rerun", 4).Seq = Broken, 0
		s.rowOf("rerun", 4).State = state
		return s
	}
	judge(t, []judged{
		{name: "left running", story: open("running", 0), guarantee: 6, want: "once@00:00:00 was left running"},
		{name: "left waiting", story: open("waiting", 0), guarantee: 6, want: "once@00:00:00 was left waiting"},
		{name: "left waiting at its last tick", story: handOver().row("waiting", "w2", of(8, "hold", 4, 0)), guarantee: 6, want: "hold@00:00:04 was left waiting"},
		{name: "left running after the round", story: open("running", 5).add(5100, "", Stepped, Event{}), guarantee: 6, want: "once@00:00:05 was left running"},
		{name: "left waiting after the round", story: open("waiting", 5).add(5100, "", Stepped, Event{})},
		{name: "killed at the end", story: open("running", 0).drop(Down, "w2", "", -1).killed(4520, "w2")},
		{name: "another was killed", story: open("running", 0).drop(Down, "w1", "", -1).killed(4530, "w1"), guarantee: 6, want: "left running"},
		{name: "in the middle of a fault", story: open("running", 0).add(4000, "", Inject, Event{Text: "x"})},
		{name: "after a fault", story: open("running", 0).add(4000, "", Inject, Event{Text: "x"}).add(4100, "", Heal, Event{Text: "x"}), guarantee: 6, want: "left running"},
		{name: "unable to write", story: open("running", 0).add(4511, "w2", Trouble, Event{Text: "outcomes could not be written: the next leader finds these runs interrupted: timeout"})},
		{name: "unable to claim", story: open("running", 0).add(4511, "w2", Trouble, Event{Text: "database trouble: claim ticks: timeout"})},
		{name: "unable before the end", story: open("running", 0).add(4400, "w2", Trouble, Event{Text: "database trouble: claim ticks: timeout"}), guarantee: 6, want: "left running"},
		{name: "another was unable", story: open("running", 0).add(4511, "w1", Trouble, Event{Text: "database trouble: claim ticks: timeout"}), guarantee: 6, want: "left running"},
		{name: "another trouble", story: open("running", 0).add(4511, "w2", Trouble, Event{Text: "run cancelled: context canceled"}), guarantee: 6, want: "left running"},
		{name: "found by a leader who had taken the lease early", story: open("running", 0).add(2599, "w2", Early, Event{Token: 8})},
		{name: "found by a leader long after it had taken the lease early", story: open("running", 0).add(2599, "w2", Early, Event{Token: 8}).
			do(func(s *story) { s.TTL, s.Grace = 100*time.Millisecond, 50*time.Millisecond }), guarantee: 6, want: "once@00:00:00 was left running"},
		{name: "rerun open", story: rerunOpen("waiting"), guarantee: 6, want: "rerun@00:00:04 is waiting"},
		{name: "rerun open, and killed", story: rerunOpen("waiting").drop(Down, "w2", "", -1).killed(4520, "w2")},
		{name: "rerun over, and killed", story: rerunOpen("failed").drop(Down, "w2", "", -1).killed(4520, "w2"), guarantee: 6, want: "rerun@00:00:04 is failed"},
	})
}
