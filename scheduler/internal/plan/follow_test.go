package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// following are followers that know jobs with these schedules.
func following(schedules map[string]jobs.Schedule) *Followers {
	f := NewFollowers(store.Holder{Group: "g", Owner: "me", Token: 7})
	f.learn(schedules)
	return &f
}

func (f *Followers) learn(schedules map[string]jobs.Schedule) {
	f.Know(func(yield func(*jobs.Job) bool) {
		for _, name := range slices.Sorted(maps.Keys(schedules)) {
			if !yield(&jobs.Job{Name: name, Schedule: schedules[name]}) {
				return
			}
		}
	})
}

// names are the jobs of runs that follow.
func names(all []store.Follower) (names []string) {
	for _, run := range all {
		names = append(names, run.Job)
	}
	return names
}

func noticeOf(t *testing.T, run store.Follower) (is jobs.Notice) {
	t.Helper()
	if err := json.Unmarshal(run.Args, &is); err != nil || !triggers.IsNotice(run.Trigger) || !run.Tick.Equal(is.Tick) || is.Group != "g" || is.Text == "" {
		t.Errorf("%+v: %v", run, err)
	}
	return is
}

// Of a run that succeeds, the jobs after its job get runs of the same tick, and of one that does not, the notifiers.
func TestOfEnd(t *testing.T) {
	t.Parallel()
	f := following(map[string]jobs.Schedule{
		"one": jobs.After("job"), "two": jobs.After("job"), "three": jobs.After("another"),
		"fails": jobs.OnFailure("job"), "any": jobs.OnFailure(), "recovers": jobs.OnRecovery("job"), "misses": jobs.OnMissed("job"), "none": jobs.OnFailure("another"),
	})
	r := aTick
	r.Owner, r.Attempt = "other", 2
	for _, test := range []struct {
		name     string
		end      RunEnd
		notifier bool
		want     []string
		event    jobs.NoticeEvent
		missed   int
	}{
		{name: "succeeded", end: RunEnd{To: jobs.Succeeded}, want: []string{"one", "two"}},
		{name: "recovered", end: RunEnd{To: jobs.Succeeded, Recovers: true}, want: []string{"one", "two", "recovers"}, event: jobs.NoticeRecovery},
		{name: "failed", end: RunEnd{To: jobs.Failed, Why: "why"}, want: []string{"any", "fails"}, event: jobs.NoticeFailure},
		{name: "failed, of a notifier", end: RunEnd{To: jobs.Failed}, notifier: true},
		{name: "succeeded, of a notifier", end: RunEnd{To: jobs.Succeeded, Recovers: true}, notifier: true, want: []string{"one", "two"}},
		{name: "is tried again", end: RunEnd{To: jobs.Waiting, Why: "why"}},
		{name: "too late", end: RunEnd{To: jobs.Skipped, Why: TooLate}, want: []string{"misses"}, event: jobs.NoticeMissed, missed: 1},
		{name: "skipped", end: RunEnd{To: jobs.Skipped, Why: "why"}},
		{name: "cancelled", end: RunEnd{To: jobs.Cancelled, Asked: true}},
	} {
		test.end.Record = r
		got, left := f.OfEnd(test.end, test.notifier, noon)
		if !slices.Equal(names(got), test.want) || len(left) > 0 {
			t.Errorf("%s: %v, left out %v, want %v", test.name, names(got), left, test.want)
		}
		for _, run := range got {
			if triggers.IsAfter(run.Trigger) {
				if want := (jobs.Key{Job: run.Job, Tick: r.Tick, Trigger: triggers.After("job", 0, 7)}); run.Key != want || run.Delay != 0 {
					t.Errorf("%s: %+v", test.name, run)
				}
				continue
			}
			want := jobs.Notice{Event: test.event, Group: "g", Job: "job", Tick: r.Tick, State: test.end.To, Attempt: 2, Error: test.end.Why, Owner: "other", Missed: test.missed, Kind: triggers.KindOf(0)}
			want.Text = want.Describe()
			if is := noticeOf(t, run); is != want {
				t.Errorf("%s: tells %+v, want %+v", test.name, is, want)
			}
		}
		f.Answered(got, true)
	}
	if len(f.untold) > 0 {
		t.Errorf("%d notices are not answered for", len(f.untold))
	}
}

