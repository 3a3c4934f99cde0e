package jobs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// owners are those of replicas.
func owners(replicas []jobs.Replica) (all []string) {
	for _, r := range replicas {
		all = append(all, r.Owner)
	}
	return all
}

// Which replicas of a group count, to the instant.
func TestRoster(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	r := jobs.Roster{Now: noon, Leader: "leader", Replicas: []jobs.Replica{
		{Owner: "begins", Since: ago(5 * time.Second), Seen: noon, Presence: jobs.Absent, Jobs: map[string]jobs.ScheduleHash{"job": 1}},
		{Owner: "dead", Seen: ago(jobs.ReplicaLife + 1), Presence: jobs.Present, Jobs: map[string]jobs.ScheduleHash{"job": 1}},
		{Owner: "gone", Since: ago(5*time.Second + 1), Seen: noon, Presence: jobs.Absent, Jobs: map[string]jobs.ScheduleHash{"job": 1}},
		{Owner: "late", Seen: ago(jobs.ReplicaLife)},
		{Owner: "leader", Seen: noon},
	}}
	for _, test := range []struct {
		what      string
		got, want []string
	}{
		{"live", owners(r.Live()), []string{"begins", "late", "leader"}},
		{"gone", owners(r.Gone()), []string{"gone"}},
		{"standby", owners(r.Standby()), []string{"begins", "late"}},
		{"live once the lease has expired", owners(r.Expired().Live()), []string{"begins", "late"}},
		{"live after that question", owners(r.Live()), []string{"begins", "late", "leader"}},
		{"with the job", r.With("job"), []string{"begins", "gone"}},
		{"with another job", r.With("other"), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
	for owner, want := range map[string]bool{"begins": true, "dead": true, "leader": true, "nobody": false, "": false} {
		if x, ok := r.Find(owner); ok != want || ok && x.Owner != owner {
			t.Errorf("%q: found %v, %t", owner, x, ok)
		}
	}
	for leader, want := range map[string]bool{"leader": true, "": true, "older": false} {
		r.Leader = leader
		if r.LeaderTold() != want {
			t.Errorf("leader %q: told %t, want %t", leader, !want, want)
		}
	}
}

// Replicas that declare other jobs than the leader are found, with the jobs.
func TestDifferences(t *testing.T) {
	t.Parallel()
	has := func(owner string, of map[string]jobs.ScheduleHash) jobs.Replica {
		return jobs.Replica{Owner: owner, Seen: noon, Jobs: of}
	}
	r := jobs.Roster{Now: noon, Leader: "leader", Replicas: []jobs.Replica{
		has("fewer", map[string]jobs.ScheduleHash{"a": 1}),
		has("leader", map[string]jobs.ScheduleHash{"a": 1, "b": 2}),
		has("more", map[string]jobs.ScheduleHash{"a": 1, "b": 2, "c": 3, "d": 4}),
		has("other", map[string]jobs.ScheduleHash{"a": 1, "b": 7}),
	}}
	want := func(d jobs.Differences, notLed, rescheduled []string) {
		t.Helper()
		if !slices.Equal(d.NotLed, notLed) || !slices.Equal(d.Rescheduled, rescheduled) || d.Any() != (notLed != nil || rescheduled != nil) {
			t.Errorf("%+v, any %t, want %v and %v", d, d.Any(), notLed, rescheduled)
		}
	}
	want(r.Differences(), []string{"c", "d"}, []string{"b"})
	want(r.DifferencesOf("fewer"), nil, nil)
	want(r.DifferencesOf("leader"), nil, nil)
	want(r.DifferencesOf("more"), []string{"c", "d"}, nil)
	want(r.DifferencesOf("other"), nil, []string{"b"})
	want(r.DifferencesOf("nobody"), nil, nil)
	r.Leader = "older"
	want(r.Differences(), nil, nil)
}
