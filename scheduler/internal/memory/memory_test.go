package memory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

var noon = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

// at is so many minutes after noon; by this machine's clock and the database's, which agree here.
func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

const (
	bound = 10 * time.Minute
	ttl   = time.Minute
)

// ledger is what a server shows at a minute, in which the job has that newest tick.
func ledger(server string, now, tick int) jobs.Snapshot {
	return jobs.Snapshot{Server: server, Now: at(now), Opened: jobs.Opened{Token: 7}, Jobs: map[string]jobs.Known{"job": {Since: noon, Cursor: at(tick)}}}
}

// seen is a memory that has read a ledger of server a at each of the minutes, in which the job had the tick of that minute.
func seen(minutes ...int) *Memory {
	m := New(bound, ttl, false)
	for _, minute := range minutes {
		m.Learn(ledger("a", minute, minute), at(minute))
	}
	return m
}

func minutes(from, to int) (all []int) {
	for minute := from; minute <= to; minute++ {
		all = append(all, minute)
	}
	return all
}

// What the same server lacks was taken away; another one may lack what a failover lost.
func TestLacks(t *testing.T) {
	t.Parallel()
	with := func(s jobs.Snapshot, change func(*jobs.Snapshot)) jobs.Snapshot { change(&s); return s }
	for _, test := range []struct {
		name string
		m    *Memory
		s    jobs.Snapshot
		sent time.Time
		want string // part of the answer; empty: nothing
	}{
		{"nothing is known", seen(), ledger("a", 5, 1), at(5), ""},
		{"as it was", seen(1, 2), ledger("a", 5, 2), at(5), ""},
		{"goes on", seen(1, 2), ledger("a", 5, 4), at(5), ""},
		{"an earlier tick", seen(1, 2), ledger("a", 5, 1), at(5), "has 2026-03-28 12:01"},
		{"no tick", seen(1), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Jobs["job"] = jobs.Known{Since: noon} }), at(5), "it had tick"},
		{"an earlier tick, read before it was there", seen(1, 2), ledger("a", 5, 1), at(2), ""},
		{"an earlier tick, read right after", seen(1, 2), ledger("a", 5, 1), at(2).Add(1), "it had tick"},
		{"the job was removed", seen(1, 2), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Jobs = nil }), at(5), ""},
		{"the job was made again", seen(1, 2), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Jobs["job"] = jobs.Known{Since: at(4), Cursor: at(1)} }), at(5), ""},
		{"a tick of the future", seen(1, 2), ledger("a", 1, 1), at(5), ""},
		{"an earlier term", seen(1), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Opened.Token = 6 }), at(5), "it had term 7, and has 6"},
		{"a later term", seen(1), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Opened.Token = 8 }), at(5), ""},
		{"an earlier term, read before", seen(1), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Opened.Token = 6 }), at(1), ""},
		{"no term, of an older release", seen(1), with(ledger("a", 5, 1), func(s *jobs.Snapshot) { s.Opened.Token = 0 }), at(5), ""},
		{"an empty ledger", seen(1), jobs.Snapshot{Server: "a", Now: at(5)}, at(5), "it had term 7, and has 0"},

		{"another server, as it was", seen(minutes(1, 30)...), ledger("b", 31, 30), at(31), ""},
		{"another server lacks what a failover loses", seen(minutes(1, 30)...), ledger("b", 31, 21), at(31), ""},
		{"another server lacks more", seen(minutes(1, 30)...), ledger("b", 31, 1), at(31), "it had tick"},
		{"another server lacks the term", seen(minutes(1, 30)...), with(ledger("b", 31, 30), func(s *jobs.Snapshot) { s.Opened.Token = 6 }), at(31), "it had term"},
		{"another server lacks the term that has just begun", seen(30), with(ledger("b", 31, 30), func(s *jobs.Snapshot) { s.Opened.Token = 6 }), at(31), ""},
	} {
		got := test.m.Lacks(test.s, test.sent)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: lacks %q, want %q", test.name, got, test.want)
		}
	}
}

