package torture

import (
	"testing"
	"time"
)

func TestCheckClocks(t *testing.T) {
	apart := func(worker string, from, to int64) *story {
		return handOver().add(from, worker, Apart, Event{}).add(to, worker, Together, Event{})
	}
	early := func(most time.Duration) *story {
		s := handOver().row("succeeded", "w2", of(8, "hold", 5, 1))
		s.MaxSkew = most
		return s.add(4480, "w2", Run, of(8, "hold", 5, 1)).add(4490, "w2", End, of(8, "hold", 5, 1))
	}
	judge(t, []judged{
		{name: "run before its time", story: early(0), guarantee: 6, want: "hold@00:00:05 was run 520ms before its time"},
		{name: "in the ledger before its time", story: handOver().row("skipped", "w2", of(8, "hold", 5, 0)), guarantee: 6, want: "the ledger has hold@00:00:05, which is 470ms ahead of the end"},
		{name: "run before its time, by a clock that may be wrong", story: early(time.Second)},
		{name: "run while the clocks disagree", story: apart("", 500, 4200), guarantee: 6, want: "all@00:00:04 was run at a time when the clocks had disagreed since 00:00:00.5"},
		{name: "run while its own clock disagrees", story: apart("w2", 500, 4200), guarantee: 6, want: "all@00:00:04 was run at a time"},
		{name: "run while that of another disagrees", story: apart("w1", 2200, 4200).do(func(s *story) { s.TTL = time.Second })},
		{name: "run in the time that it takes to notice", story: apart("", 1500, 4400)},
		{name: "run afterwards", story: apart("", 500, 3900).do(func(s *story) { s.TTL = 3 * time.Second })},
		{name: "together, and never apart", story: handOver().add(100, "w1", Together, Event{}), want: "out of turn"},
	})
}
