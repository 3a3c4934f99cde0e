package plan

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// same are clocks that agree, and anHour those of a database that is an hour behind.
var (
	same   = Clocks{Ours: func(t time.Time) time.Time { return t }, Theirs: func(t time.Time) time.Time { return t }}
	anHour = Clocks{Ours: func(t time.Time) time.Time { return t.Add(time.Hour) }, Theirs: func(t time.Time) time.Time { return t.Add(-time.Hour) }}
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
		clocks  Clocks
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
		{name: "the same, by a clock of its own", known: is(minute, func(k *jobs.Known) { k.ScheduleSince = at(21) }), clocks: anHour, from: at(10 - 60), differs: true},
		{name: "set back to this instant", known: is(minute, func(k *jobs.Known) { k.ScheduleSince = now })},
		{name: "set back, before the first tick", known: is(minute, func(k *jobs.Known) { k.ScheduleSince, k.Cursor = at(21), time.Time{} }), from: from, differs: true},
		{name: "set back, with a tick of another schedule", known: is(minute, func(k *jobs.Known) { k.ScheduleSince, k.Cursor = at(21), at(10).Add(time.Second) }), from: from, differs: true},
	} {
		if test.clocks.Ours == nil {
			test.clocks = same
		}
		d := Declaration{Schedule: minute, As: store.Declared{Name: "job", Schedule: minute.String(), From: from}, Back: test.back}
		as, differs := d.Differs(test.known, !test.unknown, now, test.clocks)
		if differs != test.differs || differs && (!as.From.Equal(test.from) || as.Name != "job" || as.Schedule != minute.String()) {
			t.Errorf("%s: %v from %v, want %v from %v", test.name, differs, as.From, test.differs, test.from)
		}
	}
	rate := jobs.FixedRate(time.Minute)
	known := jobs.Known{Schedule: rate.String(), ScheduleSince: at(21), Cursor: at(10)}
	if isTick(rate, known) {
		t.Error("a tick from before the schedule began")
	}
	if known.ScheduleSince = at(7); !isTick(rate, known) {
		t.Error("a tick of a fixed rate")
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
		name   string
		known  jobs.Known
		from   time.Time
		clocks Clocks
		want   time.Time
	}{
		{"none is left", since(minute, noon, at(10)), at(10).Add(59 * time.Second), same, at(10).Add(59 * time.Second)},
		{"one is left", since(minute, noon, at(10)), at(11), same, before(at(11))},
		{"some are left", since(minute, noon, at(10)), at(15), same, before(at(11))},
		{"from the beginning of time", since(minute, noon, at(10)), time.Time{}, same, time.Time{}},
		{"from the future", since(minute, noon, at(19)), at(90), same, before(at(20))},
		{"from the future, and none is left", since(minute, noon, at(20)), at(90), same, now},
		{"of a schedule that began since", since(minute, at(12), at(10)), at(15), same, before(at(13))},
		{"of a schedule of the future", since(minute, at(21), at(10)), at(15), same, before(at(11))},
		{"of a schedule that begins now", since(minute, now, at(10)), at(15), same, at(15)},
		{"of a schedule of the future, without a tick", since(minute, at(21), time.Time{}), at(15), same, at(15)},
		{"of a schedule that cannot be read", jobs.Known{Schedule: "?", ScheduleSince: noon, Cursor: at(10)}, at(15), same, at(12)},
		{"of a schedule that cannot be read, from the beginning of time", jobs.Known{Schedule: "?"}, time.Time{}, same, time.Time{}},
		{"of a fixed delay", since(jobs.FixedDelay(time.Minute), noon, at(10)), at(15), same, before(at(11))},
		{"of a fixed delay, and none is left", since(jobs.FixedDelay(time.Hour), noon, at(10)), at(15), same, at(15)},
		{"of a fixed delay, before its first tick", since(jobs.FixedDelay(time.Minute), at(10), time.Time{}), at(15), same, before(at(10))},
		{"of a fixed delay, by a clock of its own", since(jobs.FixedDelay(time.Minute), at(10), time.Time{}), at(15), anHour, before(at(10))},
		{"of a fixed rate", since(jobs.FixedRate(time.Minute), noon, at(10)), at(15), same, before(at(11))},
		{"of a fixed rate, before its first tick", since(jobs.FixedRate(time.Minute), at(10), time.Time{}), at(15), same, before(at(10))},
		{"of a fixed rate, after its first tick", since(jobs.FixedRate(time.Minute), at(10), at(10)), at(15), same, before(at(11))},
		{"of a schedule without ticks", since(jobs.Manual(), noon, at(10)), at(15), same, at(15)},
		{"by a clock of its own", since(minute, noon, at(10+60)), at(15), anHour, at(11).Add(-time.Microsecond)},
		{"by a clock of its own, since it began", since(minute, at(12), at(10)), at(15), anHour, at(13).Add(-time.Microsecond)},
	} {
		d := Declaration{As: store.Declared{From: test.from}, Unsure: 3 * time.Minute}
		if got := d.notPast(test.known, now, test.clocks); !got.Equal(test.want) {
			t.Errorf("%s: from %v, want %v", test.name, got, test.want)
		}
	}
	d := Declaration{As: store.Declared{From: at(15)}, Open: true}
	if got := d.notPast(since(jobs.FixedDelay(time.Minute), noon, at(10)), now, same); !got.Equal(at(15)) {
		t.Errorf("of a fixed delay, while a run goes on: from %v", got)
	}
}

