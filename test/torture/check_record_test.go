package torture

import (
	"testing"
)

// Records that no fault can explain: the recording itself is wrong.
func TestCheckRecord(t *testing.T) {
	run := of(5, "all", 2, 1)
	judge(t, []judged{
		{name: "an event without a worker", story: handOver().add(10, "", Trouble, Event{}), want: "without a worker"},
		{name: "of no kind", story: handOver().add(10, "w1", "sleep", Event{}), want: "of no known kind"},
		{name: "two policies", story: handOver().do(func(s *story) { s.Policies = append(s.Policies, s.Policies[0]) }), want: "two policies"},

		{name: "no up", story: handOver().drop(Up, "w2", "", -1), want: "does not begin with its only Up"},
		{name: "up twice", story: handOver().add(10, "w2", Up, Event{Owner: "x"}), want: "does not begin with its only Up"},
		{name: "up without an owner", story: handOver().do(func(s *story) { s.event(Up, "w2", "", -1).Owner = "" }), want: "up out of turn"},
		{name: "trouble before up", story: handOver().add(-5, "w2", Trouble, Event{}).starve(-4, 100, "w2")},
		{name: "trouble after down", story: handOver().add(4600, "w2", Trouble, Event{}).starve(4601, 100, "w2")},
		{name: "trouble after a kill", story: takeOver().killed(2100, "w1").add(2101, "w1", Trouble, Event{}), want: "went on after it was killed"},
		{name: "something after a kill", story: takeOver().killed(2100, "w1").add(2101, "w1", Begin, run), want: "went on after its end"},
		{name: "something after down", story: handOver().add(4600, "w1", Follow, Event{}), want: "went on after its end"},
		{name: "neither killed nor down", story: handOver().drop(Down, "w1", "", -1), want: "ended by itself"},
		{name: "neither, of the last leader", story: handOver().drop(Down, "w2", "", -1), want: "w2 ended by itself"},
		{name: "killed before up", story: handOver().killed(50, "w3")},
		{name: "killed after down", story: handOver().killed(4600, "w1")},
		{name: "killed twice", story: takeOver().killed(2100, "w1").killed(2101, "w1"), want: "killed twice"},
		{name: "paused twice", story: handOver().pause(3100, 3200, "w1").add(3150, "w1", Paused, Event{}), want: "paused out of turn"},
		{name: "resumed twice", story: handOver().pause(3100, 3200, "w1").add(3250, "w1", Resumed, Event{}), want: "resumed out of turn"},

		{name: "lead twice", story: handOver().lead(3500, "w2", 9), want: "lead out of turn"},
		{name: "lead after drain", story: handOver().lead(2503, "w1", 6), want: "lead out of turn"},
		{name: "lead under nothing", story: handOver().do(func(s *story) { s.event(Lead, "w2", "", -1).Token = 0 }), want: "lead out of turn"},
		{name: "drain of another token", story: handOver().do(func(s *story) { s.event(Drain, "w2", "", -1).Token = 7 }), want: "drain out of turn"},
		{name: "drain without lead", story: handOver().drop(Lead, "w2", "", -1), want: "drain out of turn"},
		{name: "follow without drain", story: handOver().drop(Drain, "w1", "", -1), want: "follow out of turn"},
		{name: "down while it leads", story: handOver().drop(Drain, "w2", "", -1).drop(Follow, "w2", "", -1).drop(Follow, "w2", "", -1), want: "down out of turn"},
		{name: "down with a run", story: handOver().drop(End, "w2", "all", 4), want: "with a run that had not returned"},

		{name: "stop without run", story: handOver().drop(Run, "w2", "hold", 2), want: "stop without a run"},
		{name: "end without run", story: handOver().drop(Run, "w2", "all", 4), want: "end without a run"},
		{name: "begin without run", story: handOver().drop(Run, "w2", "all", 4), want: "begin without a run"},
		{name: "commit without run", story: handOver().drop(Run, "w2", "all", 4), want: "commit without a run"},
		{name: "of another token's run", story: handOver().do(func(s *story) { s.event(End, "w2", "all", 4).Token = 5 }), want: "end without a run"},
		{name: "commit without begin", story: handOver().drop(Begin, "w2", "all", 4), want: "commit of a run out of turn"},
		{name: "begin twice", story: handOver().add(4003, "w2", Begin, of(8, "all", 4, 1)), want: "begin of a run out of turn"},
		{name: "commit twice", story: handOver().add(4011, "w2", Commit, *handOver().event(Commit, "w2", "all", 4)), want: "commit of a run out of turn"},
		{name: "end twice", story: handOver().add(4100, "w2", End, of(8, "all", 4, 1)), want: "end of a run out of turn"},
		{name: "begin after the end", story: handOver().add(4100, "w2", Begin, of(8, "all", 4, 1)), want: "begin of a run out of turn"},
		{name: "end before commit", story: handOver().drop(Commit, "w2", "all", 4), want: "end of a run out of turn"},
		{name: "stop twice", story: handOver().add(4500, "w2", Stop, *handOver().event(Stop, "w2", "hold", 2)), want: "stop of a run out of turn"},
		{name: "stop after the end", story: handOver().add(4014, "w2", Stop, func() Event { e := of(8, "all", 4, 1); e.Text = "jobs: timeout"; return e }())},
		{name: "no outcome", story: handOver().do(func(s *story) { s.event(Commit, "w2", "all", 4).Outcome = "fine" }), want: "commit of a run out of turn"},
		{name: "stored without a number", story: handOver().do(func(s *story) { s.event(Commit, "w2", "all", 4).Seq = 0 }), want: "commit of a run out of turn"},
		{name: "ended without its check", story: handOver().do(func(s *story) {
			s.event(Commit, "w2", "all", 4).Outcome, s.event(Commit, "w2", "all", 4).Seq = Unfenced, 0
		}), want: "commit of a run out of turn"},
		{name: "refused with a number", story: handOver().do(func(s *story) { s.event(Commit, "w2", "all", 4).Outcome = Refused }), want: "commit of a run out of turn"},
		{name: "no such job", story: handOver().do(func(s *story) { s.event(Run, "w2", "all", 4).Job = "any" }), want: "no run of a job"},
		{name: "no tick", story: handOver().do(func(s *story) { s.event(Run, "w2", "all", 4).Tick = 0 }), want: "no run of a job"},
		{name: "no attempt", story: handOver().do(func(s *story) { s.event(Run, "w2", "all", 4).Attempt = 0 }), want: "no run of a job"},
		{name: "no token", story: handOver().do(func(s *story) { s.event(Run, "w2", "all", 4).Token = 0 }), want: "no run of a job"},

		{name: "a failover in another", story: handOver().lose(10, 20).add(15, "", Forget, Event{}), want: "a failover within another"},
		{name: "a failover that did not begin", story: handOver().add(15, "", Forgot, Event{}), want: "that did not begin"},
		{name: "rows of another job", story: handOver().row("failed", "w1", of(5, "any", 1, 1)), want: `row of job "any"`},
		{name: "rows of no state", story: handOver().do(func(s *story) { s.rowOf("all", 1).State = "claimed" }), want: `state "claimed"`},
		{name: "effects of another job", story: handOver().do(func(s *story) { s.effectOf("all", 1).Job = "hold" }), want: `an effect of job "hold"`},
		{name: "no interval", story: handOver().do(func(s *story) { s.Policies[0].Every = 0 }), want: "has no ticks"},
	})
}
