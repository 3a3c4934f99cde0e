package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// story builds a history. Instants are milliseconds from its beginning, which is a whole day; ticks are seconds from it.
type story struct {
	History
	last map[string]uint64 // each job's last effect
}

const storyBegins = 1_800_057_600 // seconds since 1970: the beginning of a day

func newStory() *story {
	s := &story{last: map[string]uint64{}}
	s.TTL, s.Grace = 2*time.Second, 300*time.Millisecond
	s.From, s.To = second(1), second(4)
	s.Policies = []Policy{
		{Job: "all", Every: time.Second, All: true, Effects: true},
		{Job: "rerun", Every: time.Second, All: true, Rerun: true, Effects: true},
		{Job: "once", Every: time.Second, Effects: true},
		{Job: "hold", Every: time.Second},
	}
	return s
}

// bare is a history without ticks that have to be there.
func bare() *story { return newStory().do(func(s *story) { s.To = s.From - 1 }) }

// second is a tick.
func second(n int64) int64 { return (storyBegins + n) * 1e6 }

// instant is when an event is.
func instant(ms int64) int64 { return storyBegins*1e9 + ms*1e6 }

func ownerOf(worker string) string { return "owner-" + worker }

// add adds an event.
func (s *story) add(ms int64, worker string, kind Kind, e Event) *story {
	e.At, e.Worker, e.Kind = instant(ms), worker, kind
	s.Events = append(s.Events, e)
	return s
}

func (s *story) up(ms int64, worker string) *story {
	return s.add(ms, worker, Up, Event{Owner: ownerOf(worker)}).add(ms, worker, Follow, Event{})
}

func (s *story) lead(ms int64, worker string, token uint64) *story {
	return s.add(ms, worker, Lead, Event{Token: token})
}

// yield ends a term.
func (s *story) yield(ms int64, worker string, token uint64) *story {
	return s.add(ms, worker, Drain, Event{Token: token, Text: "election: resigned"}).add(ms+10, worker, Follow, Event{})
}

func (s *story) down(ms int64, worker string) *story   { return s.add(ms, worker, Down, Event{}) }
func (s *story) killed(ms int64, worker string) *story { return s.add(ms, worker, Killed, Event{}) }

// pause lasts until another instant.
func (s *story) pause(ms, until int64, worker string) *story {
	return s.add(ms, worker, Paused, Event{}).add(until, worker, Resumed, Event{})
}

// starve is over at ms.
func (s *story) starve(ms, length int64, worker string) *story {
	return s.add(ms, worker, Starved, Event{For: length * 1e6})
}

// lose is a failover that forgets what was written between two instants.
func (s *story) lose(from, to int64) *story {
	return s.add(from, "", Forget, Event{}).add(to, "", Forgot, Event{})
}

// of names a run.
func of(token uint64, job string, tick int64, attempt int) Event {
	return Event{Token: token, Job: job, Tick: second(tick), Attempt: attempt}
}

// row adds a row to the ledger.
func (s *story) row(state, worker string, e Event) *story {
	s.Rows = append(s.Rows, Row{e.Job, e.Tick, state, ownerOf(worker), e.Token, e.Attempt, ""})
	return s
}

// attempt is a run with a transaction that takes 10 ms. Stored, it has the job's next number.
func (s *story) attempt(ms int64, worker, outcome string, e Event) *story {
	s.add(ms, worker, Run, e).add(ms+1, worker, Begin, e)
	commit := e
	commit.Outcome = outcome
	if outcome == Stored {
		s.last[e.Job]++
		commit.Seq = s.last[e.Job]
		s.Effects = append(s.Effects, Effect{e.Job, commit.Seq, e.Tick, e.Attempt, e.Token, ownerOf(worker)})
	}
	return s.add(ms+11, worker, Commit, commit).add(ms+12, worker, End, e)
}

// done is an attempt that succeeds, and its row.
func (s *story) done(ms int64, worker string, e Event) *story {
	return s.attempt(ms, worker, Stored, e).row("succeeded", worker, e)
}

// work is what is due of a tick, but for hold.
func (s *story) work(ms int64, worker string, token uint64, tick int64) *story {
	return s.done(ms, worker, of(token, "all", tick, 1)).done(ms+1, worker, of(token, "rerun", tick, 1)).
		done(ms+2, worker, of(token, "once", tick, 1))
}

// hold is a run that ends with its context.
func (s *story) hold(ms, until int64, worker string, e Event) *story {
	stop := e
	stop.Text = "election: resigned"
	return s.add(ms, worker, Run, e).add(until, worker, Stop, stop).add(until+1, worker, End, stop).row("cancelled", worker, e)
}

