package election_test

import (
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/store"
)

// do lets an event happen, most of them to one replica, and reports whether it
// did.
func (n *nemesis) do(event string, r *simReplica) bool {
	switch event {
	case "cut":
		r.link.Cut()
	case "hung":
		r.link.Hang()
	case "lossy":
		r.link.Always(n.lossy(r))
	case "healed":
		n.unlessKilled(r, (*link).Heal)
	case "all cut", "all hung", "all lossy":
		for _, r := range n.replicas {
			switch event {
			case "all cut":
				r.link.Cut()
			case "all hung":
				n.unlessKilled(r, (*link).Hang)
			default:
				n.unlessKilled(r, func(l *link) { l.Always(n.lossy(r)) })
			}
		}
	case "killed":
		r.kill()
	case "stopped":
		r.stopped.Store(true)
		r.stop()
	case "restarted":
		n.odd = true // a replica may notice only with its next look, which is late
		n.w.Restart()
	case "stepped":
		return n.step()
	case "resigned":
		n.odd = true
		go func() { _ = r.Resign(n.t.Context()) }()
	case "asked":
		n.odd = true
		_, err := election.AskResign(n.t.Context(), n.w, "g")
		return err == nil
	case "early":
		n.odd = true
		select {
		case r.early <- struct{}{}:
		default:
		}
	case "snapshot":
		readings, err := n.w.Read(n.t.Context(), "g")
		if err != nil || readings[0].Lease == nil || readings[0].Fence == nil {
			return false
		}
		n.snapshots = append(n.snapshots, snapshot{readings[0].Lease, readings[0].Fence})
		if len(n.snapshots) > 3 {
			n.snapshots = n.snapshots[1:]
		}
	case "failed over":
		if len(n.snapshots) == 0 {
			return false
		}
		old := n.snapshots[n.rng.IntN(len(n.snapshots))]
		return n.lose(true, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
			l, f := *old.lease, *old.fence
			return &l, &f
		})
	case "lease deleted":
		return n.lose(false, func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f })
	case "group deleted":
		return n.lose(false, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil })
	}
	return true
}

func (n *nemesis) unlessKilled(r *simReplica, f func(*link)) {
	select {
	case <-r.killed:
	default:
		f(r.link)
	}
}

// step steps the database's clock: not in opposite directions between two
// readings of a follower.
func (n *nemesis) step() bool {
	direction := 1 - 2*n.rng.IntN(2)
	n.w.mu.Lock()
	behind := n.lost > n.w.takenAt
	n.w.mu.Unlock()
	if direction < 0 && behind {
		return false
	}
	if direction != n.direction && time.Since(n.stepped) < 3*simTTL+10*time.Second {
		return false
	}
	by := time.Duration(direction) * n.span([]time.Duration{time.Second, 10 * time.Second, time.Hour}[n.rng.IntN(3)])
	n.direction, n.stepped = direction, time.Now()
	n.offset += by
	n.most = max(n.most, n.offset)
	if direction < 0 {
		n.odd = true // what the clock lost is not added to a heartbeat's age
	}
	n.w.StepClock(by)
	return true
}

// lose changes rows behind the replicas' backs. Nothing is promised for a replica
// that has not seen the newest term, nor for tokens while the clock is behind. So
// it happens only once all replicas have seen that term, and no replica starts
// for a while.
func (n *nemesis) lose(restart bool, change func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence)) bool {
	if n.mixed || n.offset < n.most && !restart {
		return false
	}
	n.w.mu.Lock()
	newest, at := n.w.taken[n.w.newest], n.w.takenAt
	n.w.mu.Unlock()
	for _, r := range n.replicas {
		if r.Owner() != newest && time.Duration(r.read.Load()) <= at {
			return false
		}
	}
	n.odd, n.lost = true, time.Since(n.w.began)
	n.noStart = time.Now().Add(simTTL)
	n.w.change.Lock()
	defer n.w.change.Unlock()
	if restart {
		n.w.Restart()
		n.w.StepClock(n.most - n.offset) // the other server's clock is right
		n.offset = n.most
	}
	n.w.Update("g", change)
	return true
}
