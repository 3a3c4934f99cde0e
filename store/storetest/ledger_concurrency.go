package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// contenders is how many connections work at once.
const ledgerContenders = 10

func (e *ledgerEnv) replicas() []store.Jobs {
	e.Helper()
	stores := make([]store.Jobs, ledgerContenders)
	for i := range stores {
		stores[i] = e.open()
	}
	return stores
}

// together runs f for each store at once, and waits for all.
func (e *ledgerEnv) together(stores []store.Jobs, f func(i int, s store.Jobs)) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			<-begin
			f(i, s)
		})
	}
	close(begin)
	all.Wait()
}

var ledgerConcurrencyCases = []ledgerCase{
	{"concurrency/ten claim one tick, one gets it", func(e *ledgerEnv) {
		stores := e.replicas()
		h := e.begin(stores[0])
		for round := range e.h.times(25) {
			var claims []store.Claim
			for n := range 5 {
				claims = append(claims, store.Claim{Key: key(report, 10*round+n), State: jobs.Running})
			}
			answers := make([][]store.Claimed, len(stores))
			e.together(stores, func(i int, s store.Jobs) {
				mine := slices.Clone(claims)
				if i%2 == 1 { // each in an order of its own
					slices.Reverse(mine)
				}
				got, err := s.Claim(e.ctx(), h, newID(), mine)
				if err != nil || len(got) != len(mine) {
					e.Errorf("Claim: %d answers, error %v", len(got), err)
					return
				}
				if i%2 == 1 {
					slices.Reverse(got)
				}
				answers[i] = got
			})
			for n, c := range claims {
				winners, r := 0, e.record(group, c.Key)
				for _, got := range answers {
					if got == nil {
						continue
					}
					if got[n].Mine {
						winners++
					}
					e.same(got[n].Record, r, "what a claim answered")
				}
				if winners != 1 {
					e.Fatalf("%d of %d claims of one tick got it", winners, len(stores))
				}
			}
		}
	}},

	{"concurrency/repetitions of one claim are one", func(e *ledgerEnv) {
		stores := e.replicas()
		h := e.begin(stores[0])
		for round := range e.h.times(25) {
			id, k := newID(), key(report, round)
			e.together(stores, func(_ int, s store.Jobs) {
				got, err := s.Claim(e.ctx(), h, id, []store.Claim{{Key: k, State: jobs.Running}})
				if err != nil || len(got) != 1 || !got[0].Mine {
					e.Errorf("Claim with one id: %v, error %v, want it mine", got, err)
				}
			})
			e.equal(e.record(group, k).Attempt, 1, "Attempt")
		}
	}},

	{"concurrency/ten move one run, one does", func(e *ledgerEnv) {
		stores := e.replicas()
		h := e.begin(stores[0])
		for round := range e.h.times(25) {
			r := e.running(stores[0], h, key(report, round))
			var ends atomic.Int64
			e.together(stores[:len(outcomes)], func(i int, s store.Jobs) {
				moved, err := s.Move(e.ctx(), h, []store.Move{to(outcomes[i], r)})
				if err != nil || len(moved) != 1 {
					e.Errorf("Move: %d answers, error %v", len(moved), err)
				} else if moved[0] {
					ends.Add(1)
				}
			})
			e.equal(ends.Load(), int64(1), "moves of one run to different ends")
		}
	}},

	{"concurrency/ten ask for a run", func(e *ledgerEnv) {
		stores := e.replicas()
		e.begin(stores[0])
		var keys sync.Map
		var asked atomic.Int64
		e.together(stores, func(_ int, s store.Jobs) {
			for range 10 {
				k, err := s.Trigger(e.ctx(), group, report, jobs.Request{})
				if err != nil {
					e.Errorf("Trigger: %v", err)
					continue
				}
				asked.Add(1)
				if _, twice := keys.LoadOrStore(k, true); twice {
					e.Errorf("Trigger answered %v twice", k)
				}
			}
		})
		e.equal(e.count(group), int(asked.Load()), "runs")
	}},

	// What the next term finds when it has begun stays, whatever the term before
	// is still doing.
	{"concurrency/no claim comes after a takeover", func(e *ledgerEnv) {
		e.outlast(func(s store.Jobs, h store.Holder, from int, busy func()) error {
			claims := make([]store.Claim, batch)
			for n := range 20 {
				for i := range claims {
					claims[i] = store.Claim{Key: key(jobOf(from), from+n*batch+i), State: jobs.Running}
				}
				if _, err := s.Claim(e.ctx(), h, newID(), claims); err != nil {
					return err
				}
				busy()
			}
			return nil
		})
		if n := len(e.runs(group, jobs.Filter{Limit: 10 * all})); n%batch != 0 {
			e.Errorf("%d runs by claims of %d", n, batch)
		}
	}},

	{"concurrency/no move comes after a takeover", func(e *ledgerEnv) {
		e.outlast(func(s store.Jobs, h store.Holder, from int, busy func()) error {
			claimed, err := s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: key(jobOf(from), from), State: jobs.Running}, {Key: key(jobOf(from), from+1), State: jobs.Running}})
			if err != nil {
				return err
			}
			for range 10 {
				for _, state := range []jobs.State{jobs.Waiting, jobs.Running} {
					busy()
					moved, err := s.Move(e.ctx(), h, []store.Move{to(state, claimed[0].Record), to(state, claimed[1].Record)})
					if err != nil {
						return err
					}
					for i := range claimed {
						if !moved[i] {
							return errors.New("the run was not as its only holder left it")
						}
						claimed[i].State = state
						if state == jobs.Running {
							claimed[i].Attempt++
						}
					}
				}
			}
			return nil
		})
		rs := e.runs(group, jobs.Filter{Limit: all})
		for i := 1; i < len(rs); i += 2 {
			if rs[i].State != rs[i-1].State || rs[i].Attempt != rs[i-1].Attempt {
				e.Fatalf("two runs that were moved by the same calls:\n\t%s\n\t%s", showRecord(rs[i]), showRecord(rs[i-1]))
			}
		}
	}},

	{"concurrency/nothing is declared after a takeover", func(e *ledgerEnv) {
		e.outlast(func(s store.Jobs, h store.Holder, from int, busy func()) error {
			for n := range 20 {
				declared := []store.Declared{{Name: report, Schedule: fmt.Sprint("every ", from+n, "s")}, {Name: fmt.Sprint("job", from+n), Schedule: "every 1m"}}
				if err := s.Declare(e.ctx(), h, declared); err != nil {
					return err
				}
				busy()
			}
			return nil
		})
	}},

	{"concurrency/many jobs by many connections", func(e *ledgerEnv) {
		stores := e.replicas()
		h := e.take(stores[0], group, alice)
		var names []string
		for i := range stores {
			names = append(names, fmt.Sprint("job", i))
		}
		e.declareJobs(stores[0], h, names...)
		n := e.h.times(25)
		e.together(stores, func(i int, s store.Jobs) {
			for round := range n {
				if err := e.fire(s, h, key(names[i], round)); err != nil {
					e.Errorf("a run of %s: %v", names[i], err)
				}
			}
		})
		for _, name := range names {
			e.equal(len(e.runs(group, jobs.Filter{Job: name, State: jobs.Succeeded})), n, "runs that succeeded of "+name)
		}
	}},
}

