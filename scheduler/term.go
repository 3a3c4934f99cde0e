package scheduler

import (
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// term is one term of this replica. Its loop owns everything in it, but for its env and the
// reader, which never change: alarms, answers of the ledger and ends of runs reach it as
// functions that it calls one after the other. Until the loop begins, the goroutine that opens the
// term owns it.
//
//	goroutine                 ends                             the loop waits for it by
//	the loop (loop)           with the term, runs and writes
//	the reader (run, heed)    with the term's context          helpers
//	a helper (beside)         with the term's context          helpers
//	a statement (sendPart)    with its answer, or its timeout  wrote.idle
//	an attempt (start)        when the job returns             slots.taken
//	alarms (gocron)           when they are stopped            a helper
type term struct {
	*env
	helpers sync.WaitGroup // what runs beside the loop
	reader  reader
	timers  map[*time.Timer]struct{}
	every   time.Duration // between two sweeps
	newest  time.Time     // that the sweep has seen, or of a tick that was claimed
	waits   time.Time     // until when jobs start nothing, as was told: see tellAhead
	stage   stage

	roll      roll
	slots     slots
	wrote     *writer
	outcomes  outcomes
	over      over
	followers plan.Followers
	recounts  recounts
	skips     skips
	janitor   janitor
	alarms    *alarms
	doubt     doubt
	readAt    uint64  // the number of the reading that is being taken in
	around    spaced  // looks at the roster
	spread    *spread // of a leader that assigns runs; else nil
}

// abandon ends a term whose loop has not begun, and what runs beside it.
func (t *term) abandon() {
	t.cut(nil)
	close(t.closed) // for what open has put off
	t.helpers.Wait()
}

// mayStart reports whether the term may claim ticks and start runs: it is not about to end, and trusted now.
func (t *term) mayStart() bool { return !t.stage.ends() && t.ctx.Err() == nil && t.trusted() }

// isOurs reports whether a run is under the term's owner and token. Those of sessions may be like those of terms.
func (t *term) isOurs(r jobs.Record) bool {
	return r.Token == t.holder.Token && r.Owner == t.holder.Owner && (t.role != assigns || r.State.Over())
}

// beside runs f beside the loop. It ends with the term's context, or soon after.
func (t *term) beside(f func(*env)) { t.helpers.Go(func() { f(t.env) }) }

// after makes the loop call f after a while, unless the loop has ended by then.
func (t *term) after(wait time.Duration, f func()) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		t.do(func(t *term) {
			delete(t.timers, timer)
			f()
		})
	})
	t.timers[timer] = struct{}{}
}

// afterLook makes the loop call f once it has taken in what the ledger has from now on, or could not read it.
func (t *term) afterLook(f func()) {
	asks := t.reader.asks
	t.beside(func(v *env) {
		asks.ask(v.ctx)
		v.do(func(*term) { f() })
	})
}

func (t *term) stopTimers() {
	for timer := range t.timers {
		timer.Stop()
	}
}

// stage is how far a term has come, once it is open.
//
//	from      to        by         when
//	leading   gathering gather     the group has another mode now: see WithSpread
//	gathering leading   gather     the switch was taken back
//	          draining  handOver   no run goes on
//	both      draining  beginDrain this replica wants to leave, and lets its runs finish
//	any       stopped   stop       the term's context has ended
//	stopped   the end   loop       nothing runs, and no outcome waits to be written
type stage uint8

const (
	leading   stage = iota // ticks are claimed, and runs start
	gathering              // ticks are claimed, and no run starts
	draining               // nothing new is claimed or started
	stopped                // and its context has ended
)

// ends reports whether nothing new is claimed or started any more: that is the next leader's.
func (s stage) ends() bool { return s >= draining }

// role is what a term is for.
type role uint8

const (
	runsAll role = iota // a leader that claims ticks and runs them
	assigns             // a leader that claims ticks and assigns the runs to replicas
	serves              // the session of a replica, which runs what it was assigned
)

// holder is that of a term of that role, in a group.
func (r role) holder(held election.Term, group string) store.Holder {
	h := store.Holder{Group: group, Owner: held.Owner(), Token: held.Token(), Assigns: r != runsAll}
	if r == serves {
		h.Session = held.Group()
	}
	return h
}
