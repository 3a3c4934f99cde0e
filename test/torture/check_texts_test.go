package torture

import "testing"

func TestCheckTexts(t *testing.T) {
	// w1 has the odd seconds, and w2 the even ones.
	two := func(ticks ...int64) *story {
		s := handOver()
		s.From, s.To = second(1), second(4)
		s.Policies = append(s.Policies, Policy{Job: "text", Texts: true})
		s.event(Up, "w1", "", -1).Text, s.event(Up, "w2", "", -1).Text = odd, even
		for _, n := range ticks {
			worker, token := "w1", uint64(5)
			if n > 2 {
				worker, token = "w2", 8
			}
			e := of(token, "text", n, 1)
			s.add(n*1000+5, worker, Run, e).add(n*1000+6, worker, End, e).row("succeeded", worker, e)
		}
		return s
	}
	early := func(s *story) { // from when on the others need not have all ticks
		s.From -= 1e6 + 1
		for i := range s.Policies {
			s.Policies[i].All = false
		}
	}
	judge(t, []judged{
		{name: "the last of one, and the first of the other", story: two(1, 4)},
		{name: "a tick of another schedule", story: two(1, 2, 4), guarantee: 2, want: "text@00:00:02 is no tick of the schedule of w1"},
		{name: "left by the term before", story: two(1, 3)},
		{name: "of a schedule that no process had before", story: two(2, 3).do(func(s *story) { s.event(Up, "w1", "", -1).Text = even }), guarantee: 2, want: "text@00:00:03 is no tick of the schedule of w2"},
		{name: "none", story: two().do(early), guarantee: 6, want: "there is no tick of text between text@23:59:59.999999 and text@00:00:04"},
		{name: "none in a pause", story: two().do(early).add(2900, "", Pausing, Event{Job: "text"}).add(2910, "", Held, Event{Job: "text"}).
			add(3000, "", Resuming, Event{Job: "text"}).add(3010, "", Freed, Event{Job: "text"})},
		{name: "none while the clock is set", story: two().do(early).add(2000, "", Stepped, Event{})},
	})
}

// However many terms there were since, a run that was left by one with its schedule is run again.
func TestMayClaimWhatWasLeft(t *testing.T) {
	process := func(text string) *replica { return &replica{up: &Event{Text: text}} }
	var terms []*term // the newest first
	for token := uint64(6); token > 1; token-- {
		terms = append(terms, &term{Event: Event{At: instant(10_000) + int64(token), Token: token}, process: process(even)})
	}
	terms = append(terms, &term{Event: Event{At: instant(1000), Token: 1}, process: process(odd)})
	for tick, want := range map[int64]bool{9: true, 11: false, 12: true} {
		r := &run{Event: Event{At: instant(14_000), Token: 7, Tick: second(tick)}, process: process(even)}
		if got := mayClaim(terms, r); got != want {
			t.Errorf("a tick at second %d: %t, want %t", tick, got, want)
		}
	}
}
