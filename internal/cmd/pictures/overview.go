package main

import (
	"fmt"

	"github.com/cronlease/cronlease/lease"
)

// overview shows who writes which row.
func overview(timing lease.Timing) string {
	p := newSVG(890, 426, "Replicas, and the rows that they share",
		"Three replicas of a service share one database. Replica 1 holds the lease: it renews the lease row, claims each tick in the table of runs, "+
			"and writes to the service's tables in transactions that compare the token with the fence row. Replicas 2 and 3 read the lease row and wait.")

	p.bold(130, 34, "middle", ink, "Replicas of your service")
	p.box(20, 50, 220, 226, light, leads)
	p.bold(36, 76, "start", leads, "replica 1 leads, token 42")
	for i, job := range []string{"job clean-up", "job nightly-report"} {
		y := 92 + float64(i)*66
		p.box(36, y, 188, 50, paper, leads)
		p.text(48, y+30, "start", ink, job)
	}
	p.text(36, 252, "start", leads, "one heartbeat for all jobs")
	for i, name := range []string{"replica 2 follows", "replica 3 follows"} {
		y := 294 + float64(i)*62
		p.box(20, y, 220, 46, panel, faint)
		p.bold(36, y+28, "start", faint, name)
	}

	p.bold(715, 34, "middle", ink, "Your MySQL, MariaDB or SQLite")
	p.box(570, 50, 300, 352, panel, ink)
	row := func(y float64, name string, lines ...string) {
		p.box(586, y, 258, 30+18*float64(len(lines)), paper, ink)
		p.bold(598, y+20, "start", ink, name)
		for i, line := range lines {
			p.code(598, y+38+18*float64(i), ink, line)
		}
	}
	row(66, "your tables", "session, invoice, ...")
	row(130, "runs", "clean-up        02:05  token 42", "nightly-report  02:00  token 42")
	row(242, "fence", "billing  replica 1  token 42")
	row(320, "lease", "billing  replica 1  token 42", fmt.Sprintf("heartbeat 1709  ttl %v", timing.TTL))
	for _, y := range []int{98, 176} { // both are compared with the fence row
		p.add(`<path d="M844 266 C 864 %d 864 %d 848 %d" fill="none" stroke="%s" stroke-width="1.5" marker-end="url(#head-%s)"/>`,
			240, y+24, y, stops, stops[1:])
	}
	p.text(836, 230, "end", stops, "both are checked against")

	label := func(y float64, colour string, lines ...string) {
		for i, line := range lines {
			p.text(404, y+16*float64(i), "middle", colour, line)
		}
	}
	p.arrow(226, 117, 582, 92, leads, false)
	label(64, leads, "fence.Do: COMMIT only while", "the fence row has this token")
	p.arrow(226, 183, 582, 170, leads, false)
	label(144, leads, "claim: one run for each tick,", "under the current token only")
	p.arrow(226, 248, 582, 338, leads, false)
	label(256, leads, fmt.Sprintf("heartbeat every %v", timing.RenewEvery))
	p.arrow(240, 317, 582, 352, faint, true)
	p.arrow(240, 379, 582, 366, faint, true)
	label(398, faint, "take the lease, with a higher token, once", fmt.Sprintf("its heartbeat has stood still for %v", timing.TTL))
	return p.done()
}