func TestOfClaim(t *testing.T) {
	t.Parallel()
	f := following(map[string]jobs.Schedule{"misses": jobs.OnMissed("job").AtMost(0, 0), "fails": jobs.OnFailure()})
	for _, test := range []struct {
		name    string
		claim   store.Claim
		missed  int
		attempt int
	}{
		{"one starts", store.Claim{State: jobs.Running}, 0, 0},
		{"one starts for others", store.Claim{State: jobs.Running, Missed: 2}, 2, 1},
		{"one waits for others", store.Claim{State: jobs.Waiting, Missed: 2}, 2, 0},
		{"missed", store.Claim{State: jobs.Skipped, Missed: 2, Error: Missed}, 3, 0},
		{"too late", store.Claim{State: jobs.Skipped, Error: TooLate}, 1, 0},
		{"skipped for another reason", store.Claim{State: jobs.Skipped, Missed: 2, Error: "an earlier run has not finished"}, 0, 0},
	} {
		test.claim.Key = aTick.Key
		got, left := f.OfClaim(test.claim, noon)
		if len(left) > 0 || len(got) > 1 || (len(got) == 1) != (test.missed > 0) {
			t.Errorf("%s: %v, left out %v", test.name, got, left)
		}
		for _, run := range got {
			if is := noticeOf(t, run); is.Missed != test.missed || is.Attempt != test.attempt || is.Event != jobs.NoticeMissed || is.Owner != "me" || is.State != test.claim.State || is.Error != test.claim.Error {
				t.Errorf("%s: tells %+v", test.name, is)
			}
		}
	}
}

// What is known of the jobs is what there is now.
func TestKnowAnew(t *testing.T) {
	t.Parallel()
	f := following(map[string]jobs.Schedule{"one": jobs.After("job"), "fails": jobs.OnFailure()})
	f.learn(map[string]jobs.Schedule{"two": jobs.After("job")})
	for to, want := range map[jobs.State][]string{jobs.Succeeded: {"two"}, jobs.Failed: nil} {
		if got, _ := f.OfEnd(RunEnd{Record: aTick, To: to}, false, noon); !slices.Equal(names(got), want) {
			t.Errorf("%v: %v", to, names(got))
		}
	}
}

// The next run of a backfill follows each one, unless the backfill was cancelled with it.
func TestOfABackfill(t *testing.T) {
	t.Parallel()
	f := following(nil)
	left := fmt.Sprintf(`{"schedule":"every 1m0s","until":%q,"every_ns":%d}`, at(4).Format(time.RFC3339), 10*time.Second)
	r := jobs.Record{Key: jobs.Key{Job: "job", Tick: at(1), Trigger: aBackfill.Trigger}, Backfill: left}
	if _, _, ok := r.NextOfBackfill(); !ok {
		t.Fatalf("not of a backfill: %s", left)
	}
	last := r
	last.Tick = at(3)
	for _, test := range []struct {
		name  string
		end   RunEnd
		next  time.Time
		delay time.Duration
	}{
		{"succeeded", RunEnd{Record: r, To: jobs.Succeeded, Took: 4 * time.Second}, at(2), 6 * time.Second},
		{"took long", RunEnd{Record: r, To: jobs.Failed, Took: time.Minute}, at(2), 0},
		{"the last", RunEnd{Record: last, To: jobs.Succeeded}, time.Time{}, 0},
		{"is tried again", RunEnd{Record: r, To: jobs.Waiting}, time.Time{}, 0},
		{"cancelled", RunEnd{Record: r, To: jobs.Cancelled, Asked: true, Cancelled: true}, time.Time{}, 0},
		{"ended for another reason", RunEnd{Record: r, To: jobs.Cancelled, Asked: true}, at(2), 10 * time.Second},
	} {
		got, _ := f.OfEnd(test.end, false, noon)
		if (len(got) == 1) != !test.next.IsZero() || len(got) > 1 {
			t.Errorf("%s: %v", test.name, got)
			continue
		}
		for _, run := range got {
			if run.Delay != test.delay || run.Backfill != left || !run.Tick.Equal(test.next) || run.Trigger != r.Trigger || run.Job != "job" {
				t.Errorf("%s: %+v", test.name, run)
			}
		}
	}
}

