package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

var start = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a run of the tick after n seconds that arrived late.
func at(n int, late time.Duration, token uint64) ran {
	tick := start.Add(time.Duration(n) * time.Second)
	return ran{tick: tick, replica: "replica-1", token: token, at: tick.Add(late)}
}

func TestTally(t *testing.T) {
	t.Parallel()
	var tally tally
	for i, r := range []ran{at(1, 0, 5), at(2, 0, 5), at(2, 10*time.Millisecond, 5), at(6, 500*time.Millisecond, 9), at(7, 0, 9)} {
		if double := tally.add(r); double != (i == 2) {
			t.Errorf("%d: double %v", i, double)
		}
	}
	tally.term(9)
	tally.term(12)
	got := tally.summary(start, start.Add(8*time.Second))
	want := Summary{Lasted: 8 * time.Second, Ticks: 4, Doubles: 1, Missed: 3, Takeovers: 2, Gap: 4490 * time.Millisecond}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, part := range []string{"Seen in 8s: ticks 4, doubles 1, missed 3, takeovers 2, longest gap 4.5s\n", "A MISSED TICK IS A FAULT", "A DOUBLE IS A FAULT"} {
		if !strings.Contains(got.String(), part) {
			t.Errorf("no %q in %q", part, got)
		}
	}
	if late := tally.summary(start, start.Add(20*time.Second)); late.Gap != 13*time.Second {
		t.Errorf("the gap until now: %v", late.Gap)
	}
}

// What was missing when the demo ended may still arrive, or be known to the
// ledger as interrupted.
func TestMissing(t *testing.T) {
	t.Parallel()
	s := &show{Options: Options{Group: "demo", History: history{
		// Tick 6 has no run; 3 arrived after all, and 9 is after the last.
		jobs.Interrupted: {at(4, 0, 0).tick, at(3, 0, 0).tick, at(9, 0, 0).tick},
		jobs.Cancelled:   {at(5, 0, 0).tick},
	}}}
	s.tally.late(at(1, 0, 5)) // nothing to be missing from
	for _, r := range []ran{at(1, 0, 5), at(2, 0, 5), at(7, 0, 9)} {
		s.tally.add(r)
	}
	s.tally.late(at(3, 0, 5))
	s.tally.late(at(8, 0, 9))
	s.tally.late(at(2, 0, 9))
	got := s.tally.summary(start, start.Add(8*time.Second))
	if got.Ticks != 4 || got.Missed != 3 || got.Doubles != 1 {
		t.Errorf("got %+v", got)
	}
	if n, err := s.interrupted(t.Context()); n != 2 || err != nil {
		t.Errorf("%d interrupted, %v", n, err)
	}
	got.Interrupted, got.Missed = 2, 1
	if text := got.String(); !strings.Contains(text, "Beside these, 2 ran just when their worker was killed") {
		t.Errorf("got %s", text)
	}
}

// history is a ledger's, by state.
type history map[jobs.State][]time.Time

func (h history) Runs(_ context.Context, _ string, f jobs.Filter) ([]jobs.Record, error) {
	var records []jobs.Record
	for _, tick := range h[f.State] {
		records = append(records, jobs.Record{Key: jobs.Key{Job: f.Job, Tick: tick}, State: f.State})
	}
	return records, nil
}

func TestTallyOfNothing(t *testing.T) {
	t.Parallel()
	var tally tally
	got := tally.summary(start, start.Add(time.Second))
	if (got != Summary{Lasted: time.Second}) || !strings.Contains(got.String(), "No tick ran") {
		t.Errorf("got %+v: %s", got, got)
	}
}

func TestBoard(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := &board{out: &out, size: func() (int, int) { return 60, 12 }}
	s := &show{
		Options: Options{For: time.Minute}, began: start, lookedAt: start.Add(time.Second), board: b,
		replicas: []*replica{{name: "replica-1", killedAt: start}},
		leader:   election.Leadership{Owner: "replica-2/h/1/x", Token: 7, TTL: ttl},
		recent:   []ran{at(1, 0, 7), at(2, 0, 7)},
	}
	for i := range 30 {
		b.event(strings.Repeat("wide ", 50) + string(rune('a'+i%26)))
	}
	b.draw(s, start.Add(1500*time.Millisecond))
	b.draw(s, start.Add(1510*time.Millisecond)) // too soon, and nothing new
	first := out.String()
	if n := strings.Count(first, "\n"); n != 11 {
		t.Errorf("%d lines on a terminal of 12", n)
	}
	for line := range strings.Lines(first) {
		line = strings.NewReplacer(bold, "", plain, "", clearLine, "", clearBelow, "", "\r", "", "\n", "").Replace(line)
		if len(line) > 59 {
			t.Errorf("%d wide: %q", len(line), line)
		}
	}
	for _, part := range []string{"1s of 1m0s", "not running", "00:00:02 on replica-1  00:00:01 on replica-1"} {
		if !strings.Contains(first, part) {
			t.Errorf("no %q in\n%s", part, first)
		}
	}
	b.event("more")
	b.draw(s, start.Add(1520*time.Millisecond))
	if again := out.String()[len(first):]; !strings.HasPrefix(again, "\x1b[11A\r") {
		t.Errorf("not in place: %.20q", again)
	}
}
