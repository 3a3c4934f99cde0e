package performance

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/test/internal/percentiles"
)

// BenchmarkKill is a SIGKILL of the leader's process, with a TTL of 15 s, to the
// start of the next due tick in another process: right before the tick is due, when
// nothing runs (idle), while another job of the leader runs (busy), and in a group that is spread while other replicas
// have long runs (spread). An operation
// is one kill. It also counts what must not be: ticks that start twice, that start
// beside another run of their job, or that never start, and long runs that end with another process than their own.
func BenchmarkKill(b *testing.B) {
	for _, name := range []string{"idle", "busy", "spread"} {
		b.Run(name, func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) { benchmarkKill(b, db, name == "busy", name == "spread") })
		})
	}
}

func benchmarkKill(b *testing.B, db dbtest.Database, busy, spread bool) {
	control := jobs.NewGroup(open(b, db), group)
	long := 0
	if busy || spread {
		long = 10
	}
	p := newPlayers(b, spec{DSN: db.DSN, TTL: 15 * time.Second, Ticks: true, Long: long, Spread: spread})
	leader := p.start()
	p.waitFor(leader, "leading")
	next, spare := p.start(), p.start()
	p.waitFor(next, "following")
	p.waitFor(spare, "following")
	p.wait(0, "a tick", func(e told) bool { return e.What == "end" && e.Job == "tick" })
	var times, leads []time.Duration
	kills, late := 0, 0
	for i := 0; spread && i < long; i++ {
		if _, err := control.Trigger(b.Context(), longJob(i)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if busy {
			from, job := p.count(), longJob(kills%long) // another one: that of the kill before is not over
			if _, err := control.Trigger(b.Context(), job); err != nil {
				b.Fatal(err)
			}
			p.wait(from, "the long run", func(e told) bool { return e.What == "start" && e.Job == job })
			<-time.After(2 * time.Second) // it has told that it runs
		}
		<-time.After(100 * time.Millisecond) // those who wait have come to rest
		due := time.Now().Truncate(time.Second).Add(time.Second)
		if time.Until(due) < 100*time.Millisecond {
			due = due.Add(time.Second)
		}
		const before = 2 * time.Millisecond
		<-time.After(time.Until(due.Add(-before)))
		from := p.count()
		at := p.kill(leader)
		kills++
		e := p.wait(from, "a start after a kill", func(e told) bool { return e.What == "start" && e.Job == "tick" && e.by != leader })
		if e.Tick == due.UnixNano() {
			times = append(times, time.Duration(e.At-at.UnixNano()))
			begun := p.wait(from, "the term", func(l told) bool { return l.What == "leading" && (spread || l.by == e.by) })
			leads = append(leads, time.Duration(begun.At-at.UnixNano()))
			leader = begun.by
		} else {
			late++ // the leader was quicker: it has started the tick
			leader = p.wait(from, "the term", func(l told) bool { return l.What == "leading" }).by
		}
		p.start()
		p.wait(from, "another follower", func(e told) bool { return e.What == "following" && e.by == p.all[len(p.all)-1] })
	}
	// The tick that was due at the last kill is over, with those that it held up.
	<-time.After(2 * time.Second)
	doubled, overlapping, lost := p.check(control, "tick", time.Second)
	percentiles.Report(b, "leading-", leads)
	percentiles.Report(b, "", times)
	b.ReportMetric(float64(kills), "kills")
	b.ReportMetric(float64(late), "killed-late")
	b.ReportMetric(float64(doubled), "doubled")
	b.ReportMetric(float64(overlapping), "overlapping")
	b.ReportMetric(float64(lost), "lost")
	if spread {
		b.ReportMetric(float64(p.ended()), "cancelled")
	}
}

// BenchmarkTrigger is from the call of Trigger in one process to the start of the
// run in the leader's.
func BenchmarkTrigger(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		control := jobs.NewGroup(open(b, db), group)
		p := newPlayers(b, spec{DSN: db.DSN, TTL: 15 * time.Second})
		p.waitFor(p.start(), "leading")
		trigger := func() time.Duration {
			at, from := time.Now(), p.count()
			if _, err := control.Trigger(b.Context(), "manual"); err != nil {
				b.Fatal(err)
			}
			e := p.wait(from, "the run", func(e told) bool { return e.What == "start" && e.Job == "manual" })
			return time.Duration(e.At - at.UnixNano())
		}
		until(b, "a leader that has opened", func() bool {
			snapshot, err := control.Load(b.Context())
			_, known := snapshot.Jobs["manual"]
			return err == nil && known
		})
		trigger()
		var times []time.Duration
		for i := 0; b.Loop(); i++ {
			<-time.After(20*time.Millisecond + time.Duration(i%7)*13*time.Millisecond) // of any phase of what polls
			times = append(times, trigger())
		}
		percentiles.Report(b, "", times)
	})
}
