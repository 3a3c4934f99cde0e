package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var loadOfCases = []ledgerCase{
	{"names/of all jobs", func(e *ledgerEnv) {
		s := e.openArchive()
		check := func(paused int, want ...string) {
			e.Helper()
			names, err := s.Names(e.ctx(), group)
			e.ok(err, "Names")
			if !slices.Equal(names.All, want) || names.Paused != paused {
				e.Errorf("Names: %+v, want %q, of which %d are paused", names, want, paused)
			}
		}
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		check(0)
		h := e.begin(s)
		e.declareJobs(s, e.take(s, otherOne, alice), "elsewhere")
		check(0, cleanup, report)
		e.declareJobs(s, h, "Zeit", "zeit")
		check(0, "Zeit", cleanup, report, "zeit")
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		check(1, "Zeit", cleanup, report, "zeit")
	}},

	{"load of/some jobs", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		e.declareJobs(s, h, "third")
		e.moved(s, h, saying(store.JobFails, e.running(s, h, key(report, 1))))
		e.running(s, h, key(report, 2))
		e.running(s, h, key(cleanup, 3))
		for _, name := range []string{report, cleanup, ""} {
			e.ok(s.Pause(e.ctx(), group, name), "Pause")
		}
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.running(s, other, key(report, 50))
		check := func(names ...string) {
			e.Helper()
			got, err := s.LoadOf(e.ctx(), group, names)
			e.ok(err, "LoadOf")
			want := e.load(group)
			for name := range want.Jobs {
				if !slices.Contains(names, name) {
					delete(want.Jobs, name)
					delete(want.Pauses, name)
				}
			}
			if got.Now.After(want.Now) || want.Now.Sub(got.Now) > time.Minute {
				e.Errorf("LoadOf %q: Now is %v, that of Load after it %v", names, got.Now, want.Now)
			}
			e.sameMoment(&got, want)
			if !reflect.DeepEqual(got, want) {
				e.Errorf("LoadOf %q:\n%+v, want\n%+v", names, got, want)
			}
		}
		check()
		check(report)
		check("third", "unknown", report, "third", "")
		many := slices.Repeat([]string{cleanup}, jobs.MaxOf)
		check(many...)
		if _, err := s.LoadOf(e.ctx(), group, append(many, report)); err == nil {
			e.Errorf("LoadOf more than %d jobs: no error", jobs.MaxOf)
		}
	}},
}

var newestCases = []ledgerCase{
	{"newest/of each job", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		for n := range 6 {
			r := e.running(s, h, key(report, n))
			if n < 4 {
				e.moved(s, h, to(jobs.Succeeded, r))
			}
			e.skipped(s, h, key(cleanup, n))
		}
		k := jobs.Key{Job: report, Tick: tick(3), Trigger: 9}
		_, err := s.Trigger(e.ctx(), group, report, jobs.Request{Tick: k.Tick, Trigger: k.Trigger})
		e.ok(err, "Trigger")
		other := e.take(s, otherOne, alice)
		e.running(s, other, key(report, 50))
		check := func(of jobs.Newest, ofReport []jobs.Key, ofCleanup ...int) {
			e.Helper()
			of.Jobs = []string{report, "unknown", cleanup, report}
			got, err := s.Newest(e.ctx(), group, of)
			e.ok(err, "Newest")
			want := map[string][]jobs.Key{report: ofReport}
			for _, n := range ofCleanup {
				want[cleanup] = append(want[cleanup], key(cleanup, n))
			}
			for _, job := range []string{report, "unknown", cleanup} {
				var keys []jobs.Key
				for _, r := range got[job] {
					keys = append(keys, r.Key)
					e.same(r, e.record(group, r.Key), "Newest")
				}
				if !slices.Equal(keys, want[job]) {
					e.Errorf("Newest of %+v: of %q %v, want %v", of, job, keys, want[job])
				}
				if _, ok := got[job]; ok && len(keys) == 0 {
					e.Errorf("Newest of %+v: has %q without runs", of, job)
				}
			}
		}
		ticks := func(all ...int) (keys []jobs.Key) {
			for _, n := range all {
				keys = append(keys, key(report, n))
			}
			return keys
		}
		check(jobs.Newest{}, ticks(5), 5)
		check(jobs.Newest{Over: true}, ticks(3), 5)
		check(jobs.Newest{Limit: 4}, append(append(ticks(5, 4), k), ticks(3)...), 5, 4, 3, 2)
		check(jobs.Newest{Since: tick(1), Until: tick(3), Limit: 9}, ticks(2, 1), 2, 1)
		check(jobs.Newest{Since: tick(1).Add(1), Until: tick(3).Add(1), Limit: 9}, append([]jobs.Key{k}, ticks(3, 2)...), 3, 2)
		check(jobs.Newest{Since: tick(60)}, nil)
	}},

	{"newest/of hundreds of jobs", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		var claims []store.Claim
		var names []string
		for n := range jobs.MaxOf {
			names = append(names, fmt.Sprintf("job-%03d", n))
			claims = append(claims, store.Claim{Key: key(names[n], n), State: jobs.Skipped}, store.Claim{Key: key(names[n], n+1), State: jobs.Skipped})
		}
		e.claim(s, h, newID(), claims...)
		got, err := s.Newest(e.ctx(), group, jobs.Newest{Jobs: names})
		e.ok(err, "Newest")
		for n, name := range names {
			if len(got[name]) != 1 || got[name][0].Key != key(name, n+1) {
				e.Fatalf("Newest of %q: %v", name, got[name])
			}
		}
		if _, err := s.Newest(e.ctx(), group, jobs.Newest{Jobs: append(names, "more")}); err == nil {
			e.Errorf("Newest of more than %d jobs: no error", jobs.MaxOf)
		}
	}},
}

