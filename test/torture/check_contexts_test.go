package torture

import (
	"testing"

	"github.com/cronlease/cronlease/internal/keeper"
)

func TestCheckContexts(t *testing.T) {
	const late = "the context of hold@00:00:00, a run of w1 under token 5, had not ended when w2 led under 8"
	const unnoticed = "when w1 had had the time to notice"
	// A third process that starts during a failover, and takes the lease from w1, of whose term the server knows nothing.
	newcomer := func(up, lead int64) *story {
		return bare().lose(90, 200).up(0, "w1").lead(100, "w1", 5).
			add(150, "w1", Run, of(5, "hold", 0, 1)).
			up(up, "w2").lead(lead, "w2", 8).returns(lead+1).
			row("interrupted", "w2", of(8, "hold", 0, 1)).yield(5000, "w2", 8).down(5100, "w2")
	}
	acts := func(s *story, ms int64) *story {
		return s.add(ms, "w1", Run, of(5, "hold", 1, 1)).add(ms+1, "w1", End, of(5, "hold", 1, 1)).row("interrupted", "w2", of(8, "hold", 1, 1))
	}
	judge(t, []judged{
		{name: "stopped before", story: takeOver().returns(4000)},
		{name: "stopped just before", story: takeOver().returns(4299)},
		{name: "stopped just after", story: takeOver().returns(4301), guarantee: 4, want: late},
		{name: "returned before", story: takeOver().returns(4500).drop(Stop, "w1", "hold", 0).do(func(s *story) { s.event(End, "w1", "hold", 0).At = instant(4299) })},
		{name: "returned after", story: takeOver().returns(4500).drop(Stop, "w1", "hold", 0), guarantee: 4, want: late},
		{name: "stopped before, returned after", story: takeOver().returns(4200).do(func(s *story) { s.event(End, "w1", "hold", 0).At = instant(4201) })},
		{name: "by the first run, before it says so", story: takeOver().returns(4250).do(func(s *story) { s.event(Run, "w2", "all", 3).At = instant(4249) }),
			guarantee: 4, want: late},
		{name: "its own older run", story: bare().up(0, "w1").lead(100, "w1", 5).add(150, "w1", Run, of(5, "hold", 0, 1)).
			yield(200, "w1", 5).lead(300, "w1", 6).yield(400, "w1", 6).
			add(410, "w1", End, of(5, "hold", 0, 1)).down(500, "w1").row("interrupted", "w1", of(6, "hold", 0, 1))},

		{name: "nothing more was heard of it", story: takeOver(), want: "w1 ended by itself"},
		{name: "under no term", story: takeOver().returns(4400).drop(Lead, "w1", "", -1).drop(Drain, "w1", "", -1), guarantee: 4, want: late},
		{name: "under no term at all", story: bare().up(0, "w1").add(100, "w1", Run, of(5, "hold", 0, 1)).killed(150, "w1").
			row("interrupted", "w1", of(5, "hold", 0, 1)), count: unseen},
		{name: "killed before", story: takeOver().killed(4300, "w1")},
		{name: "killed after", story: takeOver().killed(4301, "w1"), guarantee: 4, want: late},

		{name: "paused then", story: takeOver().pause(2100, 4350, "w1").returns(4400), count: excused},
		{name: "paused, then killed", story: takeOver().add(2100, "w1", Paused, Event{}).killed(4400, "w1"), count: excused},
		{name: "paused until a moment before", story: takeOver().pause(2100, 3300, "w1").returns(4300), count: nil},
		{name: "paused until a second before", story: takeOver().pause(2100, 3301, "w1").returns(4301), count: excused},
		{name: "paused until more than a second before", story: takeOver().pause(2100, 3299, "w1").returns(4301), guarantee: 4, want: late},
		{name: "paused later", story: takeOver().pause(4301, 4350, "w1").returns(4400), guarantee: 4, want: late},
		{name: "paused then, and noticed in a second", story: takeOver().pause(2100, 4350, "w1").returns(5350), count: excused},
		{name: "paused then, and not noticed", story: takeOver().pause(2100, 4350, "w1").returns(5351), guarantee: 4, want: unnoticed},
		{name: "paused again", story: takeOver().pause(2100, 4350, "w1").pause(5300, 6000, "w1").returns(6900), count: excused},
		{name: "starved before and after", story: takeOver().starve(3000, 200, "w1").starve(6000, 200, "w1").returns(6001), guarantee: 4, want: late},
		{name: "another was paused", story: takeOver().pause(2100, 4350, "w2").returns(4400).drop(Lead, "w2", "", -1).lead(4351, "w2", 8),
			guarantee: 4, want: "the context of hold@00:00:00"},

		{name: "starved then", story: takeOver().starve(4350, 2000, "w1").returns(4400), count: excused},
		{name: "starved from then on", story: takeOver().starve(4350, 50, "w1").returns(4400), count: excused},
		{name: "starved from later on", story: takeOver().starve(4350, 49, "w1").returns(4400), guarantee: 4, want: late},
		{name: "starved until shortly before", story: takeOver().starve(4200, 1000, "w1").returns(4300), count: nil},
		{name: "starved until a tenth before", story: takeOver().starve(4201, 1000, "w1").returns(4301), count: excused},
		{name: "starved until earlier", story: takeOver().starve(4199, 1000, "w1").returns(4301), guarantee: 4, want: late},
		{name: "starved then, and not noticed", story: takeOver().starve(4350, 2000, "w1").returns(4451), guarantee: 4, want: unnoticed},

		{name: "a late act, paused", story: acts(takeOver().pause(2100, 4350, "w1").returns(4400), 4360), count: lateActs},
		{name: "a late act, starved", story: acts(takeOver().starve(4350, 2000, "w1").returns(4449), 4440), count: lateActs},
		{name: "a late act, noticed long ago", story: acts(takeOver().pause(2100, 4350, "w1").returns(5355), 5352),
			guarantee: 4, want: "w1 started hold@00:00:01 under token 5 when w2 led under 8"},
		{name: "a late act", story: acts(takeOver().returns(4310), 4305), guarantee: 4, want: "w1 started hold@00:00:01 under token 5 when w2 led under 8"},

		{name: "put back then", story: takeOver().add(4300, "", Rewound, Event{}).returns(4400), count: excused},
		{name: "put back a TTL before", story: takeOver().add(2301, "", Rewound, Event{}).returns(4301), count: excused},
		{name: "put back more than a TTL before", story: takeOver().add(2299, "", Rewound, Event{}).returns(4301), guarantee: 4, want: late},
		{name: "put back later", story: takeOver().add(4301, "", Rewound, Event{}).returns(4400), guarantee: 4, want: late},
		{name: "put back, and not noticed", story: takeOver().add(4200, "", Rewound, Event{}).returns(6201), guarantee: 4, want: unnoticed},
		{name: "put back, and it goes on", story: acts(takeOver().add(4200, "", Rewound, Event{}).returns(6210), 6201),
			guarantee: 4, want: "w1 started hold@00:00:01 under token 5 when w2 led under 8"},

		{name: "a newcomer in a failover", story: newcomer(150, 300), count: excused},
		{name: "a newcomer after it", story: newcomer(250, 2199), count: excused},
		{name: "a newcomer in one without an end", story: newcomer(150, 2500).drop(Forgot, "", "", -1), count: excused},
		{name: "one who was there before", story: newcomer(50, 300), guarantee: 4, want: late},
		{name: "a newcomer a TTL later", story: newcomer(150, 2201), guarantee: 4, want: late},
		{name: "a newcomer without a failover", story: newcomer(150, 300).drop(Forget, "", "", -1).drop(Forgot, "", "", -1), guarantee: 4, want: late},
	})
}

