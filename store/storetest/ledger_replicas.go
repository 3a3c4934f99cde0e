package storetest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// replicaCases are for [store.Replicas].
var replicaCases = []ledgerCase{
	{"replicas/a roster has what replicas tell", func(e *ledgerEnv) {
		s := e.openReplicas()
		before := e.now()
		told := e.tell(s, alice, 1, "v1.2.3", report, cleanup)
		e.tell(s, bob, 1, "", report)
		r := e.roster(s)
		e.between(r.Now, before, "the database's clock, by Roster")
		if len(r.Replicas) != 2 || r.Replicas[0].Owner != alice || r.Replicas[1].Owner != bob {
			e.Fatalf("Roster has %v, want alice and bob", owners(r))
		}
		got := r.Replicas[0]
		if got.Version != told.Version || got.List != told.List || !maps.Equal(got.Jobs, told.Jobs) {
			e.Errorf("Roster has %+v, want %+v", got, told)
		}
		e.between(got.Since, before, "Since")
		e.between(got.Seen, before, "Seen")
		if len(r.Replicas[1].Jobs) != 1 || r.Replicas[1].Version != "" {
			e.Errorf("Roster has %+v of bob, want one job and no version", r.Replicas[1])
		}
	}},

	{"replicas/a roster names the holder of the lease", func(e *ledgerEnv) {
		s := e.openReplicas()
		e.equal(e.roster(s).Leader, "", "the leader of a group without a lease")
		h := e.take(s, group, alice)
		e.equal(e.roster(s).Leader, alice, "the leader")
		e.equal(e.roster(s).LeaderTold(), false, "that the leader has told of itself")
		e.tell(s, alice, 1, "", report)
		e.equal(e.roster(s).Leader, alice, "the leader")
		e.equal(e.roster(s).LeaderTold(), true, "that the leader has told of itself")
		e.ok(s.Release(e.ctx(), group, alice, h.Token), "Release")
		e.equal(e.roster(s).Leader, "", "the leader after the release")
	}},

	{"replicas/a replica tells its labels and slots", func(e *ledgerEnv) {
		s := e.openReplicas()
		told := jobs.Replica{Owner: alice, List: 1, Jobs: map[string]jobs.ScheduleHash{report: 1}, Labels: jobs.Labels{"disk": "ssd", "zone": "a"}, MaxRuns: 7, FollowerOnly: true, Lent: map[string]string{"new": "a=\x00\xff", "old": ""}}
		e.ok(s.Enlist(e.ctx(), group, told), "Enlist")
		e.tell(s, bob, 1, "", report)
		known := e.rosterOf(s, 2)
		again, err := s.Roster(e.ctx(), group, known)
		e.ok(err, "Roster")
		for _, r := range []jobs.Roster{known, again} {
			got, _ := r.Find(alice)
			e.equal(fmt.Sprint(got.Labels, got.MaxRuns, got.FollowerOnly, len(got.Jobs), got.Lent), fmt.Sprint(told.Labels, 7, true, 1, told.Lent), "what a replica has told")
			got, _ = r.Find(bob)
			e.equal(fmt.Sprint(got.Labels, got.MaxRuns, got.FollowerOnly, len(got.Jobs), got.Lent), fmt.Sprint(jobs.Labels(nil), 0, false, 1, map[string]string(nil)), "what a replica without labels has told")
		}
	}},

	{"replicas/each group has its own", func(e *ledgerEnv) {
		s := e.openReplicas()
		e.tell(s, alice, 1, "", report)
		e.take(s, group, alice)
		r, err := s.Roster(e.ctx(), otherOne, jobs.Roster{})
		e.ok(err, "Roster")
		if len(r.Replicas) > 0 || r.Leader != "" {
			e.Errorf("Roster of another group: %v, leader %q", owners(r), r.Leader)
		}
		same := jobs.Replica{Owner: alice, List: 1, Jobs: map[string]jobs.ScheduleHash{cleanup: jobs.HashSchedule("every 1h")}}
		e.ok(s.Enlist(e.ctx(), otherOne, same), "Enlist in another group")
		if got := e.rosterOf(s, 1).Replicas[0].Jobs; len(got) != 1 || got[cleanup] == same.Jobs[cleanup] {
			e.Errorf("Roster has jobs that the replica has in another group: %v", got)
		}
		e.ok(s.Strike(e.ctx(), otherOne, alice, 0), "Strike")
		e.ok(s.Strike(e.ctx(), group, bob, 0), "Strike")
		if got := owners(e.roster(s)); len(got) != 1 {
			e.Errorf("after Strike of another group and of another replica: %v, want alice", got)
		}
		e.ok(s.Strike(e.ctx(), group, alice, 0), "Strike")
		if got := owners(e.roster(s)); len(got) != 0 {
			e.Errorf("after Strike: %v", got)
		}
	}},

	{"replicas/a replica tells again", func(e *ledgerEnv) {
		s := e.openReplicas()
		e.tell(s, alice, 1, "v1", report, cleanup)
		first := e.rosterOf(s, 1)
		told := e.tell(s, alice, 2, "v2", cleanup, "new")
		r := e.rosterOf(s, 1)
		got := r.Replicas[0]
		if got.List != 2 || got.Version != "v2" || !maps.Equal(got.Jobs, told.Jobs) {
			e.Errorf("Roster has %+v, want %+v", got, told)
		}
		if was := first.Replicas[0]; !got.Since.Equal(was.Since) || !got.Seen.After(was.Seen) {
			e.Errorf("told again: since %v and seen %v, before %v and %v", got.Since, got.Seen, was.Since, was.Seen)
		}
		again, err := s.Roster(e.ctx(), group, first)
		e.ok(err, "Roster")
		if len(again.Replicas) != 1 || !maps.Equal(again.Replicas[0].Jobs, told.Jobs) {
			e.Errorf("Roster for a reader who knows the list before: %v, want %v", again.Replicas, told.Jobs)
		}
	}},

	{"replicas/a replica refreshes", func(e *ledgerEnv) {
		s := e.openReplicas()
		told := e.tell(s, alice, 1, "v1", report, cleanup)
		e.tell(s, bob, 1, "", report)
		first := e.rosterOf(s, 2)
		before := e.now()
		e.ok(s.Refresh(e.ctx(), group, alice), "Refresh")
		e.ok(s.Refresh(e.ctx(), otherOne, bob), "Refresh of another group")
		e.ok(s.Refresh(e.ctx(), group, "worker/nobody/1/x"), "Refresh of a replica that is not there")
		r, err := s.Roster(e.ctx(), group, first)
		e.ok(err, "Roster")
		if len(r.Replicas) != 2 {
			e.Fatalf("after Refresh: %v, want alice and bob", owners(r))
		}
		got := r.Replicas[0]
		e.between(got.Seen, before, "Seen after Refresh")
		if !got.Since.Equal(first.Replicas[0].Since) || got.List != 1 || got.Version != "v1" || !maps.Equal(got.Jobs, told.Jobs) {
			e.Errorf("after Refresh: %+v, before %+v", got, first.Replicas[0])
		}
		if !r.Replicas[1].Seen.Equal(first.Replicas[1].Seen) {
			e.Error("Refresh of alice has refreshed bob")
		}
	}},

	{"replicas/only what was not seen for a while is struck", func(e *ledgerEnv) {
		s := e.openReplicas()
		e.tell(s, alice, 1, "", report)
		e.ok(s.Strike(e.ctx(), group, alice, time.Hour), "Strike")
		if got := owners(e.roster(s)); len(got) != 1 {
			e.Fatalf("Strike of what was seen within the hour left %v", got)
		}
		if e.h.StepClock == nil {
			return
		}
		e.h.StepClock(e.TB, 2*time.Hour)
		e.ok(s.Strike(e.ctx(), group, alice, time.Hour), "Strike")
		if got := owners(e.roster(s)); len(got) != 0 {
			e.Errorf("Strike of what was not seen for two hours left %v", got)
		}
	}},

	{"replicas/10,000 jobs with long names", func(e *ledgerEnv) {
		s := e.openReplicas()
		names := make([]string, 10_000)
		for i := range names {
			names[i] = fmt.Sprintf("%x-%d-", newID(), i)
			names[i] += strings.Repeat("x", store.MaxName-len(names[i]))
		}
		told := e.tell(s, alice, 1, "", names...)
		if got := e.roster(s).Replicas; len(got) != 1 || !maps.Equal(got[0].Jobs, told.Jobs) {
			e.Errorf("Roster has %d replicas, and not the 10,000 jobs", len(got))
		}
		e.tell(s, alice, 2, "", report)
		if got := e.roster(s).Replicas; len(got) != 1 || len(got[0].Jobs) != 1 {
			e.Errorf("Roster has %d replicas, want one with one job", len(got))
		}
	}},

	{"replicas/names are checked", func(e *ledgerEnv) {
		s := e.openReplicas()
		for _, bad := range []string{"", "a b", strings.Repeat("x", store.MaxName+1)} {
			if s.Enlist(e.ctx(), bad, jobs.Replica{Owner: alice, List: 1}) == nil || s.Enlist(e.ctx(), group, jobs.Replica{Owner: bad, List: 1}) == nil {
				e.Errorf("Enlist takes the name %q", bad)
			}
		}
	}},

	{"replicas/a term notes what is gone", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		e.equal(e.known(group, report).Gone, time.Time{}, "Gone of a job that is declared")
		before := e.now()
		e.ok(s.Gone(e.ctx(), h, []string{report, "unknown"}), "Gone")
		gone := e.known(group, report).Gone
		e.between(gone, before, "Gone")
		e.equal(e.known(group, cleanup).Gone, time.Time{}, "Gone of the other job")
		if _, ok := e.load(group).Jobs["unknown"]; ok {
			e.Error("Gone has made a job")
		}
		h = e.take(s, group, bob)
		e.ok(s.Gone(e.ctx(), h, []string{report}), "Gone again")
		e.equal(e.known(group, report).Gone, gone, "Gone once more")
		e.declareJobs(s, h, cleanup)
		e.equal(e.known(group, report).Gone, gone, "Gone after another job was declared")
		was := e.known(group, report)
		e.declareJobs(s, h, report)
		got := e.known(group, report)
		e.equal(got.Gone, time.Time{}, "Gone of a job that is declared again")
		was.Gone = time.Time{}
		e.equal(got, was, "a job that is declared again")
	}},

	{"replicas/since when a job is gone is one question", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.ok(s.Gone(e.ctx(), h, []string{report}), "Gone")
		gone := e.known(group, report).Gone
		for _, c := range []struct {
			group, job string
			want       time.Time
		}{{group, report, gone}, {group, cleanup, time.Time{}}, {otherOne, report, time.Time{}}, {group, "unknown", time.Time{}}, {"none", report, time.Time{}}} {
			got, err := s.GoneSince(e.ctx(), c.group, c.job)
			e.ok(err, "GoneSince")
			e.equal(got, c.want, "GoneSince of "+c.group+", "+c.job)
		}
		e.declareJobs(s, h, report)
		got, err := s.GoneSince(e.ctx(), group, report)
		e.ok(err, "GoneSince")
		e.equal(got, time.Time{}, "GoneSince of a job that is declared again")
	}},

	{"replicas/what is gone is of the group and the term", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.ok(s.Gone(e.ctx(), h, []string{report}), "Gone")
		e.equal(e.known(otherOne, report).Gone, time.Time{}, "Gone in the other group")
		e.take(s, group, bob)
		for what, wrong := range map[string]store.Holder{
			"a replaced holder":  h,
			"another owner":      {Group: group, Owner: alice, Token: e.fenceToken()},
			"an older token":     {Group: group, Owner: bob, Token: e.fenceToken() - 1},
			"no owner":           {Group: group, Token: e.fenceToken()},
			"a group of no term": {Group: "none", Owner: bob, Token: e.fenceToken()},
		} {
			e.is(s.Gone(e.ctx(), wrong, []string{cleanup}), store.ErrReplaced, "Gone by "+what)
			e.equal(e.known(group, cleanup).Gone, time.Time{}, "Gone by "+what)
		}
	}},

	{"replicas/1,200 jobs are gone", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		names := make([]string, 1200)
		for i := range names {
			names[i] = fmt.Sprintf("job-%d", i)
		}
		e.declareJobs(s, h, names...)
		e.ok(s.Gone(e.ctx(), h, names), "Gone")
		gone := 0
		for _, known := range e.load(group).Jobs {
			if !known.Gone.IsZero() {
				gone++
			}
		}
		e.equal(gone, len(names), "jobs that are gone")
		e.ok(s.Gone(e.ctx(), h, nil), "Gone of none")
	}},

	{"replicas/a job is forgotten with all that is known of it", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.running(s, other, key(report, 1))
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		e.skipped(s, h, key(report, 1))
		e.moved(s, h, saying(store.JobFails, e.record(group, e.trigger(s, report))))
		e.trigger(s, report)
		for n := range 30 {
			e.skipped(s, h, key(report, n+2))
		}
		kept := e.running(s, h, key(cleanup, 1))
		e.ok(s.Gone(e.ctx(), h, []string{report}), "Gone")
		e.ok(s.Gone(e.ctx(), other, []string{report}), "Gone in another group")
		gone := e.known(group, report).Gone
		e.forget(s, report, gone, true)
		snapshot := e.load(group)
		if _, ok := snapshot.Jobs[report]; ok || len(snapshot.Pauses[report]) > 0 || len(snapshot.Open) != 1 {
			e.Errorf("after Forget: %+v", snapshot)
		}
		if rs := e.runs(group, jobs.Filter{Job: report}); len(rs) > 0 {
			e.Errorf("after Forget there are %d runs of the job", len(rs))
		}
		e.unchanged(kept, "the run of another job")
		e.equal(e.count(otherOne), 1, "runs of the other group")
		e.known(group, cleanup)
		e.known(otherOne, report)
		e.forget(s, report, gone, false)

		// To a term that declares it later, the job is new.
		before := e.now()
		e.declareJobs(s, h, report)
		known := e.known(group, report)
		e.between(known.Since, before, "Since of a job that was forgotten")
		if !known.Cursor.IsZero() || known.Paused || known.Failing || !known.Finished.IsZero() {
			e.Errorf("a job that was forgotten comes back as %+v", known)
		}
		e.running(s, h, key(report, 0)) // earlier than all ticks that it had
	}},

	{"replicas/only a job that is gone is forgotten", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		run := e.running(s, h, key(report, 1))
		e.forget(s, report, time.Time{}, false)
		e.forget(s, report, e.now(), false)
		e.ok(s.Gone(e.ctx(), h, []string{report}), "Gone")
		gone := e.known(group, report).Gone
		e.forget(s, report, gone.Add(time.Microsecond), false)
		e.forget(s, report, gone.Add(-time.Microsecond), false)
		e.forget(s, "", gone, false)
		e.forget(s, "repor", gone, false)
		e.declareJobs(s, h, report)
		e.forget(s, report, gone, false)
		e.known(group, report)
		e.unchanged(run, "a run of a job that was not forgotten")
	}},

	{"replicas/their methods end with their context", func(e *ledgerEnv) {
		s := e.openReplicas()
		h := e.begin(s)
		ctx, cancel := context.WithCancel(e.ctx())
		cancel()
		_, roster := s.Roster(ctx, group, jobs.Roster{})
		_, forget := s.Forget(ctx, group, report, e.now())
		for what, err := range map[string]error{
			"Enlist":  s.Enlist(ctx, group, jobs.Replica{Owner: alice, List: 1}),
			"Refresh": s.Refresh(ctx, group, alice),
			"Strike":  s.Strike(ctx, group, alice, 0),
			"Gone":    s.Gone(ctx, h, []string{report}),
			"Roster":  roster,
			"Forget":  forget,
		} {
			if err == nil {
				e.Errorf("%s succeeds after its context has ended", what)
			}
		}
	}},
}

