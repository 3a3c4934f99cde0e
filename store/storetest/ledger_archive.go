package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

type archiveStore interface {
	store.Leases
	store.Archive
}

func (e *ledgerEnv) openArchive() archiveStore {
	e.Helper()
	s, ok := e.open().(archiveStore)
	if !ok {
		e.Skip("the store is no store.Archive")
	}
	return s
}

// by is a context of an actor.
func (e *ledgerEnv) by(name string, via jobs.Via) context.Context {
	return jobs.WithActor(e.ctx(), jobs.Actor{Name: name, Via: via})
}

// audit reads entries, and compares them with those that are wanted, of which ID and At
// are not set.
func (e *ledgerEnv) audit(s archiveStore, group string, filter jobs.AuditFilter, want ...jobs.AuditEntry) []jobs.AuditEntry {
	e.Helper()
	got, err := s.Audit(e.ctx(), group, filter)
	e.ok(err, "Audit")
	if len(got) != len(want) {
		e.Fatalf("Audit of %+v: %d entries, want %d: %+v", filter, len(got), len(want), got)
	}
	for i := range got {
		if i > 0 && (got[i].ID >= got[i-1].ID || got[i].At.After(got[i-1].At)) {
			e.Errorf("entry %d has ID %d of %v, the one before %d of %v: want the newest first", i, got[i].ID, got[i].At, got[i-1].ID, got[i-1].At)
		}
		plain := got[i]
		plain.ID, plain.At = 0, time.Time{}
		e.equal(plain, want[i], fmt.Sprintf("entry %d of %+v", i, filter))
	}
	return got
}

func entry(actor jobs.Actor, action jobs.Action, k jobs.Key, note string, result jobs.Result) jobs.AuditEntry {
	return jobs.AuditEntry{Actor: actor, Action: action, Key: k, Note: note, Result: result}
}