func TestAbsence(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute)}
	hourly := jobs.Every(time.Hour).String()
	for _, test := range []struct {
		name   string
		known  jobs.Known
		now    time.Time
		clocks Clocks
		want   string
	}{
		{"no tick", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon}, at(1).Add(-1), same, ""},
		{"some ticks", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon}, at(4), same, "4 skipped +3 (not declared)"},
		{"behind the newest", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon, Cursor: at(2)}, at(4), same, "4 skipped +1 (not declared)"},
		{"of the schedule that it had", jobs.Known{Schedule: hourly, ScheduleSince: noon}, at(130), same, "120 skipped +1 (not declared)"},
		{"of a schedule that cannot be read", jobs.Known{Schedule: "?", ScheduleSince: noon}, at(4), same, ""},
		{"by a clock of its own", jobs.Known{Schedule: job.Schedule.String(), ScheduleSince: noon}, at(62), anHour, "62 skipped +1 (not declared)"},
		{"after a fixed delay, by a clock of its own", jobs.Known{Schedule: jobs.FixedDelay(time.Minute).String(), ScheduleSince: noon, Finished: at(5)}, at(70), anHour, "66 skipped (not declared)"},
	} {
		row, ok := Absence(job, test.known, test.now, test.clocks)
		got := ""
		if ok {
			got = claimsText([]store.Claim{row})
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	own := jobs.Job{Name: "job", Schedule: forward{jobs.Every(time.Minute)}}
	if row, ok := Absence(own, jobs.Known{Schedule: own.Schedule.String(), ScheduleSince: noon}, at(2), same); !ok || !row.Tick.Equal(at(2)) {
		t.Errorf("of a schedule of its own that the job still has: %v", row)
	}
}

// strange is a schedule that package jobs does not know.
type strange struct{ jobs.Schedule }

func (strange) String() string { return "strange" }

func TestAbsenceOfAStrangeSchedule(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Name: "job", Schedule: strange{jobs.Every(time.Minute)}}
	if row, ok := Absence(job, jobs.Known{Schedule: "strange", ScheduleSince: noon}, at(2), same); !ok || !row.Tick.Equal(at(2)) {
		t.Errorf("that the job still has: %v", row)
	}
	if _, ok := Absence(job, jobs.Known{Schedule: "stranger", ScheduleSince: noon}, at(2), same); ok {
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
