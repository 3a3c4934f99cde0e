package torture

import "testing"

// spreadOut is a history in which the runs of two jobs are spread over two workers, and all is well.
func spreadOut() *story {
	return bare().do(func(s *story) {
		s.Spread = true
		for i := range s.Policies {
			s.Policies[i].Serial = s.Policies[i].Job == "once" || s.Policies[i].Job == "hold"
		}
	}).
		up(0, "w1").up(0, "w2").
		lead(100, "w1", 5).
		done(1000, "w1", of(10, "once", 1, 1)).
		done(2000, "w2", of(11, "once", 2, 1))
}

// over ends it.
func (s *story) over() *story { return s.yield(9000, "w1", 5).down(9100, "w1").down(9100, "w2") }

func TestCheckSpread(t *testing.T) {
	judge(t, []judged{
		{name: "as it should be", story: spreadOut().over()},
		{name: "runs of a job that overlaps", story: spreadOut().
			add(3000, "w1", Run, of(20, "all", 2, 1)).attempt(3100, "w2", Stored, of(21, "all", 3, 1)).row("succeeded", "w2", of(21, "all", 3, 1)).
			add(3200, "w1", End, of(20, "all", 2, 1)).row("failed", "w1", of(20, "all", 2, 1)).over()},
		{name: "two runs at once", guarantee: 4, want: "the context of hold@00:00:03, attempt 1 on w1, had not ended when hold@00:00:04 began, attempt 1 on w2",
			story: spreadOut().hold(3000, 5000, "w1", of(20, "hold", 3, 1)).hold(4000, 6000, "w2", of(21, "hold", 4, 1)).over()},
		{name: "two attempts at once", guarantee: 4, want: "the context of all@00:00:03, attempt 1 on w1, had not ended when all@00:00:03 began, attempt 2 on w2",
			story: spreadOut().add(3000, "w1", Run, of(20, "all", 3, 1)).done(3100, "w2", of(21, "all", 3, 2)).add(3200, "w1", End, of(20, "all", 3, 1)).over()},
		{name: "the first was killed", story: spreadOut().up(2900, "w3").add(3000, "w3", Run, of(20, "all", 3, 1)).killed(3050, "w3").done(3100, "w2", of(21, "all", 3, 2)).over()},
		{name: "the first was paused", story: spreadOut().add(3000, "w2", Run, of(20, "all", 3, 1)).pause(3050, 4000, "w2").done(3100, "w1", of(21, "all", 3, 2)).
			add(4100, "w2", Stop, stopOf(20, "all", 3)).add(4110, "w2", End, of(20, "all", 3, 1)).over(), count: func(s Summary) int { return s.Excused }},
		{name: "and did not notice", guarantee: 4, want: "had not ended", story: spreadOut().add(3000, "w2", Run, of(20, "all", 3, 1)).pause(3050, 4000, "w2").done(3100, "w1", of(21, "all", 3, 2)).
			add(6000, "w2", End, of(20, "all", 3, 1)).over()},
		{name: "one token for two", guarantee: 1, want: "two attempts of job all have token 20",
			story: spreadOut().done(3000, "w1", of(20, "all", 3, 1)).done(4000, "w2", of(20, "all", 4, 1)).over()},
		{name: "tokens go back", guarantee: 1, want: "the tokens of job once go back", story: spreadOut().done(3000, "w1", of(9, "once", 3, 1)).over()},
		{name: "tokens of attempts go back", guarantee: 1, want: "the tokens of job all go back",
			story: spreadOut().attempt(3000, "w1", Broken, of(21, "all", 3, 1)).done(4000, "w2", of(20, "all", 3, 2)).over()},
		{name: "an order of commits that tokens do not have", guarantee: 3, want: "effect 3 of job once is of token 9",
			story: spreadOut().done(3000, "w1", of(9, "once", 3, 1)).over()},
		{name: "the token of an attempt is by chance that of a term, too", story: spreadOut().yield(2500, "w1", 5).add(2550, "w1", Follow, Event{}).lead(2600, "w1", 8).
			done(3000, "w1", of(5, "all", 3, 1)).yield(9000, "w1", 8).down(9100, "w1").down(9100, "w2")},
		{name: "its order is free where runs overlap", story: spreadOut().done(3000, "w1", of(21, "all", 3, 1)).done(4000, "w2", of(20, "all", 4, 1)).over()},
	})
}

// stopOf is the end of a run's context.
func stopOf(token uint64, job string, tick int64) Event {
	e := of(token, job, tick, 1)
	e.Text = "lease: lost: not renewed for 2s"
	return e
}
