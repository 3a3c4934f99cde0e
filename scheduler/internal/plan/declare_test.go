package plan

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func TestLongAbsent(t *testing.T) {
	t.Parallel()
	now := noon.Add(30 * jobs.LongAbsence)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name  string
		known jobs.Known
		want  bool
	}{
		{"never gone", jobs.Known{Cursor: ago(9 * jobs.LongAbsence)}, false},
		{"gone for long", jobs.Known{Gone: ago(jobs.LongAbsence + 1)}, true},
		{"gone just so long", jobs.Known{Gone: ago(jobs.LongAbsence)}, false},
		{"gone for long, and had since", jobs.Known{Gone: ago(9 * jobs.LongAbsence), Cursor: ago(jobs.LongAbsence)}, false},
		{"gone for long, and had a while since", jobs.Known{Gone: ago(9 * jobs.LongAbsence), Cursor: ago(2 * jobs.LongAbsence)}, true},
	} {
		if got := LongAbsent(test.known, now); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// What the ledger has as it is declared is not told again.
func TestDiffers(t *testing.T) {
	t.Parallel()
	minute, hour := jobs.Every(time.Minute), jobs.Every(time.Hour)
	is := func(s jobs.Schedule, change func(*jobs.Known)) jobs.Known {
		known := jobs.Known{Schedule: s.String(), ScheduleSince: noon, Cursor: at(10)}
		if change != nil {
			change(&known)
		}
		return known
	}
	now, from := at(20), at(15)
	for _, test := range []struct {
		name    string
		known   jobs.Known
		unknown bool
		back    bool
		from    time.Time
		differs bool
	}{
		{name: "as it is", known: is(minute, nil)},
		{name: "unknown", unknown: true, from: from, differs: true},
		{name: "another schedule, without ticks left", known: is(hour, nil), from: from, differs: true},
		{name: "another schedule, with ticks left", known: is(hour, func(k *jobs.Known) { k.Cursor = noon.Add(-2 * time.Hour); k.ScheduleSince = noon.Add(-3 * time.Hour) }), from: noon.Add(-time.Hour - time.Microsecond), differs: true},
		{name: "it was gone", known: is(minute, func(k *jobs.Known) { k.Gone = at(12) }), from: from, differs: true},
		{name: "it comes back", known: is(minute, func(k *jobs.Known) { k.Gone = at(12) }), back: true, differs: true},
		{name: "it comes back with another schedule", known: is(hour, func(k *jobs.Known) { k.Gone = at(12) }), back: true, differs: true},
		{name: "the database's clock was set back", known: is(minute, func(k *jobs.Known) { k.ScheduleSince = at(21) }), from: at(10), differs: true},
		{name: "set back to this instant", known: is(minute, func(k *jobs.Known) { k.ScheduleSince = now })},
		{name: "set back, before the first tick", known: is(minute, func(k *jobs.Known) { k.ScheduleSince, k.Cursor = at(21), time.Time{} }), from: from, differs: true},
		{name: "set back, with a tick of another schedule", known: is(minute, func(k *jobs.Known) { k.ScheduleSince, k.Cursor = at(21), at(10).Add(time.Second) }), from: from, differs: true},
	} {
		d := Declaration{Schedule: minute, As: store.Declared{Name: "job", Schedule: minute.String(), From: from}, Back: test.back}
		as, differs := d.Differs(test.known, !test.unknown, now)
		if differs != test.differs || differs && (!as.From.Equal(test.from) || as.Name != "job" || as.Schedule != minute.String()) {
			t.Errorf("%s: %v from %v, want %v from %v", test.name, differs, as.From, test.differs, test.from)
		}
	}
}

// A schedule whose beginning the ledger does not tell had begun by its newest tick. A fixed rate keeps its ticks.
func TestBegunBy(t *testing.T) {
	t.Parallel()
	rate := jobs.FixedRate(time.Minute).InitialDelay(90 * time.Second)
	for _, test := range []struct {
		name  string
		s     jobs.Schedule
		known jobs.Known
		want  time.Time
		ok    bool
	}{
		{"without a tick", jobs.Every(time.Minute), jobs.Known{ScheduleSince: at(21)}, time.Time{}, false},
		{"a tick", jobs.Every(time.Minute), jobs.Known{ScheduleSince: at(21), Cursor: at(10)}, at(10), true},
		{"a tick of another schedule", jobs.Every(time.Hour), jobs.Known{ScheduleSince: at(21), Cursor: at(10)}, at(10), false},
		{"a fixed rate", rate, jobs.Known{ScheduleSince: at(21), Cursor: at(10).Add(30 * time.Second)}, at(9), true},
		{"a fixed rate that began since", rate, jobs.Known{ScheduleSince: at(7), Cursor: at(10).Add(30 * time.Second)}, at(9), true},
		{"a fixed rate whose newest tick lies in the future", rate, jobs.Known{ScheduleSince: at(51), Cursor: at(50).Add(30 * time.Second)}, at(30), true},
		{"a fixed rate, half a minute later", rate, jobs.Known{ScheduleSince: at(51), Cursor: at(51)}, at(29).Add(30 * time.Second), false},
		{"a tick of another rate", rate, jobs.Known{ScheduleSince: at(21), Cursor: at(10)}, at(9).Add(-30 * time.Second), false},
		{"a fixed delay", jobs.FixedDelay(time.Minute), jobs.Known{ScheduleSince: at(21), Cursor: at(10)}, at(10), false},
	} {
		if got, ok := begunBy(test.s, test.known, at(30)); ok != test.ok || !got.Equal(test.want) {
			t.Errorf("%s: %v %v, want %v %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

// A schedule that is replaced has the ticks that were due by then, and the next one begins right before the first of
// them that has no row.
func TestNotPast(t *testing.T) {
	t.Parallel()
	since := func(s jobs.Schedule, since, cursor time.Time) jobs.Known {
		return jobs.Known{Schedule: s.String(), ScheduleSince: since, Cursor: cursor}
	}
	before := func(t time.Time) time.Time { return t.Add(-time.Microsecond) }
	minute := jobs.Every(time.Minute)
	now := at(20)
	for _, test := range []struct {
		name  string
		known jobs.Known
		from  time.Time
		want  time.Time
	}{
		{"none is left", since(minute, noon, at(10)), at(10).Add(59 * time.Second), at(10).Add(59 * time.Second)},
		{"one is left", since(minute, noon, at(10)), at(11), before(at(11))},
		{"some are left", since(minute, noon, at(10)), at(15), before(at(11))},
		{"from the beginning of time", since(minute, noon, at(10)), time.Time{}, time.Time{}},
		{"from the future", since(minute, noon, at(19)), at(90), before(at(20))},
		{"from the future, and none is left", since(minute, noon, at(20)), at(90), now},
		{"of a schedule that began since", since(minute, at(12), at(10)), at(15), before(at(13))},
		{"of a schedule of the future", since(minute, at(21), at(10)), at(15), before(at(11))},
		{"of a schedule that begins now", since(minute, now, at(10)), at(15), at(15)},
		{"of a schedule of the future, without a tick", since(minute, at(21), time.Time{}), at(15), at(15)},
		{"of a schedule that cannot be read", jobs.Known{Schedule: "?", ScheduleSince: noon, Cursor: at(10)}, at(15), at(12)},
		{"of a schedule that cannot be read, from the beginning of time", jobs.Known{Schedule: "?"}, time.Time{}, time.Time{}},
		{"of a fixed delay", since(jobs.FixedDelay(time.Minute), noon, at(10)), at(15), before(at(11))},
		{"of a fixed delay, and none is left", since(jobs.FixedDelay(time.Hour), noon, at(10)), at(15), at(15)},
		{"of a fixed delay, before its first tick", since(jobs.FixedDelay(time.Minute), at(10), time.Time{}), at(15), before(at(10))},
		{"of a fixed rate", since(jobs.FixedRate(time.Minute), noon, at(10)), at(15), before(at(11))},
		{"of a fixed rate, before its first tick", since(jobs.FixedRate(time.Minute), at(10), time.Time{}), at(15), before(at(10))},
		{"of a fixed rate, after its first tick", since(jobs.FixedRate(time.Minute), at(10), at(10)), at(15), before(at(11))},
		{"of a schedule without ticks", since(jobs.Manual(), noon, at(10)), at(15), at(15)},
	} {
		d := Declaration{As: store.Declared{From: test.from}, Unsure: 3 * time.Minute}
		if got := d.notPast(test.known, now); !got.Equal(test.want) {
			t.Errorf("%s: from %v, want %v", test.name, got, test.want)
		}
	}
	d := Declaration{As: store.Declared{From: at(15)}, Open: true}
	if got := d.notPast(since(jobs.FixedDelay(time.Minute), noon, at(10)), now); !got.Equal(at(15)) {
		t.Errorf("of a fixed delay, while a run goes on: from %v", got)
	}
}

func TestAbsence(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute)}
	hourly := jobs.Every(time.Hour).String()
	for _, test := range []struct {
		name  string
		known jobs.Known
		now   time.Time
		want  string
	}{
		{"no tick", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon}, at(1).Add(-1), ""},
		{"some ticks", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon}, at(4), "4 skipped +3 (not declared)"},
		{"behind the newest", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon, Cursor: at(2)}, at(4), "4 skipped +1 (not declared)"},
		{"of the schedule that it had", jobs.Known{Schedule: hourly, ScheduleSince: noon}, at(130), "120 skipped +1 (not declared)"},
		{"of a schedule that cannot be read", jobs.Known{Schedule: "?", ScheduleSince: noon}, at(4), ""},
	} {
		row, ok := Absence(job, test.known, test.now)
		got := ""
		if ok {
			got = claimsText([]store.Claim{row})
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	own := jobs.Job{Name: "job", Schedule: forward{jobs.Every(time.Minute)}}
	if row, ok := Absence(own, jobs.Known{Schedule: own.Schedule.String(), ScheduleSince: noon}, at(2)); !ok || !row.Tick.Equal(at(2)) {
		t.Errorf("of a schedule of its own that the job still has: %v", row)
	}
}

// strange is a schedule that package jobs does not know.
type strange struct{ jobs.Schedule }

func (strange) String() string { return "strange" }

func TestAbsenceOfAStrangeSchedule(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Name: "job", Schedule: strange{jobs.Every(time.Minute)}}
	if row, ok := Absence(job, jobs.Known{Schedule: "strange", ScheduleSince: noon}, at(2)); !ok || !row.Tick.Equal(at(2)) {
		t.Errorf("that the job still has: %v", row)
	}
	if _, ok := Absence(job, jobs.Known{Schedule: "stranger", ScheduleSince: noon}, at(2)); ok {
		t.Error("that the job does not have any more")
	}
}

// What a job left before its absence is closed, and what another replica asked for since is not.
func TestLeftover(t *testing.T) {
	t.Parallel()
	known := jobs.Known{Gone: at(5)}
	claimed := func(state jobs.State, r jobs.Record, minute int) jobs.Record {
		r.State, r.Claimed, r.Owner = state, at(minute), "a/vm"
		return r
	}
	for _, test := range []struct {
		name   string
		r      jobs.Record
		stands bool
		to     jobs.State
		why    string
	}{
		{"a tick that waits", claimed(jobs.Waiting, aTick, 4), false, jobs.Skipped, NotDeclared},
		{"a tick that waits, beside an earlier term", claimed(jobs.Waiting, aTick, 4), true, jobs.Skipped, NotDeclared},
		{"a retry", claimed(jobs.Waiting, aRetry, 4), false, jobs.Cancelled, NotDeclared},
		{"a run by hand", claimed(jobs.Waiting, byHand, 4), false, jobs.Cancelled, NotDeclared},
		{"one that runs", claimed(jobs.Running, aRetry, 4), false, jobs.Interrupted, "not finished by a/vm, and then not declared"},
		{"one that may run", claimed(jobs.Running, aRetry, 4), true, 0, ""},
		{"one of since", claimed(jobs.Waiting, byHand, 5), false, 0, ""},
	} {
		to, why, closed := Leftover(test.r, known, test.stands)
		if to != test.to || why != test.why || closed != (test.to != 0) {
			t.Errorf("%s: %v, %q", test.name, to, why)
		}
	}
}