// A notice that a limit leaves out is counted in the next one, and one that the ledger has not inserted does not count.
func TestLimitOfNotices(t *testing.T) {
	t.Parallel()
	f := following(map[string]jobs.Schedule{"fails": jobs.OnFailure().AtMost(1, time.Hour)})
	tell := func(job string, minute int) ([]store.Follower, []LeftOut) {
		r := jobs.Record{Key: jobs.Key{Job: job, Tick: at(minute)}}
		return f.OfEnd(RunEnd{Record: r, To: jobs.Failed}, false, at(minute))
	}
	first, left := tell("a", 0)
	if len(first) != 1 || len(left) > 0 {
		t.Fatalf("%v, left out %v", first, left)
	}
	f.Answered(first, false)
	second, left := tell("b", 1)
	if len(second) != 1 || len(left) > 0 {
		t.Fatalf("the first was not told: %v, left out %v", second, left)
	}
	f.Answered(second, true)
	f.Answered(second, false) // it was answered for
	for i, job := range []string{"c", "d"} {
		got, left := tell(job, 2+i)
		want := LeftOut{Notifier: "fails", Event: jobs.NoticeFailure, Key: jobs.Key{Job: job, Tick: at(2 + i)}, First: i == 0}
		if len(got) > 0 || !slices.Equal(left, []LeftOut{want}) {
			t.Errorf("%v, left out %+v, want %+v", got, left, want)
		}
	}
	again, left := tell("b", 4)
	if want := []LeftOut{{Notifier: "fails", Event: jobs.NoticeFailure, Key: jobs.Key{Job: "b", Tick: at(4)}, Again: true}}; len(again) > 0 || !slices.Equal(left, want) {
		t.Errorf("%v, left out %+v", again, left)
	}
	later, left := tell("e", 61)
	if len(later) != 1 || len(left) > 0 || noticeOf(t, later[0]).LeftOut != 3 {
		t.Fatalf("%+v, left out %v", later, left)
	}
	f.Answered(later, false)
	if got, _ := tell("e", 62); len(got) != 1 || noticeOf(t, got[0]).LeftOut != 3 {
		t.Errorf("what was left out before a notice that was not told: %+v", got)
	}
}

// Over a takeover, what earlier terms told counts, unless this term has counted itself.
func TestCountOfEarlierTerms(t *testing.T) {
	t.Parallel()
	f := following(map[string]jobs.Schedule{"tell": jobs.OnFailure().OnRecovery().AtMost(2, time.Hour)})
	run := func(n int) jobs.Key { return jobs.Key{Job: "tell", Tick: at(n)} }
	if !f.Count("tell", []Told{{At: at(0), Run: run(0)}, {At: at(1), Run: run(1)}}) || f.Count("tell", nil) {
		t.Error("a notifier is counted once")
	}
	f.Recall("another", nil)
	fails := RunEnd{Record: jobs.Record{Key: jobs.Key{Job: "a", Tick: at(2)}}, To: jobs.Failed}
	if got, left := f.OfEnd(fails, false, at(2)); len(got) > 0 || len(left) != 1 {
		t.Errorf("%v, left out %v", got, left)
	}
	f.Recall("tell", map[jobs.Key]jobs.Notice{run(0): {Job: "b", Event: jobs.NoticeFailure}, run(1): {Job: "c", Event: jobs.NoticeFailure}})
	recovers := RunEnd{Record: jobs.Record{Key: jobs.Key{Job: "b", Tick: at(2)}}, To: jobs.Succeeded, Recovers: true}
	if got, left := f.OfEnd(recovers, false, at(2)); len(got) != 1 || len(left) > 0 {
		t.Errorf("a recovery from a failure that was told: %v, left out %v", got, left)
	}
}

// The ledger's rows count, where they were read again, and what was left out is still to be told.
func TestRecountOfNotices(t *testing.T) {
	t.Parallel()
	f := following(map[string]jobs.Schedule{"tell": jobs.OnFailure().AtMost(1, time.Hour)})
	fail := func(job string, minute int) ([]store.Follower, []LeftOut) {
		return f.OfEnd(RunEnd{Record: jobs.Record{Key: jobs.Key{Job: job, Tick: at(minute)}}, To: jobs.Failed}, false, at(minute))
	}
	told, _ := fail("a", 0)
	if len(told) != 1 || !f.Untold() {
		t.Fatalf("the first: %v, untold %v", told, f.Untold())
	}
	f.Answered(told, true)
	if f.Untold() {
		t.Error("untold once the ledger has answered")
	}
	fail("b", 1)
	f.Recount("another", nil, nil)
	f.Recount("tell", nil, nil) // the row of the first is gone
	again, _ := fail("c", 2)
	if len(again) != 1 || noticeOf(t, again[0]).LeftOut != 1 {
		t.Errorf("after a reading without any: %+v", again)
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	notifier := jobs.OnFailure().AtMost(10, time.Hour)
	for _, test := range []struct {
		schedule jobs.Schedule
		has      jobs.History
		want     jobs.History
	}{
		{jobs.Manual(), jobs.History{Keep: 2}, jobs.History{Keep: 2}},
		{notifier, jobs.History{Keep: 2}, jobs.History{Keep: 10}},
		{notifier, jobs.History{Keep: 20}, jobs.History{Keep: 20}},
		{notifier, jobs.History{For: time.Minute}, jobs.History{For: time.Hour}},
		{notifier, jobs.History{For: 2 * time.Hour}, jobs.History{For: 2 * time.Hour}},
		{notifier, jobs.History{}, jobs.History{}},
	} {
		if got := Keep(&jobs.Job{Schedule: test.schedule, History: test.has}); got != test.want {
			t.Errorf("%v, %+v: %+v", test.schedule, test.has, got)
		}
	}
}