var auditCases = []ledgerCase{
	{"audit/each action, by whom and when", func(e *ledgerEnv) {
		s := e.openArchive()
		e.begin(s)
		alice, bob := jobs.Actor{Name: "alice@host", Via: jobs.ViaCLI}, jobs.Actor{Name: "bob", Via: jobs.ViaPage}
		ctx, other := e.by(alice.Name, alice.Via), e.by(bob.Name, bob.Via)
		before := e.now()
		e.ok(s.Pause(ctx, group, report), "Pause")
		e.ok(s.Resume(other, group, report), "Resume")
		e.ok(s.Pause(ctx, group, ""), "Pause of the group")
		e.ok(s.ResumeSkipping(ctx, group, ""), "ResumeSkipping of the group")
		k, err := s.Trigger(other, group, cleanup, jobs.Request{Note: "by hand"})
		e.ok(err, "Trigger")
		e.ok(s.Cancel(ctx, group, k), "Cancel")
		ask := jobs.Request{Tick: tick(3), Trigger: 1<<52 + 9, Backfill: `{"until":"2027"}`, Note: "12 ticks"}
		back, err := s.Trigger(ctx, group, report, ask)
		e.ok(err, "Trigger of a backfill")
		job := jobs.Key{Job: report}
		entries := e.audit(s, group, jobs.AuditFilter{},
			entry(alice, jobs.ActionBackfill, back, "12 ticks", jobs.Done),
			entry(alice, jobs.ActionCancel, k, "", jobs.Done),
			entry(bob, jobs.ActionTrigger, k, "by hand", jobs.Done),
			entry(alice, jobs.ActionSkipping, jobs.Key{}, "", jobs.Done),
			entry(alice, jobs.ActionPause, jobs.Key{}, "", jobs.Done),
			entry(bob, jobs.ActionResume, job, "", jobs.Done),
			entry(alice, jobs.ActionPause, job, "", jobs.Done),
		)
		for _, one := range entries {
			e.between(one.At, before, "At of "+string(one.Action))
		}
		e.audit(s, otherOne, jobs.AuditFilter{})
	}},

	{"audit/what changes nothing", func(e *ledgerEnv) {
		s := e.openArchive()
		e.begin(s)
		api := jobs.Actor{Via: jobs.ViaAPI}
		e.ok(s.Resume(e.ctx(), group, report), "Resume")
		e.ok(s.Resume(e.ctx(), group, ""), "Resume of the group")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		ask := jobs.Request{Tick: tick(3), Trigger: 7}
		for range 2 {
			_, err := s.Trigger(e.ctx(), group, report, ask)
			e.ok(err, "Trigger")
		}
		k := jobs.Key{Job: report, Tick: tick(3), Trigger: 7}
		for range 2 {
			e.ok(s.Cancel(e.ctx(), group, k), "Cancel")
		}
		e.audit(s, group, jobs.AuditFilter{},
			entry(api, jobs.ActionCancel, k, "", jobs.Unchanged),
			entry(api, jobs.ActionCancel, k, "", jobs.Done),
			entry(api, jobs.ActionTrigger, k, "", jobs.Unchanged),
			entry(api, jobs.ActionTrigger, k, "", jobs.Done),
			entry(api, jobs.ActionPause, jobs.Key{}, "", jobs.Unchanged),
			entry(api, jobs.ActionPause, jobs.Key{}, "", jobs.Done),
			entry(api, jobs.ActionResume, jobs.Key{}, "", jobs.Unchanged),
			entry(api, jobs.ActionResume, jobs.Key{Job: report}, "", jobs.Unchanged),
		)
	}},

	{"audit/what is refused", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		api := jobs.Actor{Via: jobs.ViaAPI}
		done := e.moved(s, h, to(jobs.Succeeded, e.running(s, h, key(report, 1))))
		e.is(s.Pause(e.ctx(), group, "unknown"), jobs.ErrNoJob, "Pause of an unknown job")
		_, err := s.Trigger(e.ctx(), group, "unknown", jobs.Request{Note: "note"})
		e.is(err, jobs.ErrNoJob, "Trigger of an unknown job")
		e.is(s.Cancel(e.ctx(), group, done.Key), jobs.ErrNoRun, "Cancel of a run that is over")
		hostile := strings.Repeat("' x\x1b\n<b>", 40)
		e.is(s.Resume(e.ctx(), group, hostile), jobs.ErrNoJob, "Resume of a hostile name")
		e.audit(s, group, jobs.AuditFilter{},
			entry(api, jobs.ActionResume, jobs.Key{Job: hostile[:store.MaxName]}, "", jobs.Refused),
			entry(api, jobs.ActionCancel, done.Key, "", jobs.Refused),
			entry(api, jobs.ActionTrigger, jobs.Key{Job: "unknown"}, "note", jobs.Refused),
			entry(api, jobs.ActionPause, jobs.Key{Job: "unknown"}, "", jobs.Refused),
		)
	}},

	{"audit/resign", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		actor := jobs.Actor{Name: "alice", Via: jobs.ViaPage}
		ctx := e.by(actor.Name, actor.Via)
		e.ok(s.AskResign(ctx, group, h.Token), "AskResign")
		e.ok(s.AskResign(ctx, group, h.Token), "AskResign")
		e.is(s.AskResign(ctx, group, h.Token-1), store.ErrChanged, "AskResign of another term")
		note, before := fmt.Sprintf("token %d", h.Token), fmt.Sprintf("token %d", h.Token-1)
		e.audit(s, group, jobs.AuditFilter{},
			entry(actor, jobs.ActionResign, jobs.Key{}, before, jobs.Refused),
			entry(actor, jobs.ActionResign, jobs.Key{}, note, jobs.Unchanged),
			entry(actor, jobs.ActionResign, jobs.Key{}, note, jobs.Done),
		)
	}},

	{"audit/forget", func(e *ledgerEnv) {
		s, ok := e.openArchive().(interface {
			archiveStore
			store.Replicas
		})
		if !ok {
			e.Skip("the store is no store.Replicas")
		}
		h := e.begin(s)
		actor := jobs.Actor{Name: "alice", Via: jobs.ViaCLI}
		ctx := e.by(actor.Name, actor.Via)
		forget := func(gone time.Time, want bool) {
			e.Helper()
			done, err := s.Forget(ctx, group, report, gone)
			e.ok(err, "Forget")
			e.equal(done, want, "that Forget has forgotten the job")
		}
		forget(time.Time{}, false)
		e.ok(s.Gone(e.ctx(), h, []string{report}), "Gone")
		forget(e.known(group, report).Gone, true)
		e.audit(s, group, jobs.AuditFilter{},
			entry(actor, jobs.ActionForget, jobs.Key{Job: report}, "", jobs.Done),
			entry(actor, jobs.ActionForget, jobs.Key{Job: report}, "", jobs.Refused),
		)
	}},

	{"audit/not what holders do, nor what is read", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		r := e.moved(s, h, to(jobs.Succeeded, e.running(s, h, key(report, 1))))
		e.running(s, h, key(report, 2))
		e.prune(s, report, jobs.History{Keep: 1}, 0)
		_, err := s.Args(e.ctx(), group, r.Key)
		e.is(err, jobs.ErrNoRun, "Args of a run that was pruned")
		e.audit(s, group, jobs.AuditFilter{})
	}},

	{"audit/filters", func(e *ledgerEnv) {
		s := e.openArchive()
		e.begin(s)
		api := jobs.Actor{Via: jobs.ViaAPI}
		var want []jobs.AuditEntry // the newest first
		for i := range 105 {
			job := []string{report, cleanup, report}[i%3]
			e.ok(s.Resume(e.ctx(), group, job), "Resume")
			want = append([]jobs.AuditEntry{entry(api, jobs.ActionResume, jobs.Key{Job: job}, "", jobs.Unchanged)}, want...)
		}
		e.audit(s, group, jobs.AuditFilter{}, want[:100]...)
		e.audit(s, group, jobs.AuditFilter{Limit: 200}, want...)
		page := e.audit(s, group, jobs.AuditFilter{Limit: 3}, want[:3]...)
		e.audit(s, group, jobs.AuditFilter{Limit: 4, Before: page[2].ID}, want[3:7]...)
		var ofJob []jobs.AuditEntry
		for _, w := range want {
			if w.Job == cleanup {
				ofJob = append(ofJob, w)
			}
		}
		page = e.audit(s, group, jobs.AuditFilter{Job: cleanup, Limit: 2}, ofJob[:2]...)
		e.audit(s, group, jobs.AuditFilter{Job: cleanup, Before: page[1].ID}, ofJob[2:]...)
		e.audit(s, group, jobs.AuditFilter{Job: "unknown"})
	}},
}