// handOver is a history in which all is well: w1 leads under 5, and then gives the lease to w2, which leads under 8.
func handOver() *story {
	return newStory().
		up(0, "w1").up(0, "w2").
		lead(100, "w1", 5).
		hold(150, 2500, "w1", of(5, "hold", 0, 1)).
		work(1000, "w1", 5, 1).
		work(2000, "w1", 5, 2).
		yield(2502, "w1", 5).
		lead(2600, "w2", 8).
		hold(2700, 4500, "w2", of(8, "hold", 2, 1)).
		work(3000, "w2", 8, 3).
		work(4000, "w2", 8, 4).
		yield(4502, "w2", 8).
		down(4520, "w2").down(4530, "w1")
}

// takeOver is one in which w2 takes the lease from w1, which has a run and stops saying anything. What has become of w1
// is left to say.
func takeOver() *story {
	return newStory().
		up(0, "w1").up(0, "w2").
		lead(100, "w1", 5).
		add(150, "w1", Run, of(5, "hold", 0, 1)).row("interrupted", "w2", of(8, "hold", 0, 1)).
		work(1000, "w1", 5, 1).
		work(2000, "w1", 5, 2).
		lead(4300, "w2", 8).
		work(4310, "w2", 8, 3).
		work(4320, "w2", 8, 4).
		yield(9000, "w2", 8).
		down(9020, "w2")
}

// returns is what w1 does in takeOver when it notices that it was replaced.
func (s *story) returns(ms int64) *story {
	stop := of(5, "hold", 0, 1)
	stop.Text = "lease: lost: not renewed for 2s"
	return s.add(ms, "w1", Stop, stop).add(ms+1, "w1", End, stop).yield(ms+2, "w1", 5).down(ms+20, "w1")
}

// failOver is one in which a failover forgets what w1 has done of the second tick, and w2 does it again.
func failOver() *story {
	s := newStory().
		up(0, "w1").up(0, "w2").
		lead(100, "w1", 5).
		work(1000, "w1", 5, 1).
		lose(1990, 2300).
		work(2000, "w1", 5, 2).
		yield(2310, "w1", 5)
	for job := range s.last {
		s.last[job]--
	}
	forgotten := func(tick int64) bool { return tick == second(2) }
	s.Rows = slices.DeleteFunc(s.Rows, func(r Row) bool { return forgotten(r.Tick) })
	s.Effects = slices.DeleteFunc(s.Effects, func(e Effect) bool { return forgotten(e.Tick) })
	return s.
		lead(4500, "w2", 8).
		work(4510, "w2", 8, 2).
		work(4520, "w2", 8, 3).
		work(4530, "w2", 8, 4).
		yield(4600, "w2", 8).
		down(4620, "w2").down(4630, "w1")
}

// event is the first of a kind, by a worker, of a tick of a job ("" and -1: any).
func (s *story) event(kind Kind, worker, job string, tick int64) *Event {
	for i := range s.Events {
		if e := &s.Events[i]; e.Kind == kind && e.Worker == worker && (job == "" || e.Job == job) && (tick < 0 || e.Tick == second(tick)) {
			return e
		}
	}
	panic(fmt.Sprintf("no %s of %s@%d by %s", kind, job, tick, worker))
}

// drop takes out an event.
func (s *story) drop(kind Kind, worker, job string, tick int64) *story {
	e := *s.event(kind, worker, job, tick)
	s.Events = slices.DeleteFunc(s.Events, func(other Event) bool { return other == e })
	return s
}

// rowOf is a tick's row.
func (s *story) rowOf(job string, tick int64) *Row {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Job == job && r.Tick == second(tick) })
	return &s.Rows[i]
}

// dropRow takes out a tick's row.
func (s *story) dropRow(job string, tick int64) *story {
	r := *s.rowOf(job, tick)
	s.Rows = slices.DeleteFunc(s.Rows, func(other Row) bool { return other == r })
	return s
}

// effectOf is a tick's effect.
func (s *story) effectOf(job string, tick int64) *Effect {
	i := slices.IndexFunc(s.Effects, func(e Effect) bool { return e.Job == job && e.Tick == second(tick) })
	return &s.Effects[i]
}

// dropEffect takes out a tick's effect.
func (s *story) dropEffect(job string, tick int64) *story {
	e := *s.effectOf(job, tick)
	s.Effects = slices.DeleteFunc(s.Effects, func(other Effect) bool { return other == e })
	return s
}

// do is for what has no method of its own.
func (s *story) do(f func(s *story)) *story {
	f(s)
	return s
}

// judged is a history and what has to be found in it: part of a violation's text, or nothing at all.
type judged struct {
	name      string
	story     *story
	guarantee int
	want      string            // "": there is no violation
	count     func(Summary) int // of what was excused; nil: nothing
}