// After a bound of contact with a server, another one has to have what was there before it, however often ticks come.
func TestLacksOfAnotherServer(t *testing.T) {
	t.Parallel()
	for _, every := range []int{1, 2, 7, 11, 12, 25} {
		for last := every; last < 200; last += every {
			m := seen()
			for minute := every; minute <= last; minute += every {
				m.Learn(ledger("a", minute, minute), at(minute))
			}
			for tick := 0; tick <= last; tick += every {
				got := m.Lacks(ledger("b", last+1, tick), at(last+1)) != ""
				lost := time.Duration(last-tick) * time.Minute
				// A tick is known to have been there a bound before the contact from when there are two that far apart.
				if far := bound + ttl; got && lost < bound || !got && lost >= 3*far+time.Duration(every)*time.Minute {
					t.Fatalf("a tick each %d minutes: lost %v, alarm %v", every, lost, got)
				}
			}
		}
	}
}

// A look at the lease, or an answer, shows that what was there is there still.
func TestContact(t *testing.T) {
	t.Parallel()
	lost := ledger("b", 20, 0)
	lost.Jobs["job"] = jobs.Known{Since: noon}
	for _, test := range []struct {
		name    string
		contact func(m *Memory)
		want    bool
	}{
		{"none since", func(*Memory) {}, false},
		{"an answer of the same server", func(m *Memory) { m.Alive("a", at(11), at(11)) }, true},
		{"an answer too soon", func(m *Memory) { m.Alive("a", at(11).Add(-1), at(11)) }, false},
		{"an answer of another server", func(m *Memory) { m.Alive("b", at(11), at(11)) }, false},
		{"one look", func(m *Memory) { m.Look("a", at(11), at(11)) }, false},
		{"two looks", func(m *Memory) { m.Look("a", at(11), at(11)); m.Look("a", at(12), at(12)) }, true},
		{"two looks, of which another server answered the first", func(m *Memory) { m.Look("a", at(11), at(11)); m.Look("b", at(12), at(12)) }, false},
		{"two looks, of which the first is old", func(m *Memory) { m.Look("a", noon, noon); m.Look("a", at(12), at(12)) }, false},
		{"a term of its own", func(m *Memory) { m.Opened(8, at(11)) }, true},
		{"a term that is old", func(m *Memory) { m.Opened(7, at(11)) }, false},
	} {
		m := seen(1)
		test.contact(m)
		if got := m.Lacks(lost, at(20)) != ""; got != test.want {
			t.Errorf("%s: alarm %v", test.name, got)
		}
	}
	m := seen(1)
	if !m.Alive("a", at(2), at(2)) || m.Alive("b", at(2), at(2)) || !m.IsOf("a") || m.IsOf("b") {
		t.Error("which server it is of")
	}
	if m.Opened(9, at(3)); m.Last() != 9 {
		t.Errorf("the last term is %d", m.Last())
	}
	m.Look("a", at(5), at(5))
	m.Look("a", at(4), at(4)) // an old one changes nothing
	if m.contact != at(5) {
		t.Errorf("contact %v", m.contact)
	}
}

// A server that was moved to has what it showed, and what it lacks is forgotten.
func TestMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	m := seen(minutes(1, 30)...)
	m.Learn(ledger("b", 31, 22), at(31))
	if !m.IsOf("b") {
		t.Fatal("it is of the server before")
	}
	if got := m.Lacks(ledger("b", 32, 22), at(32)); got != "" {
		t.Errorf("what was accepted is an alarm: %s", got)
	}
	if got := m.Lacks(ledger("b", 32, 1), at(32)); got == "" {
		t.Error("what was there before is forgotten")
	}
	m = seen(30)
	m.Learn(ledger("b", 31, 22), at(31))
	if got := m.Lacks(ledger("b", 32, 22), at(32)); got != "" {
		t.Errorf("of a single tick: %s", got)
	}
	lower := ledger("b", 31, 30)
	lower.Opened.Token = 5
	m = seen(30)
	m.Learn(lower, at(31))
	if m.Last() != 5 {
		t.Errorf("a term that a failover lost is remembered: %d", m.Last())
	}
	m = seen(minutes(1, 30)...)
	m.Learn(lower, at(31))
	if m.Last() != 7 {
		t.Errorf("a term of long ago is forgotten: %d", m.Last())
	}
}

