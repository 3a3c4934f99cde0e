package torture

import "testing"

func TestCheckTakeovers(t *testing.T) {
	const late = "was killed, and could have within 2.066666666s"
	died := func(leads int64, name string) *story {
		return bare().up(0, "w1").up(0, "w2").lead(100, "w1", 5).add(3000, "", Inject, Event{Text: name}).
			killed(9000, "w1").lead(leads, "w2", 8).yield(13000, "w2", 8).down(13020, "w2").add(13100, "", Heal, Event{Text: name})
	}
	other := func(s *story, from, to int64) *story {
		return s.add(from, "", Inject, Event{Text: "x"}).add(to, "", Heal, Event{Text: "x"})
	}
	crashes := func(s Summary) int { return s.Crashes }
	judge(t, []judged{
		{name: "before its end is known", story: died(8999, crash), count: crashes},
		{name: "in time", story: died(11066, crash), count: crashes},
		{name: "late", story: died(11067, crash), guarantee: 5, want: late},
		{name: "late, starved", story: died(11160, crash).starve(10000, 100, "w2"), count: crashes},
		{name: "late, starved too shortly", story: died(11160, crash).starve(10000, 90, "w2"), guarantee: 5, want: late},
		{name: "late, starved before", story: died(11160, crash).starve(8999, 100, "w2"), guarantee: 5, want: late},
		{name: "late, by another fault", story: died(12000, "leader: SIGKILL")},
		{name: "late, in another fault", story: other(died(12000, crash), 8000, 10000)},
		{name: "late, after another fault", story: other(died(12000, crash), 1000, 2999), guarantee: 5, want: late},
		{name: "late, before another fault", story: other(died(12000, crash), 12001, 12500), guarantee: 5, want: late},
		{name: "late, after a term that had just begun", story: died(12000, crash).do(func(s *story) { s.event(Lead, "w1", "", -1).At = instant(3001) })},
	})
}