// judge checks histories. Where there is a violation, others may come of it; where there is none, no other may be.
func judge(t *testing.T, all []judged) {
	t.Helper()
	t.Parallel()
	for _, j := range all {
		t.Run(strings.ReplaceAll(j.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			summary, found := Check(j.story.History)
			is := func(v Violation) bool { return v.Guarantee == j.guarantee && strings.Contains(v.What, j.want) }
			switch {
			case j.want == "" && len(found) > 0:
				t.Errorf("%d violations, want none:", len(found))
			case j.want != "" && !slices.ContainsFunc(found, is):
				t.Errorf("want a violation of %d with %q, got %d:", j.guarantee, j.want, len(found))
			case j.count != nil && j.count(summary) == 0:
				t.Errorf("nothing was excused: %+v", summary)
			case j.want == "" && j.count == nil && summary.Excused+summary.LateActs+summary.Forgotten+summary.Unseen > 0:
				t.Errorf("something was excused: %+v", summary)
			default:
				return
			}
			for _, v := range found {
				t.Log(v)
			}
		})
	}
}

func forgotten(s Summary) int { return s.Forgotten }
func excused(s Summary) int   { return s.Excused }
func lateActs(s Summary) int  { return s.LateActs }
func unseen(s Summary) int    { return s.Unseen }

// What is well.
func TestCheckGood(t *testing.T) {
	judge(t, []judged{
		{name: "hand-over", story: handOver()},
		{name: "nothing", story: bare()},
		{name: "killed", story: takeOver().killed(2100, "w1")},
		{name: "failover", story: failOver(), count: forgotten},
		{name: "in another order", story: handOver().do(func(s *story) {
			of2 := func(e Event) bool { return e.Worker == "w2" }
			late := slices.DeleteFunc(slices.Clone(s.Events), func(e Event) bool { return !of2(e) })
			s.Events = append(late, slices.DeleteFunc(s.Events, of2)...)
		})},
	})
}

// The counts of a history, and of two.
func TestCheckSummary(t *testing.T) {
	t.Parallel()
	s := handOver().add(3500, "", Inject, Event{Text: "x"}).add(3600, "", Heal, Event{Text: "x"}).starve(3700, 200, "w1").pause(3800, 3900, "w1")
	got, found := Check(s.History)
	if len(found) > 0 {
		t.Error(found)
	}
	want := Summary{
		Rounds: 1, Quiet: 1, Workers: 2, Paused: 1, Starved: 1, Faults: 1, Terms: 2, Runs: 14, Stops: 2,
		Ticks: 8, Rows: 14, Effects: 12, Stored: 12,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if killed, _ := Check(takeOver().killed(2100, "w1").drop(Down, "w2", "", -1).killed(9020, "w2").History); killed.Rounds != 1 || killed.Quiet != 0 || killed.Killed != 2 {
		t.Errorf("a round that ends with a kill: %+v", killed)
	}
	sum := got
	sum.Add(want)
	sum.Add(Summary{Killed: 3})
	if sum.Runs != 28 || sum.Rounds != 2 || sum.Killed != 3 {
		t.Errorf("the sum is %+v", sum)
	}
	if text := got.String(); !strings.Contains(text, "1 of 1 ends were quiet\n2 terms (and 0 unseen; 0 taken early), 0 crashes when all was well, 14 runs, 2 contexts ended, 0 pauses of jobs\n8 ticks, 14 rows, 12 effects\n") {
		t.Error(text)
	}
}

// A violation as it is printed.
func TestCheckViolation(t *testing.T) {
	t.Parallel()
	e := of(5, "all", 2, 1)
	e.At, e.Worker, e.Kind, e.Outcome, e.Seq, e.Text = instant(2011), "w1", Commit, Stored, 7, "why"
	starved := Event{At: instant(0), Worker: "w2", Kind: Starved, For: 2e8}
	got := Violation{3, "what", []Event{e, starved}}.String()
	const want = `guarantee 3, no fenced transaction of a replaced holder commits: what
    00:00:02.011000 commit w1 token 5 all@00:00:02 attempt 1 stored seq 7 "why"
    00:00:00.000000 starved w2 for 200ms`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is wrong all the time is not said each time.
func TestCheckMore(t *testing.T) {
	t.Parallel()
	s := long(30)
	for i := range s.Rows {
		s.Rows[i].State = "skipped"
	}
	_, found := Check(s.History)
	if n := len(found); n != mostShown+1 || found[n-1].Guarantee != 6 || found[n-1].What != "and 50 more" {
		t.Errorf("%d violations: %v", n, found)
	}
}