func (e *ledgerEnv) noteTerm(s archiveStore, note store.TermNote) {
	e.Helper()
	e.ok(s.NoteTerm(e.ctx(), note), "NoteTerm")
}

func (e *ledgerEnv) terms(s archiveStore, filter jobs.TermFilter, tokens ...uint64) []jobs.Term {
	e.Helper()
	terms, err := s.Terms(e.ctx(), group, filter)
	e.ok(err, "Terms")
	var got []uint64
	for _, t := range terms {
		got = append(got, t.Token)
	}
	if fmt.Sprint(got) != fmt.Sprint(tokens) {
		e.Fatalf("Terms of %+v: %d, want %d", filter, got, tokens)
	}
	return terms
}

func holder(token uint64, owner string) store.Holder {
	return store.Holder{Group: group, Owner: owner, Token: token}
}

var termCases = []ledgerCase{
	{"terms/begin and end", func(e *ledgerEnv) {
		s := e.openArchive()
		before := e.now()
		e.noteTerm(s, store.TermNote{Holder: holder(1<<62, alice), Early: true})
		t := e.terms(s, jobs.TermFilter{}, 1<<62)[0]
		e.between(t.Began, before, "Began")
		e.equal(t, jobs.Term{Token: 1 << 62, Owner: alice, Began: t.Began, Early: true}, "a term that goes on")
		e.noteTerm(s, store.TermNote{Holder: holder(1<<62, alice), Began: time.Hour})
		e.equal(e.terms(s, jobs.TermFilter{}, 1<<62)[0], t, "a term that is noted again")
		now := e.now()
		e.noteTerm(s, store.TermNote{Holder: holder(1<<62, alice), Over: true, Why: "stopped"})
		ended := e.terms(s, jobs.TermFilter{}, 1<<62)[0]
		e.between(ended.Ended, now, "Ended")
		e.equal(ended, jobs.Term{Token: 1 << 62, Owner: alice, Began: t.Began, Ended: ended.Ended, Why: "stopped", Early: true}, "a term that is over")
		e.noteTerm(s, store.TermNote{Holder: holder(1<<62, alice)})
		e.equal(e.terms(s, jobs.TermFilter{}, 1<<62)[0], ended, "a term that is over, when its begin is noted late")
		e.noteTerm(s, store.TermNote{Holder: holder(1<<62, alice), Over: true, Why: "lost"})
		e.equal(e.terms(s, jobs.TermFilter{}, 1<<62)[0].Why, "lost", "the last word about the end")
		e.noteTerm(s, store.TermNote{Holder: holder(1<<62, alice), Over: true, Ended: time.Hour})
		e.equal(e.terms(s, jobs.TermFilter{}, 1<<62)[0].Ended, t.Began, "the end of a term that ended before it began, as by a clock that was set back")
		others, err := s.Terms(e.ctx(), otherOne, jobs.TermFilter{})
		e.ok(err, "Terms")
		e.equal(len(others), 0, "terms of another group")
	}},

	{"terms/so long ago", func(e *ledgerEnv) {
		s := e.openArchive()
		before := e.now()
		e.noteTerm(s, store.TermNote{Holder: holder(3, alice), Began: time.Hour, Over: true, Ended: time.Minute, Why: strings.Repeat("é", 400)})
		t := e.terms(s, jobs.TermFilter{}, 3)[0]
		e.betweenPlus(t.Began, before, -time.Hour, "Began")
		e.betweenPlus(t.Ended, before, -time.Minute, "Ended")
		e.equal(t.Why, strings.Repeat("é", 250), "Why, of at most 500 bytes")
	}},

	{"terms/the next one tells of those that did not", func(e *ledgerEnv) {
		s := e.openArchive()
		e.noteTerm(s, store.TermNote{Holder: holder(1, alice), Began: 3 * time.Hour, Over: true, Ended: 2 * time.Hour, Why: "stopped"})
		e.noteTerm(s, store.TermNote{Holder: holder(2, bob), Began: 2 * time.Hour})
		e.noteTerm(s, store.TermNote{Holder: holder(3, alice), Began: time.Minute})
		e.noteTerm(s, store.TermNote{Holder: holder(5, bob)})
		e.noteTerm(s, store.TermNote{Holder: store.Holder{Group: otherOne, Owner: alice, Token: 2}, Began: time.Hour})
		was := e.terms(s, jobs.TermFilter{}, 5, 3, 2, 1)
		last := was[2].Began.Add(time.Hour) // before token 3 began
		e.noteTerm(s, store.TermNote{Holder: holder(4, bob), Before: last})
		now := e.terms(s, jobs.TermFilter{}, 5, 4, 3, 2, 1)
		e.equal(now[0], was[0], "a later term")
		e.equal(now[4], was[3], "a term that had told")
		want := was[2]
		want.Ended, want.Why = last, store.WhyUntold
		e.equal(now[3], want, "a term that had not told")
		want = was[1]
		want.Ended, want.Why = want.Began, store.WhyUntold
		e.equal(now[2], want, "a term that began after the last heartbeat that is known")
		e.noteTerm(s, store.TermNote{Holder: holder(3, alice), Over: true, Why: "lost"})
		e.equal(e.terms(s, jobs.TermFilter{}, 5, 4, 3, 2, 1)[2].Why, "lost", "what the term itself tells later")
		others, err := s.Terms(e.ctx(), otherOne, jobs.TermFilter{})
		e.ok(err, "Terms")
		if len(others) != 1 || !others[0].Ended.IsZero() {
			e.Errorf("terms of another group: %+v, want one that goes on", others)
		}
	}},

	{"terms/filters", func(e *ledgerEnv) {
		s := e.openArchive()
		for n := range uint64(105) {
			// Each lasts a minute, and the last one goes on.
			ago := time.Duration(105-n) * time.Minute
			e.noteTerm(s, store.TermNote{Holder: holder(n+1, alice), Began: ago, Over: n < 104, Ended: ago - time.Minute})
		}
		terms, err := s.Terms(e.ctx(), group, jobs.TermFilter{})
		e.ok(err, "Terms")
		e.equal(len(terms), 100, "terms when no limit is given")
		e.terms(s, jobs.TermFilter{Limit: 2}, 105, 104)
		at := func(token uint64) jobs.Term { return terms[105-token] }
		e.terms(s, jobs.TermFilter{Since: at(103).Ended.Add(time.Microsecond)}, 105, 104)
		e.terms(s, jobs.TermFilter{Since: at(103).Ended, Limit: 9}, 105, 104, 103)
		e.terms(s, jobs.TermFilter{Until: at(50).Began, Limit: 2}, 49, 48)
		e.terms(s, jobs.TermFilter{Since: at(49).Began.Add(time.Second), Until: at(50).Began.Add(time.Microsecond)}, 50, 49)
		e.terms(s, jobs.TermFilter{Until: at(6).Began.Add(-24 * time.Hour)})
	}},
}
