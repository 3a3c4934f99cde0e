package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// allowed is every character that a name may have.
const allowed = "AZaz09._:/@+-bcdefghijklmnopqrstuvwxyBCDEFGHIJKLMNOPQRSTUVWXY12345678"

func ledgerRenewal(h store.Holder, heartbeat uint64) store.Renew {
	return store.Renew{Owner: h.Owner, Heartbeat: heartbeat + 1, Leases: []store.Renewal{{Group: h.Group, Token: h.Token, Heartbeat: heartbeat}}}
}

// told records an error's text by a claim and by a move, and calls check with
// what is kept of it.
func (e *ledgerEnv) told(texts []string, check func(text, kept, by string)) {
	e.Helper()
	s := e.open()
	h := e.begin(s)
	for n, text := range texts {
		r := e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Skipped, Error: text})
		check(text, r.Error, "Claim")
		e.unchanged(r, "read back")
		r = e.running(s, h, key(cleanup, n))
		m := to(jobs.Failed, r)
		m.Error = text
		check(text, e.moved(s, h, m).Error, "Move")
		e.equal(e.move(s, h, m)[0], true, "the same move again")
	}
}

var valueCases = []ledgerCase{
	{"values/error texts are kept as they are", func(e *ledgerEnv) {
		e.told([]string{
			"", " ", " x ", "x\n\ty\r\n", `'"` + "`", `\`, `\'`, `\\'; --`, "%s ? $1 :a @b", "é 日本 \U0001F600 \u202e", "\x1a\b\x7f",
			"NULL", "0x41", strings.Repeat("x", store.MaxError), strings.Repeat("\U0001F600", store.MaxError/4),
		}, func(text, kept, by string) {
			if kept != text {
				e.Errorf("%s: the error %q is kept as %q", by, text, kept)
			}
		})
	}},

	{"values/long error texts are cut at a character", func(e *ledgerEnv) {
		var texts []string
		for _, begin := range []string{"", "x", "xx", "xxx"} {
			for _, c := range []string{"x", "é", "日", "\U0001F600"} {
				texts = append(texts, begin+strings.Repeat(c, store.MaxError))
			}
		}
		texts = append(texts, strings.Repeat("x", store.MaxError+1), strings.Repeat("x", 1<<17))
		e.told(texts, func(text, kept, by string) {
			e.Helper()
			switch {
			case len(kept) > store.MaxError || len(kept) <= store.MaxError-utf8.UTFMax:
				e.Errorf("%s: %d bytes are kept of the %d of %.10q", by, len(kept), len(text), text)
			case !strings.HasPrefix(text, kept):
				e.Errorf("%s: what is kept of %.10q is not its beginning", by, text)
			case !utf8.ValidString(kept):
				e.Errorf("%s: %.10q is cut within a character: %q", by, text, kept[len(kept)-4:])
			}
		})
	}},

	{"values/error texts of odd bytes are kept somehow", func(e *ledgerEnv) {
		long := "\xff" + strings.Repeat("é", store.MaxError) // cut at a character all the same
		e.told([]string{"a\x00b", "\x00", "a\xffb", "\xff", "a\xed\xa0\x80b", "a\xe6\x97", strings.Repeat("\x80", 3000), strings.Repeat("\xff", 3000), long},
			func(text, kept, by string) {
				e.Helper()
				if len(kept) > store.MaxError {
					e.Errorf("%s: %d bytes are kept", by, len(kept))
				}
				if strings.HasPrefix(text, "a") && !strings.HasPrefix(kept, "a") || strings.HasSuffix(text, "b") && !strings.HasSuffix(kept, "b") {
					e.Errorf("%s: of %q is kept %q", by, text, kept)
				}
				if text == long && !strings.HasSuffix(kept, "é") {
					e.Errorf("%s: cut within a character: %q", by, kept[max(0, len(kept)-6):])
				}
			})
	}},

	{"values/ticks of all times", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		ticks := []time.Time{
			time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
			time.Unix(0, 0).UTC(), time.Unix(0, 1000).UTC(), time.Date(2024, 10, 27, 0, 30, 0, 0, time.UTC), time.Date(2024, 10, 27, 1, 30, 0, 0, time.UTC),
			time.Date(2038, 1, 19, 3, 14, 8, 1000, time.UTC), time.Date(2106, 2, 7, 6, 28, 16, 0, time.UTC), time.Date(9998, 12, 31, 23, 59, 59, 999999000, time.UTC),
		}
		for i, at := range ticks {
			r := e.running(s, h, jobs.Key{Job: report, Tick: at})
			e.equal(r.Tick, at, "tick")
			e.unchanged(r, "read back")
			e.equal(e.known(group, report).Cursor, at, "cursor")
			e.equal(len(e.runs(group, jobs.Filter{Since: at})), 1, "runs since the newest")
			e.equal(len(e.runs(group, jobs.Filter{Since: time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC)})), i+1, "runs since 1800")
		}
		for i, r := range e.load(group).Open {
			e.equal(r.Tick, ticks[i], "tick of an open run")
			e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
			r = e.moved(s, h, to(jobs.Succeeded, e.record(group, r.Key)))
			e.equal(r.Tick, ticks[i], "tick of a run that is over")
		}
	}},

	{"values/ticks a microsecond apart", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n := range 10 {
			e.running(s, h, jobs.Key{Job: report, Tick: tick(0).Add(time.Duration(n) * time.Microsecond)})
		}
		e.equal(e.count(group), 10, "runs")
		e.equal(e.known(group, report).Cursor, tick(0).Add(9*time.Microsecond), "cursor")
	}},

	{"values/names of every character and of any length", func(e *ledgerEnv) {
		s := e.open()
		long := strings.Repeat("x", store.MaxName-1)
		names := []string{allowed, "a", "A", "a-", "a.", "a_", "a/", "aa", "b", "1", "01", "1.0", "1e0", "0x1", "a_b", "axb", "NULL", long + "1", long + "2"}
		for i, name := range names {
			h := e.take(s, name, name)
			e.declareJobs(s, h, names...)
			for n, job := range names {
				e.running(s, h, key(job, 100*i+n))
			}
		}
		for i, name := range names {
			snapshot := e.load(name)
			e.equal(len(snapshot.Jobs), len(names), "jobs of "+name)
			e.equal(len(snapshot.Open), len(names), "open runs of "+name)
			for n, job := range names {
				e.equal(snapshot.Jobs[job].Cursor, tick(100*i+n), "cursor of "+job+" in "+name)
				if rs := e.runs(name, jobs.Filter{Job: job}); len(rs) != 1 || rs[0].Key != key(job, 100*i+n) || rs[0].Owner != name {
					e.Fatalf("runs of job %s in group %s: %v", job, name, rs)
				}
			}
		}
	}},

	{"values/names that are too long are refused or kept whole", func(e *ledgerEnv) {
		s := e.open()
		long := strings.Repeat("x", store.MaxName)
		h := e.take(s, group, alice)
		e.declareJobs(s, h, long)
		if err := s.Declare(e.ctx(), h, []store.Declared{{Name: long + "y", Schedule: "every 2m"}}); err == nil {
			e.equal(e.known(group, long+"y").Schedule, "every 2m", "Schedule of a job of a long name")
		}
		e.equal(e.known(group, long).Schedule, "every 1m", "Schedule of a job of a name that is its beginning")
		if _, err := s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: key(long+"y", 1), State: jobs.Running}}); err == nil {
			e.record(group, key(long+"y", 1))
		}
		e.absent(group, key(long, 1), "after a claim of a job of a longer name")
	}},

	{"values/every instant is the database's", func(e *ledgerEnv) {
		if e.h.StepClock == nil {
			e.Skip("left out: Harness.StepClock is nil")
		}
		s := e.open()
		h := e.take(s, group, alice)
		var latest time.Time // start of a run
		later := func(a, b time.Time) time.Time {
			if a.After(b) {
				return a
			}
			return b
		}
		for n, by := range []time.Duration{5 * time.Hour, -3 * time.Hour} {
			e.h.StepClock(e.TB, by)
			before := e.now()
			e.declare(s, h, store.Declared{Name: report, Schedule: "as of " + by.String()})
			e.between(e.known(group, report).ScheduleSince, before, "ScheduleSince")
			e.between(e.load(group).Now, before, "Now")
			e.between(e.trigger(s, report).Tick, before, "Tick of a manual run")
			r := e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Waiting, Delay: time.Minute})
			e.between(r.Claimed, before, "Claimed")
			e.betweenPlus(r.Due, before, time.Minute, "Due")
			r = e.moved(s, h, to(jobs.Running, r))
			e.between(r.Started, before, "Started")
			if latest = later(latest, r.Started); !e.known(group, report).Started.Equal(latest) {
				e.Errorf("Started of the job: %v, want the latest of its runs', %v", e.known(group, report).Started, latest)
			}
			m := to(jobs.Waiting, r)
			m.Delay = time.Minute
			r = e.moved(s, h, m)
			e.betweenPlus(r.Due, before, time.Minute, "Due of the next attempt")
			r = e.moved(s, h, to(jobs.Failed, r))
			e.between(r.Finished, before, "Finished")
			e.between(e.known(group, report).Finished, before, "Finished of the job")
			e.equal(e.known(group, report).Started, latest, "Started of the job, after the end")
			e.ok(s.Pause(e.ctx(), group, report), "Pause")
			e.ok(s.Resume(e.ctx(), group, report), "Resume")
			pauses := e.load(group).Pauses[report]
			if len(pauses) != n+1 {
				e.Fatalf("pauses %v, want %d", pauses, n+1)
			}
			e.between(pauses[n].Began, before, "Began of a pause")
			e.between(pauses[n].Ended, before, "Ended of a pause")
		}
		r := e.skipped(s, h, key(report, 10))
		e.later()
		e.h.StepClock(e.TB, 24*time.Hour)
		e.skipped(s, h, key(report, 11))
		e.equal(e.find(group, r.Key) != nil, true, "there is a run")
		e.prune(s, report, jobs.History{For: 12 * time.Hour}, 0)
		e.absent(group, r.Key, "pruned after a day")
	}},

	{"values/an ended context", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.over(s, h, report, 5)
		r := e.running(s, h, key(cleanup, 1))
		was := e.load(group)
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		calls := map[string]func() error{
			"Declare": func() error { return s.Declare(ctx, h, []store.Declared{{Name: "new", Schedule: "every 1m"}}) },
			"Load":    func() error { _, err := s.Load(ctx, group); return err },
			"Claim": func() error {
				_, err := s.Claim(ctx, h, newID(), []store.Claim{{Key: key(report, 10), State: jobs.Running}})
				return err
			},
			"Move":           func() error { _, err := s.Move(ctx, h, []store.Move{to(jobs.Succeeded, r)}); return err },
			"Changes":        func() error { _, err := s.Changes(ctx, group); return err },
			"PassOver":       func() error { _, err := s.PassOver(ctx, h, report, tick(0)); return err },
			"Prune":          func() error { _, err := s.Prune(ctx, group, report, jobs.History{Keep: 1}, 0); return err },
			"Pause":          func() error { return s.Pause(ctx, group, report) },
			"Resume":         func() error { return s.Resume(ctx, group, report) },
			"Trigger":        func() error { _, err := s.Trigger(ctx, group, report, jobs.Request{}); return err },
			"Args":           func() error { _, err := s.Args(ctx, group, r.Key); return err },
			"Cancel":         func() error { return s.Cancel(ctx, group, r.Key) },
			"Runs":           func() error { _, err := s.Runs(ctx, group, jobs.Filter{}); return err },
			"ResumeSkipping": func() error { return s.ResumeSkipping(ctx, group, report) },
		}
		if a, ok := s.(store.Archive); ok {
			calls["NoteTerm"] = func() error { return a.NoteTerm(ctx, store.TermNote{Holder: h}) }
			calls["PruneArchive"] = func() error { _, err := a.PruneArchive(ctx, group, 0); return err }
			calls["Attempts"] = func() error { _, err := a.Attempts(ctx, group, r.Key); return err }
			calls["Audit"] = func() error { _, err := a.Audit(ctx, group, jobs.AuditFilter{}); return err }
			calls["Terms"] = func() error { _, err := a.Terms(ctx, group, jobs.TermFilter{}); return err }
		}
		if a, ok := s.(store.Replicas); ok {
			calls["Gone"] = func() error { return a.Gone(ctx, h, []string{report}) }
			calls["Forget"] = func() error { _, err := a.Forget(ctx, group, report, tick(0)); return err }
			calls["GoneSince"] = func() error { _, err := a.GoneSince(ctx, group, report); return err }
			calls["Enlist"] = func() error { return a.Enlist(ctx, group, jobs.Replica{Owner: bob}) }
			calls["Roster"] = func() error { _, err := a.Roster(ctx, group, jobs.Roster{}); return err }
		}
		for what, call := range calls {
			err := call()
			if err == nil || errors.Is(err, store.ErrReplaced) || errors.Is(err, jobs.ErrNoJob) || errors.Is(err, jobs.ErrNoRun) {
				e.Errorf("%s with an ended context: error %v, want one that is no answer", what, err)
			}
		}
		now := e.load(group) // the store still works
		e.sameMoment(&was, now)
		e.equal(fmt.Sprintf("%v", now), fmt.Sprintf("%v", was), "the ledger after calls with an ended context")
		e.equal(e.count(group), 6, "runs")
	}},
}
