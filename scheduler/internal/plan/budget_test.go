package plan

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A limit of 8 an hour, of which news of one job may take 2, and repeats leave 2.
func TestBudget(t *testing.T) {
	t.Parallel()
	const most, per = 8, time.Hour
	tell := func(b *budget, job string, event jobs.NoticeEvent, minute int) (told, again bool) {
		undo, again := b.take(Told{At: at(minute), job: job, event: event}, most, per)
		return undo != nil, again
	}
	for _, test := range []struct {
		name   string
		before func(b *budget)
		job    string
		event  jobs.NoticeEvent
		minute int
		told   bool
		again  bool
	}{
		{"the first", func(*budget) {}, "a", jobs.NoticeFailure, 0, true, false},
		{"a repeat, soon", func(b *budget) { tell(b, "a", jobs.NoticeFailure, 0) }, "a", jobs.NoticeFailure, 29, false, true},
		{"a repeat, after half of the time", func(b *budget) { tell(b, "a", jobs.NoticeFailure, 0) }, "a", jobs.NoticeFailure, 30, true, true},
		{"after all of the time", func(b *budget) { tell(b, "a", jobs.NoticeFailure, 0) }, "a", jobs.NoticeFailure, 60, true, false},
		{"of another job", func(b *budget) { tell(b, "a", jobs.NoticeFailure, 0) }, "b", jobs.NoticeFailure, 1, true, false},
		{"another event", func(b *budget) { tell(b, "a", jobs.NoticeFailure, 0) }, "a", jobs.NoticeMissed, 1, true, false},
		{"a repeat of what was missed", func(b *budget) { tell(b, "a", jobs.NoticeMissed, 0) }, "a", jobs.NoticeMissed, 1, false, true},
		{"a recovery", func(b *budget) { tell(b, "a", jobs.NoticeFailure, 0) }, "a", jobs.NoticeRecovery, 1, true, false},
		{"a recovery that nothing was told before", func(b *budget) { many(b, tell, 8) }, "x", jobs.NoticeRecovery, 1, false, false},
		{"a failure after its recovery", func(b *budget) {
			tell(b, "a", jobs.NoticeFailure, 0)
			tell(b, "a", jobs.NoticeRecovery, 1)
		}, "a", jobs.NoticeFailure, 2, true, false},
		{"the share of one job", func(b *budget) {
			tell(b, "a", jobs.NoticeFailure, 0)
			tell(b, "a", jobs.NoticeRecovery, 1)
			tell(b, "a", jobs.NoticeFailure, 2)
			tell(b, "a", jobs.NoticeRecovery, 3)
		}, "a", jobs.NoticeFailure, 4, false, false},
		{"all but one", func(b *budget) { many(b, tell, 7) }, "x", jobs.NoticeFailure, 1, true, false},
		{"all", func(b *budget) { many(b, tell, 8) }, "x", jobs.NoticeFailure, 1, false, false},
		{"a recovery at the limit", func(b *budget) { many(b, tell, 8) }, "a", jobs.NoticeRecovery, 1, true, false},
		{"a repeat that leaves a quarter", func(b *budget) { many(b, tell, 5) }, "a", jobs.NoticeFailure, 31, true, true},
		{"a repeat that leaves less", func(b *budget) { many(b, tell, 6) }, "a", jobs.NoticeFailure, 31, false, true},
	} {
		b := &budget{}
		test.before(b)
		left := b.leftOut
		if told, again := tell(b, test.job, test.event, test.minute); told != test.told || again != test.again || (b.leftOut > left) == told {
			t.Errorf("%s: told %v, again %v, left out %d", test.name, told, again, b.leftOut-left)
		}
	}
}

// many tells that so many jobs fail: a, b, c…
func many(b *budget, tell func(*budget, string, jobs.NoticeEvent, int) (bool, bool), n int) {
	for i := range n {
		tell(b, string(rune('a'+i)), jobs.NoticeFailure, 0)
	}
}

// What is taken back was never told.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	b := &budget{}
	failure := Told{At: noon, job: "a", event: jobs.NoticeFailure}
	undo, _ := b.take(failure, 1, time.Hour)
	undo()
	if len(b.sent)+len(b.failing) > 0 {
		t.Errorf("%+v", b)
	}
	first, _ := b.take(failure, 9, time.Hour)
	second := Told{At: at(50), job: "a", event: jobs.NoticeFailure}
	if undo, _ := b.take(second, 9, time.Hour); undo == nil {
		t.Fatal("not told")
	}
	first()
	if len(b.sent) != 1 || b.failing["a"] != second {
		t.Errorf("%+v", b)
	}
	undo, _ = b.take(Told{At: at(51), job: "a", event: jobs.NoticeRecovery}, 9, time.Hour)
	if len(b.failing) > 0 {
		t.Errorf("after its recovery, it still fails: %+v", b)
	}
	undo()
	if b.failing["a"] != second {
		t.Errorf("%+v", b)
	}
}

func TestFirstLeftOut(t *testing.T) {
	t.Parallel()
	b := &budget{}
	for minute, want := range []bool{0: true, 1: false, 59: false, 60: true, 61: false} {
		if minute > 1 && minute < 59 {
			continue
		}
		if got := b.first(at(minute), time.Hour); got != want {
			t.Errorf("minute %d: %v", minute, got)
		}
	}
}

// What notices of earlier terms tell counts for their jobs, and recoveries from failures that were told do not count.
func TestRecall(t *testing.T) {
	t.Parallel()
	run := func(n int) jobs.Key { return jobs.Key{Job: "tell", Tick: at(n)} }
	b := &budget{sent: []Told{{At: at(0), Run: run(0)}, {At: at(1), Run: run(1)}, {At: at(2), Run: run(2)}, {At: at(3), Run: run(3)}, {At: at(4), job: "mine", event: jobs.NoticeFailure, Run: run(4)}}}
	b.recall(map[jobs.Key]jobs.Notice{
		run(0): {Job: "a", Event: jobs.NoticeFailure}, run(1): {Job: "a", Event: jobs.NoticeRecovery}, run(2): {Job: "b", Event: jobs.NoticeRecovery},
		run(4): {Job: "other", Event: jobs.NoticeRecovery},
	})
	var jobsOf []string
	for _, x := range b.sent {
		jobsOf = append(jobsOf, x.job+" "+string(x.event))
	}
	want := []string{"a failure", "b recovery", " ", "mine failure"}
	if len(jobsOf) != len(want) {
		t.Fatalf("%q", jobsOf)
	}
	for i := range want {
		if jobsOf[i] != want[i] {
			t.Errorf("%q, want %q", jobsOf, want)
		}
	}
	if _, fails := b.failing["mine"]; len(b.failing) != 1 || !fails {
		t.Errorf("failing: %v", b.failing)
	}
}