// A lease that was taken early says nothing of the contexts of its former holder, until a run of the same job begins.
func TestCheckContextsOfEarlyTerms(t *testing.T) {
	const late, act = "the context of hold@00:00:00, a run of w1 under token 5, had not ended when w2 led under 8", "w1 started hold@00:00:01 under token 5 when w2 led under 8"
	early := func(token uint64) *story { return takeOver().add(4299, "w2", Early, Event{Token: token}) }
	same := func(s *story, ms int64) *story { return s.hold(ms, ms+1, "w2", of(8, "hold", 3, 1)) }
	acts := func(s *story, ms int64) *story {
		return s.add(ms, "w1", Run, of(5, "hold", 1, 1)).add(ms+1, "w1", End, of(5, "hold", 1, 1)).row("interrupted", "w2", of(8, "hold", 1, 1))
	}
	judge(t, []judged{
		{name: "runs of other jobs", story: early(8).returns(4400)},
		{name: "perhaps early", story: early(0).returns(4400)},
		{name: "another term was early", story: early(7).returns(4400), guarantee: 4, want: late},
		{name: "a run of the job", story: same(early(8), 4399).returns(4400), guarantee: 4, want: late},
		{name: "a run of the job, later", story: same(early(8), 4401).returns(4400)},
		{name: "a run of the job while it was paused", story: same(early(8), 4401).pause(2100, 4350, "w1").returns(4402), count: excused},
		{name: "a run of the job after it was killed", story: same(early(8), 4401).killed(4400, "w1")},
		{name: "a run of the job before it was killed", story: same(early(8), 4401).killed(4402, "w1"), guarantee: 4, want: late},
		{name: "started late", story: acts(early(8).returns(4400), 4350)},
		{name: "started late, before a run of the job", story: acts(same(early(8), 4410).returns(4400), 4350)},
		{name: "started late, after a run of the job", story: acts(same(early(8), 4350).returns(4400), 4360), guarantee: 4, want: act},
		{name: "started late, under a term that was not early", story: acts(early(0).yield(4302, "w2", 8).lead(4320, "w2", 9).returns(4400), 4350),
			guarantee: 4, want: "w1 started hold@00:00:01 under token 5 when w2 led under 9"},
	})
}

