package simulation_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// do lets an event happen, most of them to one replica, and reports whether it
// did.
func (n *nemesis) do(event string, r *replica) bool {
	switch event {
	case "cut":
		r.link.always(func() fault { return fault{name: "statement cut", Fault: faulty.Fault{Err: errLink}} })
	case "denied":
		r.link.always(func() fault { return fault{name: "login denied", Fault: faulty.Fault{Err: errDenied}} })
	case "fading":
		r.link.always(n.fading())
	case "hung":
		r.link.always(func() fault { return fault{name: "statement hung", Fault: faulty.Fault{Silence: true}} })
	case "lossy":
		r.link.always(n.lossy())
	case "healed":
		r.link.heal()
	case "all cut", "all denied", "all hung", "all lossy":
		for _, r := range n.replicas {
			n.do(event[4:], r)
		}
	case "killed":
		r.kill()
	case "killed in between":
		r.link.trap(n.op(r), r.kill)
	case "shut down":
		r.stop()
	case "resigned":
		n.odd = true
		_, err := election.AskResign(n.t.Context(), n.w, group)
		return err == nil
	case "signal cut":
		n.w.mu.Lock()
		n.w.cut = time.Now()
		n.w.mu.Unlock()
		n.w.Cut(group)
	case "stopped", "asleep", "frozen":
		n.stand(r, standing(event))
	case "stopped in between":
		r.link.trap(n.op(r), func() { r.stand(stopped) })
	case "frozen in between":
		r.link.trap(n.op(r), func() { r.stand(frozen) })
	case "log blocked":
		r.log.block()
	case "restarted":
		n.odd = true // a replica that does not look before the next look notices late
		n.w.Restart()
	case "stepped":
		return n.step()
	case "host stepped":
		if n.justWoke(r) {
			return false
		}
		n.odd = true // a step forward costs a term
		if n.w.limit > 0 {
			r.host.correct()
			r.host.step(n.wrong())
			return true
		}
		by := n.span([]time.Duration{time.Second, 10 * time.Second, time.Hour}[n.rng.IntN(3)])
		if n.rng.IntN(2) == 0 {
			by = -by
		}
		r.host.step(by)
	case "backup":
		n.backups = append(n.backups, n.w.backup())
		n.backups = n.backups[max(0, len(n.backups)-3):]
	case "failed over":
		if len(n.backups) == 0 {
			return false
		}
		return n.lose(true, n.backups[n.rng.IntN(len(n.backups))])
	case "promoted":
		return n.promote()
	case "lease deleted":
		return n.lose(false, func() {
			n.w.Update(group, func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f })
		})
	case "group deleted":
		return n.lose(false, func() {
			n.w.Update(group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil })
		})
	case "paused", "triggered", "cancelled":
		return n.operate(event)
	case "switched":
		n.mode = !n.mode
		return n.w.SetSpread(n.t.Context(), group, n.mode) == nil
	case "deployed", "rolled", "rolled back":
		return n.deploy(event, r)
	}
	return true
}

// op is a statement that a replica sends in its role.
func (n *nemesis) op(r *replica) string {
	if r.State().Role == election.Leading {
		return []string{"Claim", "Claim", "Move", "Move", "Renew", "Release"}[n.rng.IntN(6)]
	}
	return []string{"Acquire", "Acquire", "Declare", "Load", "Claim", "Read"}[n.rng.IntN(6)]
}

// stand has a process stand still, for long enough to be replaced as often as
// not.
func (n *nemesis) stand(r *replica, how standing) {
	d := n.span([]time.Duration{time.Second, 20 * time.Second, time.Minute}[n.rng.IntN(3)])
	if r.stand(how) {
		time.AfterFunc(d, r.wake)
	}
}

// operate is what people do to the jobs.
func (n *nemesis) operate(event string) bool {
	ctx, names := n.t.Context(), n.names()
	job := names[n.rng.IntN(len(names))]
	switch event {
	case "paused":
		if n.rng.IntN(3) == 0 {
			job = ""
		}
		if n.w.Pause(ctx, group, job) != nil {
			return false
		}
		time.AfterFunc(n.span(time.Hour), func() { _ = n.w.Resume(ctx, group, job) })
	case "triggered":
		for range 1 + n.rng.IntN(4) {
			if _, err := n.w.Trigger(ctx, group, job, jobs.Request{}); err != nil {
				return false
			}
		}
	case "cancelled":
		n.w.mu.Lock()
		open := n.w.rows.open(job)
		if len(open) == 0 {
			n.w.mu.Unlock()
			return false
		}
		key := open[n.rng.IntN(len(open))]
		n.w.asked[key] = true
		n.w.mu.Unlock()
		return n.w.Cancel(ctx, group, key) == nil
	}
	return true
}