func (e *ledgerEnv) counts(s archiveStore, f jobs.CountFilter) jobs.Counts {
	e.Helper()
	counts, err := s.Counts(e.ctx(), group, f)
	e.ok(err, "Counts")
	return counts
}

// counted compares counts with those that are wanted, which are written as "job bucket state
// runs".
func (e *ledgerEnv) counted(s archiveStore, f jobs.CountFilter, want ...string) {
	e.Helper()
	var got []string
	counts := e.counts(s, f)
	for _, c := range counts.List {
		at := strconv.Itoa(int(c.From.Sub(f.Since) / f.Every))
		if c.From.Sub(f.Since)%f.Every != 0 {
			at = c.From.String()
		}
		got = append(got, fmt.Sprintf("%s %s %v %d", c.Job, at, c.State, c.Runs))
	}
	if !slices.Equal(got, want) {
		e.Errorf("Counts of %+v: %q, want %q", f, got, want)
	}
	e.equal(len(counts.Cut), 0, "jobs of which not all runs are counted")
}

var countCases = []ledgerCase{
	{"counts/by job, bucket and state", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		for n := range 6 {
			e.skipped(s, h, key(report, n))
			e.running(s, h, key(cleanup, 2*n))
		}
		e.moved(s, h, to(jobs.Failed, e.record(group, key(cleanup, 2))))
		k := jobs.Key{Job: report, Tick: tick(3), Trigger: 9}
		_, err := s.Trigger(e.ctx(), group, report, jobs.Request{Tick: k.Tick, Trigger: k.Trigger})
		e.ok(err, "Trigger")
		other := e.take(s, otherOne, alice)
		e.running(s, other, key(report, 3))

		f := jobs.CountFilter{Since: tick(0), Until: tick(6), Every: 2 * time.Minute}
		f.Jobs = []string{report, "unknown"}
		e.counted(s, f, "report 0 skipped 2", "report 1 waiting 1", "report 1 skipped 2", "report 2 skipped 2")
		f.Jobs = []string{report, cleanup}
		e.counted(s, f, "cleanup 0 running 1", "cleanup 1 failed 1", "cleanup 2 running 1",
			"report 0 skipped 2", "report 1 waiting 1", "report 1 skipped 2", "report 2 skipped 2")
		f.Jobs = nil
		e.counted(s, f, " 0 running 1", " 0 skipped 2", " 1 waiting 1", " 1 failed 1", " 1 skipped 2", " 2 running 1", " 2 skipped 2")
		f.Since, f.Every = tick(1).Add(-time.Microsecond), time.Hour
		e.counted(s, f, " 0 running 1", " 0 waiting 1", " 0 failed 1", " 0 skipped 5")
		f.Since, f.Until = tick(1), tick(5).Add(time.Microsecond)
		e.counted(s, f, " 0 running 1", " 0 waiting 1", " 0 failed 1", " 0 skipped 5")
		f.Since, f.Until = tick(1).Add(time.Microsecond), tick(5)
		e.counted(s, f, " 0 running 1", " 0 waiting 1", " 0 failed 1", " 0 skipped 3")
		f.Jobs = []string{report}
		e.counted(s, f, "report 0 waiting 1", "report 0 skipped 3")
	}},

	{"counts/of each job up to its share", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		names := []string{report, cleanup}
		for n := range jobs.MaxOf - 2 {
			names = append(names, fmt.Sprint("job-", n))
		}
		const share = jobs.MaxCounted / jobs.MaxOf
		var claims []store.Claim
		for n := range share + 20 {
			claims = append(claims, store.Claim{Key: key(report, n), State: jobs.Skipped})
			if n < share {
				claims = append(claims, store.Claim{Key: key(cleanup, n), State: jobs.Skipped})
			}
		}
		e.claim(s, h, newID(), claims...)
		counts := e.counts(s, jobs.CountFilter{Jobs: names, Since: tick(0), Until: tick(1000), Every: 1000 * time.Minute})
		if len(counts.List) == 2 && len(counts.Cut) == 0 && counts.List[0].Runs == share && counts.List[1].Runs == share+20 {
			return // a store may count all of them
		}
		if len(counts.List) != 2 || counts.List[0].Runs != share || counts.List[1].Runs != share {
			e.Errorf("Counts of more runs than the share of a job: %+v, want %d of each", counts.List, share)
		}
		if from, ok := counts.Cut[report]; len(counts.Cut) != 1 || !ok || from.Before(tick(19)) || from.After(tick(20)) {
			e.Errorf("Counts are complete from %v on, want of %q from the run after that of %v", counts.Cut, report, tick(19))
		}
	}},

	{"counts/filters that are wrong", func(e *ledgerEnv) {
		s := e.openArchive()
		for _, f := range []jobs.CountFilter{
			{},
			{Since: tick(0), Until: tick(1)},
			{Since: tick(0), Until: tick(0), Every: time.Hour},
			{Since: tick(0), Until: tick(10), Every: time.Nanosecond},
			{Since: tick(0), Until: tick(10), Every: time.Millisecond},
			{Until: tick(10), Every: time.Hour},
			{Jobs: make([]string, jobs.MaxOf+1), Since: tick(0), Until: tick(1), Every: time.Hour},
		} {
			if _, err := s.Counts(e.ctx(), group, f); err == nil {
				e.Errorf("Counts of %d jobs from %v to %v, of every %v: no error", len(f.Jobs), f.Since, f.Until, f.Every)
			}
		}
	}},
}