// batch is how many ticks are claimed at once while others take over.
const batch = 10

// jobOf is the job of one of the connections that work at once: the ticks of a job
// are claimed in their order.
func jobOf(from int) string { return fmt.Sprint("job", from/1000%4) }

// outlast lets four connections of a term work, as they do until they are
// replaced, and compares what the next term finds with what there is in the end.
// Work says when it is in the middle of it.
func (e *ledgerEnv) outlast(work func(s store.Jobs, h store.Holder, from int, busy func()) error) {
	e.Helper()
	stores := e.replicas()
	h := e.begin(stores[0])
	for round := range e.h.times(20) {
		var begun, working sync.WaitGroup
		for i, s := range stores[:4] {
			begun.Add(1)
			busy := sync.OnceFunc(begun.Done)
			working.Go(func() {
				defer busy()
				if err := work(s, h, 1000*(4*round+i), busy); err != nil && !errors.Is(err, store.ErrReplaced) {
					e.Errorf("work of a term: error %v, want none or ErrReplaced", err)
				}
			})
		}
		begun.Wait()
		next, err := takeOver(e.ctx(), stores[4], group, fmt.Sprint("owner", round))
		var found, left string
		if err == nil {
			found, err = ledger(e.ctx(), stores[4], 4000*round)
		}
		working.Wait()
		e.ok(err, "a takeover in the middle of work")
		left, err = ledger(e.ctx(), e.watch, 4000*round)
		e.ok(err, "what is left")
		if found != left {
			e.Fatalf("the next term found\n\t%s, and then there is\n\t%s", found, left)
		}
		h = next
	}
}

// ledger prints what is in the group's ledger, of its runs those from a tick on.
func ledger(ctx context.Context, s store.Jobs, from int) (string, error) {
	snapshot, err := s.Load(ctx, group)
	if err != nil {
		return "", fmt.Errorf("load: %w", err)
	}
	rs, err := s.Runs(ctx, group, jobs.Filter{Since: tick(from), Limit: all})
	if err != nil {
		return "", fmt.Errorf("runs: %w", err)
	}
	return fmt.Sprint(len(rs), " runs of ", snapshot.Jobs, rs), nil
}

// fire claims, runs and prunes, as a leader does.
func (e *ledgerEnv) fire(s store.Jobs, h store.Holder, k jobs.Key) error {
	claimed, err := s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: k, State: jobs.Running}})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if len(claimed) != 1 || !claimed[0].Mine {
		return fmt.Errorf("claim: not mine: %v", claimed)
	}
	moved, err := s.Move(e.ctx(), h, []store.Move{to(jobs.Succeeded, claimed[0].Record)})
	if err != nil || len(moved) != 1 || !moved[0] {
		return fmt.Errorf("move: %v: %w", moved, err)
	}
	if _, err := s.Prune(e.ctx(), h.Group, k.Job, jobs.History{Keep: 1000}, 0); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	_, err = s.Load(e.ctx(), h.Group)
	return err
}
