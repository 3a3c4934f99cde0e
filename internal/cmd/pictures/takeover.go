package main

import (
	"fmt"
	"time"

	"github.com/cronlease/cronlease/lease"
)

// takeover shows what happens, and when, if the leader loses the database.
func takeover(timing lease.Timing) string {
	p := newSVG(910, 372, "A takeover, second by second",
		fmt.Sprintf("With the default timing: the leader's last heartbeat gets through at 0 s. At %v its trust ends and the contexts of its jobs are cancelled; "+
			"its jobs have %v to stop. At %v another replica takes the lease with a higher token and makes up for missed ticks, as each job's policy says. "+
			"A fenced transaction that the first replica still has open is refused.", timing.Trust(), timing.Grace, timing.TTL))
	const left, perSecond = 150, 36.0
	at := func(d time.Duration) float64 { return left + d.Seconds()*perSecond }
	end := timing.TTL + 4*time.Second
	lastRenewal := timing.RenewEvery
	stopped := timing.Trust() + timing.Grace

	p.bold(20, 32, "start", ink, fmt.Sprintf("The leader loses its database just after a heartbeat (defaults: ttl %v, heartbeat every %v, grace %v)",
		timing.TTL, timing.RenewEvery, timing.Grace))

	// The scale.
	p.line(left, 60, at(end), 60, faint, false)
	for second := time.Duration(0); second <= end; second += time.Second {
		x := at(second)
		p.line(x, 56, x, 64, faint, false)
		if second%(5*time.Second) == 0 {
			p.text(x, 50, "middle", faint, fmt.Sprintf("%d s", int(second.Seconds())))
		}
	}

	// The old leader.
	p.bold(20, 118, "start", leads, "replica 1")
	p.text(20, 135, "start", faint, "token 42")
	p.box(left, 100, at(timing.Trust())-left, 40, light, leads)
	p.text(left+10, 125, "start", leads, "leads, and its jobs run")
	p.box(at(timing.Trust()), 100, at(stopped)-at(timing.Trust()), 40, "#fdebd0", stops)
	p.text((at(timing.Trust())+at(stopped))/2, 125, "middle", stops, "jobs stop")
	for beat := lastRenewal; beat < timing.Trust(); beat += timing.RenewEvery {
		p.arrow(at(beat), 140, at(beat), 164, refuse, true)
		p.text(at(beat), 180, "middle", refuse, "no answer")
	}
	p.line(at(timing.Trust()), 72, at(timing.Trust()), 100, stops, false)
	p.text(at(timing.Trust())-6, 86, "end", stops, fmt.Sprintf("%v: contexts are cancelled, with the cause", timing.Trust()))

	// The row.
	p.bold(20, 226, "start", ink, "lease row")
	p.arrow(left, 140, left, 208, leads, false)
	p.text(left+6, 180, "start", leads, "heartbeat")
	p.box(left, 210, at(timing.TTL)-left, 28, panel, ink)
	p.text(left+10, 229, "start", ink, fmt.Sprintf("token 42, unchanged for %v", timing.TTL))
	p.box(at(timing.TTL), 210, at(end)-at(timing.TTL), 28, light, leads)
	p.text(at(timing.TTL)+10, 229, "start", leads, "token 43")

	// The next one.
	p.bold(20, 292, "start", leads, "replica 2")
	p.text(20, 309, "start", faint, "follows")
	p.box(left, 274, at(timing.TTL)-left, 40, panel, faint)
	p.text(left+10, 299, "start", faint, "watches the heartbeat stand still, by its own clock")
	p.box(at(timing.TTL), 274, at(end)-at(timing.TTL), 40, light, leads)
	p.text(at(timing.TTL)+10, 291, "start", leads, "leads; makes up for")
	p.text(at(timing.TTL)+10, 307, "start", leads, "missed ticks")
	p.arrow(at(timing.TTL), 274, at(timing.TTL), 240, leads, false)

	// What comes too late.
	p.text(at(timing.TTL)+22, 118, "start", refuse, "a late claim, or a fenced")
	p.text(at(timing.TTL)+22, 134, "start", refuse, "COMMIT of 42, is refused")
	p.arrow(at(timing.TTL)+64, 140, at(timing.TTL)+64, 206, refuse, true)

	p.text(20, 350, "start", faint, fmt.Sprintf("A crash looks the same to replica 2: it leads at most %v after it. A clean stop hands over at once.", timing.TTL+time.Second))
	return p.done()
}