// deploy has another release be started from now on: the next one, or the one
// before, while the others still run; or it replaces one replica.
func (n *nemesis) deploy(event string, r *replica) bool {
	switch event {
	case "deployed":
		next, what := n.target.next(n.rng, n.target.number+1, n.fast)
		n.old, n.target = n.target, next
		n.know(next)
		for _, w := range what {
			n.w.count(w)
		}
	case "rolled back":
		if n.old == n.target {
			return false
		}
		n.old, n.target = n.target, n.old
	case "rolled":
		r.stop()
		n.start()
	}
	return true
}

// step steps the database's clock: not in opposite directions between two
// readings of a follower, and not to before a term that was lost.
func (n *nemesis) step() bool {
	direction := 1 - 2*n.rng.IntN(2)
	by := n.span([]time.Duration{time.Second, 10 * time.Second, time.Hour}[n.rng.IntN(3)])
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.limit > 0 {
		// By less than counts, or by so much that no host agrees.
		to := n.span(n.w.limit) - n.w.limit/2
		if n.rng.IntN(2) == 0 {
			to = time.Duration(direction) * (30*time.Minute + n.span(time.Hour))
		}
		if by, direction = (to - n.w.stepped).Abs(), 1; to < n.w.stepped {
			direction = -1
		}
		if n.lost > n.w.terms(group).last().at {
			return false // it is set back again, whichever replica has led by then
		}
	}
	if direction < 0 && n.lost > n.w.terms(group).last().at {
		return false
	}
	if direction != n.direction && time.Since(n.turned) < 3*ttl+10*time.Second {
		return false
	}
	n.direction, n.turned = direction, time.Now()
	if direction < 0 {
		n.odd = true // what the clock lost is not added to a heartbeat's age
	}
	n.w.stepped += time.Duration(direction) * by
	return true
}

// lose changes rows without any replica's knowledge. What that can do to a replica
// that has not seen the newest term, and to tokens when the clock is behind, is not
// promised; so it happens only while all have seen it, and no replica starts for a
// while.
func (n *nemesis) lose(failover bool, change func()) bool {
	w := n.w
	w.enter()
	defer w.mu.Unlock()
	behind := w.latest.Sub(w.now())
	if behind > 0 && (!failover || w.limit > 0) || w.limit > 0 && w.stepped != 0 {
		return false
	}
	newest := w.terms(group).last()
	for _, r := range n.replicas {
		if r.Owner() != newest.owner && time.Duration(r.link.read.Load()) <= newest.at {
			return false
		}
	}
	n.odd, n.lost = true, time.Since(w.began)
	n.noStart = time.Now().Add(ttl)
	change()
	if failover {
		w.Restart()
		w.stepped += max(0, behind) // the other server's clock is right
	}
	w.note("rows are lost, failover: %v", failover)
	return true
}

// promote loses the last seconds in a failover: of the ledger, and of the lease as often as not.
func (n *nemesis) promote() bool {
	n.w.mu.Lock()
	token := n.w.terms(group).holder.Token
	n.w.mu.Unlock()
	lag := n.w.backup()
	time.Sleep(n.span(10 * time.Second))
	keeps := n.rng.IntN(2) == 0
	return n.lose(true, func() {
		var lease *store.Lease
		var fence *store.Fence
		n.w.Update(group, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			lease, fence = l, f
			return l, f
		})
		keeps = keeps && n.w.terms(group).holder.Token == token
		lag()
		if keeps {
			n.w.Update(group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return lease, fence })
		}
	})
}

