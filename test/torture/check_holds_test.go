package torture

import "testing"

func TestCheckHolds(t *testing.T) {
	held := func(job string, from, to int64) *story {
		e := Event{Job: job}
		return handOver().add(from-10, "", Pausing, e).add(from, "", Held, e).add(to, "", Resuming, e).add(to+10, "", Freed, e)
	}
	without := func(s *story, job string, tick int64) *story {
		for _, kind := range []Kind{Run, Begin, Commit, End} {
			s.drop(kind, "w1", job, tick)
		}
		for i := range s.Effects {
			if e := &s.Effects[i]; e.Job == job && e.Tick > second(tick) {
				e.Seq--
			}
		}
		for i := range s.Events {
			if e := &s.Events[i]; e.Kind == Commit && e.Job == job && e.Tick > second(tick) {
				e.Seq--
			}
		}
		return s.dropEffect(job, tick)
	}
	skipped := func(s *story, text string) *story {
		without(s, "rerun", 2)
		*s.rowOf("rerun", 2) = Row{"rerun", second(2), "skipped", ownerOf("w1"), 5, 0, text}
		return s
	}
	gone := Event{Text: "the ledger has gone back, as after a backup was restored"}
	judge(t, []judged{
		{name: "run in a pause", story: held("all", 500, 3900), guarantee: 6, want: "all@00:00:02 was run, and its job was paused"},
		{name: "run in a pause of all", story: held("", 500, 3900), guarantee: 6, want: "once@00:00:02 was run, and its job was paused"},
		{name: "run in a pause of another", story: held("hold", 900, 3900)},
		{name: "run at its edge", story: held("all", 1000, 3100)},
		{name: "missing in a pause", story: without(held("all", 1500, 3100), "all", 2).dropRow("all", 2)},
		{name: "missing in a pause of another", story: without(held("once", 1500, 3100), "all", 2).dropRow("all", 2), guarantee: 6, want: "all@00:00:02 is not in the ledger"},
		{name: "skipped in a pause", story: skipped(held("rerun", 1500, 3100), "paused")},
		{name: "skipped in a pause of all", story: skipped(held("", 1500, 3100), "paused")},
		{name: "skipped in a pause, otherwise", story: skipped(held("rerun", 1500, 3100), "missed"), guarantee: 6, want: "rerun@00:00:02 was skipped: missed"},
		{name: "skipped without a pause", story: skipped(handOver(), "paused"), guarantee: 6, want: "rerun@00:00:02 was skipped as if"},
		{name: "taken for restored", story: handOver().add(2000, "w1", Trouble, gone), guarantee: 6, want: "w1 took the ledger for restored"},
		{name: "taken for restored, and writes are lost later", story: handOver().add(2000, "w1", Trouble, gone).lose(2100, 2200),
			guarantee: 6, want: "w1 took the ledger for restored"},
		{name: "restored", story: handOver().lose(1900, 1910).add(2000, "w1", Trouble, gone), count: forgotten},
		{name: "resumed, and not paused", story: handOver().add(2000, "", Freed, Event{Job: "all"}), want: "freed of job \"all\" out of turn"},
	})
}