// Contexts that have ended too late for their runs to stop in time are counted: when they ended is not recorded exactly.
func TestCheckTight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stop, end int64
		want      int
	}{{4000, 4400, 0}, {4001, 4400, 1}, {4001, 4299, 0}} {
		s := takeOver().returns(c.stop)
		s.event(End, "w1", "hold", 0).At = instant(c.end)
		s.event(Drain, "w1", "", -1).At = instant(4401)
		s.event(Down, "w1", "", -1).At = instant(4500)
		for i := range s.Events {
			if e := &s.Events[i]; e.Worker == "w1" && e.Kind == Follow && e.At > instant(100) {
				e.At = instant(4450)
			}
		}
		summary, found := Check(s.History)
		if len(found) > 0 || summary.Tight != c.want {
			t.Errorf("stopped at %d, returned at %d: %d are tight, want %d; %v", c.stop, c.end, summary.Tight, c.want, found)
		}
	}
}

func TestCheckCauses(t *testing.T) {
	stop := func(text string) *story {
		return handOver().do(func(s *story) { s.event(Stop, "w2", "hold", 2).Text = text })
	}
	judge(t, []judged{
		{name: "lost", story: stop("lease: lost: not renewed for 1.7s")},
		{name: "stopped", story: stop("election: stopped")},
		{name: "timeout", story: stop("jobs: timeout")},
		{name: "refused", story: stop("lease: lost: store: the term is over: the group has a newer token")},
		{name: "nothing", story: stop(""), guarantee: 4, want: "stop does not say why"},
		{name: "cancelled", story: stop("context canceled"), guarantee: 4, want: "stop does not say why"},
		{name: "a word", story: stop("the release of an election"), guarantee: 4, want: "stop does not say why"},
		{name: "drain", story: handOver().do(func(s *story) { s.event(Drain, "w2", "", -1).Text = "<nil>" }), guarantee: 4, want: "drain does not say why"},
	})
}

func TestCheckCutShort(t *testing.T) {
	const wrong = "hold@00:00:01, a run of w1 under token 5, was ended by its guard in a term that went on"
	cut := func(s *story) *story {
		e := of(5, "hold", 1, 1)
		s.add(1100, "w1", Run, e)
		e.Text = "stopped: " + keeper.ErrCutShort.Error() + ": its guard"
		return s.add(4000, "w1", End, e).row("interrupted", "w1", e).yield(5000, "w1", 5).down(5100, "w1")
	}
	begin := func() *story { return bare().up(0, "w1").lead(100, "w1", 5) }
	judge(t, []judged{
		{name: "in a term", story: cut(begin()), guarantee: 7, want: wrong},
		{name: "paused before", story: cut(begin()).pause(1900, 2500, "w1"), count: excused},
		{name: "starved before", story: cut(begin()).starve(3000, 200, "w1"), count: excused},
		{name: "paused long before", story: cut(begin()).pause(200, 900, "w1"), guarantee: 7, want: wrong},
		{name: "another was paused", story: cut(begin()).up(50, "w2").pause(2900, 3500, "w2").down(6000, "w2"), guarantee: 7, want: wrong},
	})
}