// lossy is a link on which anything can happen to a statement.
func (n *nemesis) lossy() func() fault {
	rng := rand.New(rand.NewPCG(n.rng.Uint64(), 2))
	return func() fault { // called with the link's lock
		var f fault
		span := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
		switch rng.IntN(8) {
		case 0:
			f = fault{name: "statement failed", Fault: faulty.Fault{Err: errLink}}
		case 1:
			f = fault{name: "reply lost", Fault: faulty.Fault{Err: errLink, Applied: true}}
		case 2:
			f = fault{name: "statement late", Fault: faulty.Fault{Err: errLink, Late: 1 + span(20*time.Second)}}
		case 3:
			f = fault{name: "statement slow", Fault: faulty.Fault{Late: 1 + span(8*time.Second)}}
		case 4:
			f = fault{name: "reply slow", Fault: faulty.Fault{Reply: span(8 * time.Second)}}
		case 5:
			f = fault{name: "statement hung", Fault: faulty.Fault{Silence: true}}
		case 6:
			f = fault{Fault: faulty.Fault{Late: 1 + span(time.Second), Reply: span(time.Second)}}
		}
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if until := time.Now().Add(f.Late + f.Reply); until.After(n.lateUntil) {
			n.lateUntil = until
		}
		return f
	}
}

// fading is a link that gets slow, and then breaks.
func (n *nemesis) fading() func() fault {
	left, slow := 1+n.rng.IntN(6), n.span(3*time.Second)
	return func() fault { // called with the link's lock
		if left--; left < 0 {
			return fault{name: "statement cut", Fault: faulty.Fault{Err: errLink}}
		}
		return fault{name: "reply slow", Fault: faulty.Fault{Reply: slow}}
	}
}

// patience is what a leader takes at most to claim a tick, or to begin a run, once nothing keeps it from that.
const patience = 10 * time.Second

// dealtWith checks that the leader has no due tick left, and no run in the ledger
// that no replica runs.
func (n *nemesis) dealtWith() {
	leaders := n.w.leaders()
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	w := n.w
	if len(leaders) != 1 {
		w.failf("%d leaders", len(leaders))
		return
	}
	r := leaders[0]
	snapshot, err := w.Store.Load(n.t.Context(), group)
	if err != nil {
		w.failf("load: %v", err)
		return
	}
	for _, j := range r.release.jobs {
		known := w.rows.jobs[j.Name]
		next := w.rows.next(known)
		paused := snapshot.Paused || snapshot.Jobs[j.Name].Paused // what is of before waits
		if !paused && !isDelay(known.Schedule) && !next.IsZero() && next.Before(w.now().Add(-patience)) && !w.inParts(j, snapshot, next) {
			w.failf("%s, %s: the tick %v is due and not claimed", j.Name, j.Schedule, next)
		}
		for _, key := range w.rows.open(j.Name) {
			row := w.rows.rows[key]
			runs := slices.ContainsFunc(w.running(), func(x *work) bool { return x.Key() == key && x.Attempt == row.attempt })
			if j.Shards == 0 && !j.Everywhere && row.state == jobs.Running && row.token == w.terms(row.of).holder.Token && !runs && time.Since(row.changed) > patience+ttl {
				w.failf("%v: attempt %d is running in the ledger, and no replica runs it: %+v", key, row.attempt, row)
			}
		}
	}
	w.counts["all dealt with"]++
}

// inParts reports whether a tick that is due waits for the part of its gap before
// it: a gap that a pause divides is claimed part by part, each once nothing of the
// one before occupies the job; called with mu held.
func (w *world) inParts(j jobs.Job, snapshot jobs.Snapshot, tick time.Time) bool {
	cursor := w.rows.jobs[j.Name].Cursor
	divided := func(p jobs.Pause) bool { return p.Began.After(cursor) && !p.Began.After(tick) }
	occupied := w.now().Sub(snapshot.Jobs[j.Name].Started) < j.LockAtLeastFor
	for key, row := range w.rows.rows {
		occupied = occupied || key.Job == j.Name && (!row.state.Over() || time.Since(row.changed) <= patience)
	}
	return occupied && (slices.ContainsFunc(snapshot.Pauses[""], divided) || slices.ContainsFunc(snapshot.Pauses[j.Name], divided))
}

// over checks that nothing is open that should be over.
func (n *nemesis) over() {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	for _, j := range n.target.jobs {
		for _, key := range n.w.rows.open(j.Name) {
			if row := n.w.rows.rows[key]; time.Since(row.changed) > 5*time.Hour && !n.w.rows.excused[key] {
				n.w.failf("%s, %v, %v: %v is still %v since %v: %+v", j.Name, j.Schedule, j.Overlap, key, row.state, row.changed, row)
			}
		}
	}
}

// running are the runs in progress; called with mu held.
func (w *world) running() (works []*work) {
	for x := range w.works {
		works = append(works, x)
	}
	return works
}
