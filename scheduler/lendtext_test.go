package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// What a replica tells of a job is what the leader plans. Texts that no replica sends are not read, and take no time.
func TestLentJob(t *testing.T) {
	job := jobs.Job{
		Name: "job", Schedule: jobs.Cron("*/5 * * * *"), Jitter: time.Second, Timeout: time.Minute, Misfire: jobs.MisfireAll,
		CatchUp: jobs.CatchUp{Limit: 3, Deadline: time.Hour}, Recover: jobs.RecoverRerun, Retry: jobs.Retry{Attempts: 3, Initial: time.Second},
		Overlap: jobs.OverlapQueue, Priority: jobs.PriorityHigh, Pool: jobs.Pool{Name: "p", Limit: 2},
		On: jobs.Labels{"disk": "ssd", "zone": "a"}, Prefer: jobs.Labels{"x": "y"}, Shards: 3, LockAtLeastFor: time.Second,
		Do: func(context.Context, jobs.Run) error { return nil },
	}.Complete()
	text := lend(job)
	got, ok := lentJob(text)
	if !ok {
		t.Fatalf("not read: %q", text)
	}
	if again := lend(got); again != text {
		t.Errorf("%q, and then %q", text, again)
	}
	got.Do, job.Do = nil, nil
	if !reflect.DeepEqual(got, job) {
		t.Errorf("%+v, want %+v", got, job)
	}
	of := func(schedule string) string { return strings.Replace(text, "*/5 * * * *", schedule, 1) }
	for _, bad := range []string{"", "{}", "\x00\xff", `{"Name":"x"}`, of("every"), of(strings.Repeat("1,", 2000) + "1 * * * *"), text[:len(text)-1], strings.Repeat(" ", lentMost) + text} {
		if _, ok := lentJob(bad); ok {
			t.Errorf("read: %.80q", bad)
		}
	}
	for _, s := range []jobs.Schedule{jobs.After("other"), jobs.ShardsSchedule("other")} {
		other := job
		other.Schedule, other.Shards = s, 0
		if lend(other) != "" {
			t.Errorf("lent: %v", s)
		}
	}
	began := time.Now()
	lentJob(of(`every 1m0s` + strings.Repeat("; from a", 31000)))
	if took := time.Since(began); took > time.Second {
		t.Errorf("a long schedule took %v", took)
	}
}

// Texts that take long to read are read in turns, and a schedule whose next ticks take long to find is not planned.
func TestLentTextsThatTakeLong(t *testing.T) {
	slow := jobs.Job{
		Schedule: jobs.Within(jobs.Every(time.Second), jobs.Calendar{Except: []string{"*/2 * * * * *", "1-59/2 1-59 * * * *", "3-59/2 0 * * * *", "1 0 1-23 * * *"}, Zone: "Europe/Berlin"}),
		Jitter:   time.Second / 2,
	}
	texts := map[string]string{}
	for i := range 3000 {
		slow.Name = fmt.Sprint("job-", i)
		text, err := json.Marshal(lent{Job: slow.Complete(), Schedule: slow.Schedule.String()})
		if err != nil {
			t.Fatal(err)
		}
		texts[slow.Name] = string(text)
	}
	l := newList(true)
	l.borrow(texts)
	if read := len(l.loans); read == 0 || read == len(texts) {
		t.Errorf("%d of %d texts were read at once", read, len(texts))
	}
}