// openReplicas returns a store that has them, or skips the case.
func (e *ledgerEnv) openReplicas() replicaStore {
	e.Helper()
	s, ok := e.open().(replicaStore)
	if !ok {
		e.Skip("the store is no store.Replicas")
	}
	return s
}

type replicaStore interface {
	store.Leases
	store.Replicas
}

// tell enlists a replica with these jobs.
func (e *ledgerEnv) tell(s replicaStore, owner string, list uint64, version string, names ...string) jobs.Replica {
	e.Helper()
	r := jobs.Replica{Owner: owner, Version: version, List: list, Jobs: map[string]jobs.ScheduleHash{}}
	for _, name := range names {
		r.Jobs[name] = jobs.HashSchedule(fmt.Sprintf("every %dm", list))
	}
	e.ok(s.Enlist(e.ctx(), group, r), "Enlist")
	return r
}

func (e *ledgerEnv) roster(s replicaStore) jobs.Roster {
	e.Helper()
	r, err := s.Roster(e.ctx(), group, jobs.Roster{})
	e.ok(err, "Roster")
	return r
}

func (e *ledgerEnv) rosterOf(s replicaStore, n int) jobs.Roster {
	e.Helper()
	r := e.roster(s)
	if len(r.Replicas) != n {
		e.Fatalf("Roster has %v, want %d replicas", owners(r), n)
	}
	return r
}

func owners(r jobs.Roster) []string {
	var all []string
	for _, x := range r.Replicas {
		all = append(all, x.Owner)
	}
	return all
}

func (e *ledgerEnv) forget(s replicaStore, job string, gone time.Time, want bool) {
	e.Helper()
	forgotten, err := s.Forget(e.ctx(), group, job, gone)
	e.ok(err, "Forget")
	e.equal(forgotten, want, fmt.Sprintf("Forget of %q, gone since %v", job, gone))
}

func (e *ledgerEnv) fenceToken() uint64 {
	e.Helper()
	rs, err := e.watch.Read(e.ctx(), group)
	e.ok(err, "Read")
	return rs[0].Fence.Token
}
