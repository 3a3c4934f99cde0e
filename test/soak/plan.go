//go:build linux

package main

import "time"

const (
	// minTotal leaves some samples after the warm-up.
	minTotal = 90 * time.Second
	// minWarmup is the least, and otherwise the warm-up is a tenth of the time.
	minWarmup = time.Minute
	// cycle is the time in which the ledger's rows go up and down: a job's history is pruned when 200 of its runs have
	// ended, and the jobs that matter run each 1 or 2 s. A quarter that is shorter tells nothing about rows.
	cycle = 400 * time.Second
)

// plan says what happens when. All durations count from the start.
type plan struct {
	total, warmup time.Duration
	sample        time.Duration // between two samples
	tell          time.Duration // between two of them that are printed
	ttl           time.Duration // of the lease
	// changes are when the lease is handed over some times. At every second one, the first of them after the warm-up,
	// a worker is restarted before.
	changes []time.Duration
	resigns int           // of a change, at least
	between time.Duration // two of them
}

func newPlan(total time.Duration) plan {
	p := plan{total: total, warmup: max(total/10, minWarmup), sample: 10 * time.Second, ttl: 15 * time.Second, resigns: 6}
	p.tell = total / 20
	if total < 20*time.Minute {
		// As many samples as there are in a longer one, and hand-overs that are over in time.
		p.sample, p.ttl = max(total/120, time.Second), 3*time.Second
	}
	// A worker that has resigned stands back until another one has led. Of three workers, any of the other two takes over.
	p.between = p.ttl * 11 / 20
	p.changes = []time.Duration{p.warmup / 2}
	// Most of the time is calm. In an hour each of the terms in between is long enough for the histories of jobs each
	// 2 s to be pruned.
	rest := p.total - p.warmup
	n := min(6, max(1, rest/(6*time.Duration(p.resigns)*p.between)))
	for i := range int(n) {
		p.changes = append(p.changes, p.warmup+rest/(n+1)*time.Duration(i+1))
	}
	return p
}