// The newest ticks that another server lacks are told, as far as they are accepted.
func TestBehind(t *testing.T) {
	t.Parallel()
	m := seen(1, 2)
	two := ledger("a", 3, 3)
	two.Jobs["a job"] = jobs.Known{Since: noon, Cursor: at(2)}
	m.Learn(two, at(3))
	other := func(job, aJob int) jobs.Snapshot {
		s := ledger("b", 4, job)
		s.Jobs["a job"] = jobs.Known{Since: noon, Cursor: at(aJob)}
		return s
	}
	for _, test := range []struct {
		name string
		s    jobs.Snapshot
		want event.WritesLost
	}{
		{"nothing", other(3, 2), event.WritesLost{}},
		{"more", other(4, 4), event.WritesLost{}},
		{"one", other(2, 2), event.WritesLost{Jobs: 1, Job: "job", Had: at(3), Has: at(2)}},
		{"two", other(2, 1), event.WritesLost{Jobs: 2, Job: "a job", Had: at(2), Has: at(1)}},
		{"the same server", func() jobs.Snapshot { s := other(2, 1); s.Server = "a"; return s }(), event.WritesLost{}},
		{"a job less", ledger("b", 4, 3), event.WritesLost{Jobs: 1, Added: 1, Job: "a job", Had: noon}},
		{"of the future", func() jobs.Snapshot { s := other(2, 1); s.Now = at(2).Add(-1); return s }(), event.WritesLost{}},
	} {
		if got := m.Behind(test.s, at(4)); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	if got := m.Behind(other(2, 1), at(3)); got.Jobs > 0 {
		t.Errorf("of what was not there before: %+v", got)
	}
}

// A job that a server lacks, or has with another beginning, was lost if it had been added within a bound before the last contact.
func TestBehindAdded(t *testing.T) {
	t.Parallel()
	again := ledger("b", 30, 0)
	again.Jobs["job"] = jobs.Known{Since: at(29), Cursor: at(30)}
	none := ledger("b", 30, 0)
	none.Jobs = nil
	for _, test := range []struct {
		name    string
		minute  int // of the last reading
		contact int // of an answer since
		s       jobs.Snapshot
		sent    time.Time
		want    event.WritesLost
	}{
		{"it is not there", 2, 3, none, at(30), event.WritesLost{Jobs: 1, Added: 1, Job: "job", Had: noon}},
		{"it was made again", 2, 3, again, at(30), event.WritesLost{Jobs: 1, Added: 1, Job: "job", Had: noon, Has: at(30)}},
		{"it was made again on the same server", 2, 3, func() jobs.Snapshot { s := again; s.Server = "a"; return s }(), at(30), event.WritesLost{}},
		{"added long before the reading", 10, 10, none, at(30), event.WritesLost{}},
		{"added long before the contact", 2, 10, none, at(30), event.WritesLost{}},
		{"added a moment less long", 9, 9, none, at(30), event.WritesLost{Jobs: 1, Added: 1, Job: "job", Had: noon}},
		{"it was read only then", 2, 3, none, at(2), event.WritesLost{}},
		{"it is there", 2, 3, ledger("b", 30, 2), at(30), event.WritesLost{}},
	} {
		m := seen(test.minute)
		m.Alive("a", at(test.contact), at(test.contact))
		if got := m.Behind(test.s, test.sent); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// A job that was made again begins anew, with earlier ticks.
func TestJobMadeAgain(t *testing.T) {
	t.Parallel()
	m := seen(1, 2, 3)
	again := ledger("a", 5, 1)
	again.Jobs["job"] = jobs.Known{Since: at(4), Cursor: at(1)}
	m.Learn(again, at(5))
	if r := m.jobs["job"]; !r.newest.Tick.Equal(at(1)) || !r.since.Equal(at(4)) {
		t.Errorf("%+v", r)
	}
}

// A tick that lies in the future was claimed under a wrong clock, and is forgotten.
func TestFuture(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ahead time.Duration
		want  bool
	}{{ahead, true}, {ahead + 1, false}} {
		m := New(bound, ttl, false)
		s := ledger("a", 1, 1)
		s.Jobs["job"] = jobs.Known{Since: noon, Cursor: at(1).Add(test.ahead)}
		s.Jobs["other"] = jobs.Known{Since: noon, Cursor: at(1)}
		m.Learn(s, at(1))
		if _, ok := m.jobs["job"]; ok != test.want || len(m.jobs) < 1 {
			t.Errorf("%v ahead: %v", test.ahead, m.jobs)
		}
	}
	blind := New(bound, ttl, true)
	blind.Learn(ledger("a", 1, 1), at(1))
	if len(blind.jobs) > 0 {
		t.Error("by the worker's clock, ticks are remembered")
	}
	none := New(bound, ttl, false)
	s := ledger("a", 1, 1)
	s.Jobs["job"] = jobs.Known{Since: noon}
	none.Learn(s, at(1))
	if len(none.jobs) > 0 {
		t.Error("a job without a tick is remembered")
	}
}

func row(tick, claimed int) jobs.Record {
	return jobs.Record{Key: jobs.Key{Job: "job", Tick: at(tick)}, Claimed: at(claimed)}
}

// Witnesses are ticks whose rows have to be there: claimed by this process, of the jobs with the newest ticks.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	m := seen(0)
	for minute := 1; minute <= 40; minute++ {
		m.Claimed(noon, row(minute, minute), at(minute))
	}
	got := m.Witnesses([]string{"none", "job"}, ledger("a", 41, 40), at(41))["job"]
	var ticks []int
	for _, k := range got {
		ticks = append(ticks, int(k.Tick.Sub(noon).Minutes()))
	}
	if !slices.IsSorted(ticks) || ticks[0] > 29 || ticks[len(ticks)-1] != 40 {
		t.Errorf("witnesses %v", ticks)
	}
	if !got[0].IsAmong([]jobs.Record{row(50, 50), row(45, ticks[0])}) || got[0].IsAmong([]jobs.Record{row(ticks[0], 45)}) || got[0].IsAmong(nil) {
		t.Error("a row is told by when it was claimed, since it may have moved on to later ticks")
	}
	triggered := row(ticks[0], 50)
	triggered.Trigger = 1
	for name, test := range map[string]struct {
		records []jobs.Record
		want    bool
	}{
		"another row": {[]jobs.Record{row(50, 50), row(ticks[0], 50)}, true},
		"its own":     {[]jobs.Record{row(ticks[0], ticks[0])}, false},
		"none":        {[]jobs.Record{row(50, 50)}, false},
		"a trigger's": {[]jobs.Record{triggered}, false},
	} {
		if got[0].IsReplaced(test.records) != test.want {
			t.Errorf("%s: is replaced: %v, want %v", name, !test.want, test.want)
		}
	}
	for sent, want := range map[int]int{40: 33, 41: 40} {
		if marks := m.Marks([]string{"job"}, ledger("b", 41, 40), at(sent))["job"]; len(marks) == 0 || !marks[len(marks)-1].Tick.Equal(at(want)) {
			t.Errorf("on another server, sent at %d: marks %v", sent, marks)
		}
	}
	for name, test := range map[string]struct {
		s    jobs.Snapshot
		sent time.Time
	}{
		"read before":        {ledger("a", 41, 40), at(0)},
		"of the future":      {ledger("a", 0, 40), at(41)},
		"another server":     {func() jobs.Snapshot { s := ledger("b", 41, 40); return s }(), at(11)},
		"another, made anew": {func() jobs.Snapshot { s := ledger("a", 41, 40); s.Jobs["job"] = jobs.Known{Since: at(3)}; return s }(), at(41)},
	} {
		if got := m.Witnesses([]string{"job"}, test.s, test.sent)["job"]; len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := seen(1, 2).Witnesses([]string{"job"}, ledger("a", 3, 2), at(3)); len(got["job"]) > 0 {
		t.Errorf("of ticks that were only read: %v", got)
	}

	names := []string{"a", "b", "c", "d"}
	several := New(bound, ttl, false)
	s := ledger("a", 9, 9)
	for i, name := range names {
		s.Jobs[name] = jobs.Known{Since: noon, Cursor: at(i)}
		several.Claimed(noon, jobs.Record{Key: jobs.Key{Job: name, Tick: at(i + 1)}, Claimed: at(i + 1)}, at(i+1))
	}
	several.server = "a"
	if got := several.Witnesses(names, s, at(9)); len(got) != 3 || got["a"] != nil {
		t.Errorf("of the jobs that were claimed last: %v", got)
	}
}

// A pause whose record a restore has lost is in force since nobody knows when.
func TestPauseWithoutItsRecord(t *testing.T) {
	t.Parallel()
	if began := inForce(jobs.Snapshot{Paused: true}); !began.IsZero() {
		t.Errorf("in force since %v", began)
	}
	pauses := map[string][]jobs.Pause{"": {{Began: at(1)}, {Began: at(2)}}}
	for paused, want := range map[bool]time.Time{true: at(2), false: {}} {
		if began := inForce(jobs.Snapshot{Paused: paused, Pauses: pauses}); !began.Equal(want) {
			t.Errorf("paused %v: in force since %v", paused, began)
		}
	}
}

// What an operator has said counts until the ledger goes back once more.
func TestAnswer(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	paused, resumed := ledger("a", 6, 2), ledger("a", 8, 2)
	paused.Paused, paused.Pauses = true, map[string][]jobs.Pause{"": {{Began: at(5)}}}
	resumed.Pauses = map[string][]jobs.Pause{"": {{Began: at(5), Ended: at(7)}}}
	m := seen(1, 2)
	if m.Restored() != nil || m.IsAnswered(ledger("a", 3, 1)) {
		t.Error("before anything was lost")
	}
	m.Forget(gone, at(5))
	if !errors.Is(m.Restored(), gone) || m.Last() != 0 || m.Lacks(ledger("a", 5, 1), at(4)) != "" {
		t.Errorf("restored: %v, term %d", m.Restored(), m.Last())
	}
	m.Learn(paused, at(6))
	if m.Restored() == nil || m.IsAnswered(paused) {
		t.Error("while it is paused")
	}
	if m.IsAnswered(ledger("a", 8, 2)) || !m.IsAnswered(resumed) {
		t.Error("an answer is a pause that ended since")
	}
	old := resumed
	old.Pauses = map[string][]jobs.Pause{"": {{Began: at(3), Ended: at(4)}}}
	if m.IsAnswered(old) {
		t.Error("an answer of before")
	}
	skewed := seen(1, 2)
	ahead := ledger("a", 6, 2)
	ahead.Pauses = resumed.Pauses
	if skewed.Learn(ahead, at(6)); skewed.IsAnswered(resumed) {
		t.Error("an answer that a reading has shown, by a clock that was behind")
	}
	// A pause that is lost is set again: another server has lost it, or the ledger has gone back once more. A pause
	// that was there before is not it.
	lost, other := ledger("b", 8, 2), ledger("a", 8, 2)
	other.Paused, other.Pauses = true, map[string][]jobs.Pause{"": {{Began: at(1)}}}
	for name, s := range map[string]jobs.Snapshot{"another server": lost, "the same server": ledger("a", 8, 2), "another pause": other} {
		if m.Answer(s); m.Lacks(s, at(8)) == "" || m.Restored() == nil {
			t.Errorf("the pause is lost, and that is no alarm: %s", name)
		}
	}
	if got := m.Lacks(paused, at(8)); got != "" {
		t.Errorf("while it is paused: %s", got)
	}
	// An answer counts however long ago it was, and an operator's pause after it is another matter.
	again, stale := ledger("b", 99, 2), ledger("a", 9, 2)
	stale.Paused, stale.Pauses = true, paused.Pauses
	again.Paused, again.Pauses = true, map[string][]jobs.Pause{"": {{Began: at(5), Ended: at(7)}, {Began: at(50)}}}
	for name, s := range map[string]jobs.Snapshot{"resumed": resumed, "paused later": again} {
		n := seen(1, 2)
		n.Forget(gone, at(5))
		n.Learn(paused, at(6))
		n.Learn(stale, at(9)) // a reading later than the end of the pause, without it: that end counts by the pause's beginning
		if n.Answer(s); n.Restored() != nil || n.Lacks(s, at(8)) != "" {
			t.Errorf("%s: %v, %s", name, n.Restored(), n.Lacks(s, at(8)))
		}
	}
	// What another process has seen counts as well.
	h := seen(1, 2)
	h.Heed(gone, paused, at(6))
	if h.Learn(paused, at(6)); h.Lacks(paused, at(7)) != "" || h.Lacks(ledger("a", 8, 2), at(5)) != "" || h.Lacks(ledger("a", 8, 2), at(8)) == "" {
		t.Error("a pause that was heeded")
	}
	if h.Answer(resumed); h.Restored() != nil || h.Lacks(resumed, at(9)) != "" {
		t.Error("and was answered")
	}
}

// The marks of a job are far enough apart, whatever the ticks.
func TestSpaced(t *testing.T) {
	t.Parallel()
	r := newTrail(noon, ttl)
	for i, test := range []struct {
		at   time.Time
		want []time.Time
	}{
		{at(0), []time.Time{at(0)}},
		{at(1).Add(-1), []time.Time{at(0)}},
		{at(1), []time.Time{at(0), at(1)}},
		{at(5), []time.Time{at(0), at(1), at(5)}},
		{at(7), []time.Time{at(1), at(5), at(7)}},
	} {
		r.add(Mark{Tick: at(i), at: test.at})
		var got []time.Time
		for _, k := range r.far {
			got = append(got, k.at)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.at, got, test.want)
		}
	}
	r = newTrail(noon, bound)
	if !r.add(Mark{Tick: at(2), at: at(2)}) || r.add(Mark{Tick: at(2), at: at(3)}) || r.add(Mark{Tick: at(1), at: at(4)}) || r.newest.at != at(2) {
		t.Errorf("only a later tick is new: %+v", r)
	}
	r.add(Mark{Tick: at(5), at: at(5)})
	if !r.keep(func(k Mark) bool { return k.at.Before(at(3)) }) || r.newest.at != at(2) || len(r.far) != 1 {
		t.Errorf("%+v", r)
	}
	if r.keep(func(Mark) bool { return false }) {
		t.Errorf("%+v", r)
	}
}

// The end of a pause is stamped when its statement begins, and can be read once that is committed: a reading in between shows the
// group as paused, at a later instant.
func TestAnswerBesideAReading(t *testing.T) {
	t.Parallel()
	for _, skipping := range []bool{false, true} {
		m := New(bound, ttl, false)
		paused := func(now int, p jobs.Pause) jobs.Snapshot {
			return jobs.Snapshot{Server: "a", Now: at(now), Paused: p.Ended.IsZero(), Pauses: map[string][]jobs.Pause{"": {p}}}
		}
		m.Forget(errors.New("gone"), at(0))
		p := jobs.Pause{Began: at(1)}
		for _, now := range []int{2, 4} {
			m.Answer(paused(now, p))
			m.Learn(paused(now, p), at(now))
		}
		p.Ended = at(3)
		if skipping {
			p.Began = time.Time{}
		}
		if m.Answer(paused(5, p)); m.Restored() != nil {
			t.Errorf("skipping %v: the answer is not taken for one", skipping)
		}
	}
}