var archivePruneCases = []ledgerCase{
	{"archive prune/what is old", func(e *ledgerEnv) {
		s := e.openArchive()
		e.begin(s)
		prune := func(batch, want int) {
			e.Helper()
			n, err := s.PruneArchive(e.ctx(), group, batch)
			e.ok(err, "PruneArchive")
			e.equal(n, want, "entries and terms that were pruned")
		}
		year := 365 * 24 * time.Hour
		e.noteTerm(s, store.TermNote{Holder: holder(1, alice), Began: 2 * year, Over: true, Ended: 3 * year / 2})
		e.noteTerm(s, store.TermNote{Holder: holder(2, alice), Began: 3 * year / 2})
		e.noteTerm(s, store.TermNote{Holder: holder(3, alice), Began: 3 * year / 2, Over: true, Ended: year})
		e.noteTerm(s, store.TermNote{Holder: holder(4, alice), Began: time.Hour})
		e.noteTerm(s, store.TermNote{Holder: store.Holder{Group: otherOne, Owner: alice, Token: 1}, Began: 2 * year})
		e.ok(s.Pause(e.ctx(), otherOne, ""), "Pause of another group")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause")
		prune(1, 1)
		e.terms(s, jobs.TermFilter{}, 4, 3, 2)
		prune(0, 1)
		prune(0, 0)
		e.terms(s, jobs.TermFilter{}, 4, 3)
		api := jobs.Actor{Via: jobs.ViaAPI}
		e.audit(s, group, jobs.AuditFilter{}, entry(api, jobs.ActionPause, jobs.Key{}, "", jobs.Done))
		others, err := s.Terms(e.ctx(), otherOne, jobs.TermFilter{})
		e.ok(err, "Terms")
		e.equal(len(others), 1, "terms of another group")
		if e.h.StepClock == nil {
			return
		}
		e.h.StepClock(e.TB, 401*24*time.Hour)
		e.ok(s.Resume(e.ctx(), group, ""), "Resume")
		prune(0, 3)
		e.terms(s, jobs.TermFilter{})
		e.audit(s, group, jobs.AuditFilter{}, entry(api, jobs.ActionResume, jobs.Key{}, "", jobs.Done))
	}},
}
