package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// The default timing: the time that a heartbeat has to come in.
const (
	ttl         = 15 * time.Second
	noHeartbeat = ttl/3 + ttl/5
)

// watched starts replicas of the jobs, a minute before the test goes on: so each of
// them has watched the database for longer than a TTL.
func (c *cluster) watched(n int, declared []jobs.Job, options ...scheduler.Option) (leader *replica) {
	c.Helper()
	for range n {
		c.start(declared, options...)
	}
	c.until(time.Minute + time.Second)
	return c.leader()
}

// When the process of an idle leader dies, the next replica runs what is due next.
func TestTakeoverOfIdleLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{{Name: "job", Schedule: jobs.Every(2 * time.Second)}})
		c.until(61500 * time.Millisecond)
		first.kill()
		c.until(71 * time.Second)
		runs := c.runs("job")
		for i, r := range runs {
			if want := time.Duration(2*(i+1)) * time.Second; r.began != want {
				t.Errorf("run %d began at %v, want %v", i, r.began, want)
			}
		}
		if len(runs) != 35 || runs[34].Owner == first.Owner() {
			t.Errorf("%d runs, the last by %s", len(runs), runs[len(runs)-1].Owner)
		}
	})
}

// Replicas that start together may read the lease before its new holder has shown that it is there. They look again.
func TestTakeoverOfALeaderThatWasSeenEarly(t *testing.T) {
	for _, late := range []time.Duration{0, 20 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				all := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Second)}}
				first := c.startOn(func(l *link) { l.delay["Acquire"], l.delay["Take"] = late, late }, all)
				second := c.start(all)
				c.until(8*time.Second + 500*time.Millisecond)
				first.kill()
				c.until(8*time.Second + 500*time.Millisecond + noHeartbeat)
				if !second.leads() {
					t.Errorf("%+v", second.State())
				}
			})
		})
	}
}

// When the process of a leader dies in the middle of a run, that job waits until the
// run is over for certain, and all others until a heartbeat is overdue.
func TestTakeoverOfWorkingLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{
			{Name: "long", Schedule: jobs.Every(time.Minute), Recover: jobs.RecoverRerun, Do: sleep(20 * time.Second)},
			{Name: "other", Schedule: jobs.Every(time.Second)},
		})
		beat := c.heartbeat()
		first.kill()
		c.until(100 * time.Second)
		long, other := c.runs("long"), c.runs("other")
		if len(long) != 2 || long[1].began < beat+ttl || long[1].began > beat+ttl+time.Second {
			t.Errorf("after the heartbeat at %v, the long job ran %+v", beat, long)
		}
		var gap time.Duration
		for i := range other[1:] {
			gap = max(gap, other[i+1].began-other[i].began)
		}
		if gap > noHeartbeat+time.Second {
			t.Errorf("the other job did not run for %v", gap)
		}
		c.wantRows("long", "1m succeeded, attempt 2")
	})
}

// heartbeat is when the leader's last one was, by the bubble's clock.
func (c *cluster) heartbeat() time.Duration {
	c.Helper()
	readings, err := c.store.Read(c.Context(), "g")
	if err != nil {
		c.Fatal(err)
	}
	return readings[0].Lease.RenewedAt.Sub(c.begin)
}

// A replica that learns of a leader's death, and whose question about its runs is never
// answered, goes on with its campaign.
func TestTakeoverWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{{Name: "job", Schedule: jobs.Every(2 * time.Second)}})
		second := c.replicas[1]
		second.link.set(func(l *link) { l.hold["Runs"] = time.Hour })
		first.kill()
		time.Sleep(time.Second)
		second.link.set(func(l *link) { l.hold["Runs"] = 0 })
		if c.leaderAfter(first) != second {
			t.Error("another replica leads")
		}
	})
}

// A leader whose connection was cut lives. If it is idle it is replaced, and runs
// nothing any more. If it is at work, it stays.
func TestTakeoverOfLivingLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(3, []jobs.Job{{Name: "job", Schedule: jobs.Every(2 * time.Second)}})
		c.until(61500 * time.Millisecond)
		c.store.Cut("g")
		c.until(2 * time.Minute)
		if second := c.leader(); second == first {
			t.Error("nothing was taken over")
		}
		for i, r := range c.runs("job") {
			if want := time.Duration(2*(i+1)) * time.Second; r.began != want {
				t.Errorf("run %d began at %v, want %v", i, r.began, want)
			}
		}
	})
}

func TestWorkingLeaderKeepsItsLease(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(3, []jobs.Job{
			{Name: "long", Schedule: jobs.Every(time.Minute), Do: sleep(50 * time.Second)},
			{Name: "other", Schedule: jobs.Every(time.Second)},
		})
		c.store.Cut("g")
		c.until(10*time.Minute + time.Second)
		if c.leader() != first {
			t.Error("a leader that sends its heartbeats was replaced in the middle of a run")
		}
		if n := len(c.runs("other")); n < 600 {
			t.Errorf("the other job ran %d times", n)
		}
	})
}

// A replica that may not lead any more while it suspects the leader does not keep the
// signal from the others.
func TestBarredReplicaPassesTheSignal(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(3, []jobs.Job{{Name: "long", Schedule: jobs.Every(time.Minute), Do: sleep(50 * time.Second)}})
		second, third := c.replicas[1], c.replicas[2]
		beat := c.heartbeat()
		first.kill()
		time.Sleep(time.Second)
		second.link.set(func(l *link) { l.wrong = time.Hour })
		if c.leaderAfter(first) != third {
			t.Error("another replica leads")
		}
		if late := time.Since(c.begin) - beat - noHeartbeat; late > time.Second {
			t.Errorf("taken over %v late", late)
		}
	})
}

// So does one whose heartbeats are rarer than a follower's would be, since it has
// another Grace.
func TestWorkingLeaderOfAnotherGrace(t *testing.T) {
	inBubble(t, func(c *cluster) {
		long := []jobs.Job{{Name: "long", Schedule: jobs.Every(time.Minute), Do: sleep(50 * time.Second)}}
		first := c.start(long)
		c.start(long, scheduler.WithTiming(lease.Timing{Grace: 11 * time.Second}))
		c.until(time.Minute + time.Second)
		c.store.Cut("g")
		c.until(2 * time.Minute)
		if c.leader() != first {
			t.Error("a leader that sends its heartbeats was replaced in the middle of a run")
		}
	})
}

// mute cuts a leader's connection and holds up its heartbeats, so that it is taken
// for dead; it believes in its term for as long as it may.
func (r *replica) mute() {
	r.link.set(func(l *link) { l.hold["Renew"] = time.Hour })
	r.cluster.store.CutOff("g")
}

// leaderAfter waits for a leader after that one, which may believe in its term.
func (c *cluster) leaderAfter(first *replica) *replica {
	c.Helper()
	for range 10 * 60 {
		for _, r := range c.replicas {
			if r != first && r.State().Role == election.Leading {
				return r
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.Fatal("nothing was taken over")
	return nil
}

// overlap is for how long two runs of a job went on at once.
func (c *cluster) overlap(job string) time.Duration {
	var most time.Duration
	runs := c.runs(job)
	for i, a := range runs {
		for _, b := range runs[:i] {
			ended := b.ended
			if ended == 0 {
				ended = time.Since(c.begin)
			}
			most = max(most, ended-a.began)
		}
	}
	return most
}

// A run of the replaced leader that still goes on is never joined by another run of
// its job: whichever replica leads by then, and however it came to that.
func TestTakenOverRunIsLeftAlone(t *testing.T) {
	for name, next := range map[string]func(c *cluster, second *replica){
		"one takeover":   func(*cluster, *replica) {},
		"another crash":  func(_ *cluster, second *replica) { second.kill() },
		"clean stop":     func(_ *cluster, second *replica) { second.stop() },
		"resignation":    func(c *cluster, second *replica) { _ = second.Resign(c.Context()) },
		"cut connection": func(c *cluster, second *replica) { c.store.Cut("g") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				job := jobs.Job{Name: "long", Schedule: jobs.Every(20 * time.Second), Recover: jobs.RecoverRerun, Overlap: jobs.OverlapQueue, Do: sleep(18 * time.Second)}
				first := c.watched(3, []jobs.Job{job})
				beat := c.heartbeat()
				first.mute()
				second := c.leaderAfter(first)
				if late := time.Since(c.begin) - beat - noHeartbeat; late > time.Second {
					t.Errorf("taken over %v late", late)
				}
				next(c, second)
				c.until(3 * time.Minute)
				if o := c.overlap("long"); o > 0 {
					t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
				}
				if runs := c.runs("long"); runs[len(runs)-1].began < 2*time.Minute {
					t.Errorf("it ran %+v", runs)
				}
			})
		})
	}
}

// The same where the replaced leader trusts its term for longer than the others do
// theirs.
func TestTakenOverRunOfLongerTTL(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "long", Schedule: jobs.Every(50 * time.Second), Recover: jobs.RecoverRerun, Overlap: jobs.OverlapQueue, Do: sleep(45 * time.Second)}
		first := c.start([]jobs.Job{job}, scheduler.WithTiming(lease.Timing{TTL: time.Minute, RenewEvery: 5 * time.Second}))
		for range 2 {
			c.start([]jobs.Job{job}, scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second}))
		}
		c.until(66 * time.Second) // the run of 50 s goes on until 95 s
		first.mute()
		second := c.leaderAfter(first)
		if took := time.Since(c.begin); took > 90*time.Second {
			t.Errorf("taken over after %v", took)
		}
		time.Sleep(time.Second)
		second.kill()
		c.until(5 * time.Minute)
		if o := c.overlap("long"); o > 0 {
			t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
		}
	})
}

// A term that was taken early does not trust a reading of the ledger that is older
// than the term.
func TestTakeoverWithStaleReadings(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "long", Schedule: jobs.At(c.begin.Add(90 * time.Second)), Do: sleep(30 * time.Second)}}
		first := c.watched(2, declared)
		old, err := c.store.Load(c.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		other := old // read replicas of the database
		old.Server, other.Server = "one", "other"
		for _, r := range c.replicas {
			r.link.set(func(l *link) { l.stale = []jobs.Snapshot{old, other, old, other} })
		}
		c.until(80 * time.Second)
		if _, err := c.Trigger(c.Context(), "long"); err != nil {
			t.Fatal(err)
		}
		first.link.set(func(l *link) { l.stale, l.hold["Claim"] = nil, time.Hour })
		c.until(82 * time.Second)
		first.mute()
		c.leaderAfter(first)
		if taken := time.Since(c.begin); taken > 90*time.Second {
			t.Errorf("taken over at %v", taken)
		}
		c.until(3 * time.Minute)
		if runs := c.runs("long"); len(runs) != 2 || c.overlap("long") > 0 {
			t.Errorf("it ran %+v", runs)
		}
	})
}

// Nor does it think that a job was here all the time which comes back after a long absence.
func TestTakeoverWithAStaleReadingOfAnAbsentJob(t *testing.T) {
	inBubble(t, func(c *cluster) {
		with := tenMinutely("b")
		with[0].Misfire, with[0].CatchUp = jobs.MisfireAll, jobs.CatchUp{Limit: 100}
		first := c.start(with)
		c.until(25 * time.Minute)
		first.stop()
		second := c.start(nil)
		third := c.start(with)
		c.until(5*time.Hour + 2*time.Minute)
		old, err := c.store.Load(c.Context(), "g")
		check(t, err)
		old.Server = "a read replica"
		third.link.set(func(l *link) { l.stale = []jobs.Snapshot{old} })
		second.mute()
		if c.leaderAfter(second) != third {
			t.Fatal("another replica leads")
		}
		c.until(5*time.Hour + 11*time.Minute)
		c.wantRows("b", "10m succeeded", "20m succeeded", "5h skipped, missed 27: not declared", "5h10m succeeded")
	})
}

// A lease that was taken early is not released while a run of a job that this release
// does not have may go on: the next replica may have the job.
func TestTakenOverRunOfUnknownJob(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "long", Schedule: jobs.Every(20 * time.Second), Recover: jobs.RecoverRerun, Overlap: jobs.OverlapQueue, Do: sleep(18 * time.Second)}
		first := c.watched(1, []jobs.Job{job})
		without := c.start([]jobs.Job{{Name: "other", Schedule: jobs.Every(time.Second)}})
		c.until(82 * time.Second)
		first.mute()
		if c.leaderAfter(first) != without {
			t.Error("another replica leads")
		}
		c.start([]jobs.Job{job})
		without.stop()
		c.until(3 * time.Minute)
		if o := c.overlap("long"); o > 0 {
			t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
		}
		if runs := c.runs("long"); runs[len(runs)-1].Owner == first.Owner() {
			t.Error("nothing was taken over")
		}
	})
}

// On a server that answers readings and takes no writes, nobody can take the lease of
// a leader that is gone. That is one trouble, however often it is tried.
func TestTakeoverThatIsRefused(t *testing.T) {
	inBubble(t, func(c *cluster) {
		core, log := observer.New(zap.InfoLevel)
		first := c.watched(2, nil, scheduler.WithLogger(zap.New(core)))
		next := c.replicas[1]
		log.TakeAll()
		next.link.set(func(l *link) { l.fail["Acquire"] = 1e6 })
		first.kill()
		c.until(71 * time.Second)
		next.link.set(func(l *link) { l.fail["Acquire"] = 0 })
		c.until(90 * time.Second)
		var lines []string
		for _, e := range log.All() {
			if strings.Contains(e.Message, "trouble") {
				lines = append(lines, e.Message)
			}
		}
		if len(lines) != 2 || next.State().Role != election.Leading {
			t.Errorf("%v, logged: %q", next.State(), lines)
		}
	})
}

// Work that is done on an observer's word has no claims: an option keeps the TTL.
func TestFullTTL(t *testing.T) {
	inBubble(t, func(c *cluster) {
		first := c.watched(2, []jobs.Job{{Name: "job", Schedule: jobs.Every(2 * time.Second)}}, scheduler.WithFullTTL())
		beat := c.heartbeat()
		first.kill()
		c.until(2 * time.Minute)
		taken := false
		for _, r := range c.runs("job") {
			if r.Owner != first.Owner() {
				if taken = true; r.began < beat+ttl {
					t.Errorf("a run of the next leader began %v after the heartbeat", r.began-beat)
				}
			}
		}
		if !taken {
			t.Error("nothing was taken over")
		}
	})
}

// After a failover the new server may lack what the leader's runs are known by. So
// nothing is taken early from a server that was not watched for a TTL: by a replica
// that was there, and by one that has only come.
func TestNoEarlyTakeoverAfterFailover(t *testing.T) {
	for name, come := range map[string]bool{"was there": false, "has come": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				declared := []jobs.Job{{Name: "long", Schedule: jobs.Every(20 * time.Second), Do: sleep(18 * time.Second)}}
				first := c.watched(2, declared)
				c.until(79 * time.Second)
				failOver := c.store.Backup()
				c.until(80500 * time.Millisecond) // the run of 80 s
				if come {
					c.replicas[1].stop()
				}
				c.store.Restart()
				failOver()
				first.mute()
				if come {
					c.start(declared)
				}
				c.until(3 * time.Minute)
				if o := c.overlap("long"); o > 0 {
					t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
				}
				if runs := c.runs("long"); runs[len(runs)-1].Owner == first.Owner() {
					t.Error("nothing was taken over")
				}
			})
		})
	}
}

// The leader may survive a failover that loses a claim of it, and not its heartbeat:
// the new server then does not have the run that goes on.
func TestNoEarlyTakeoverOfSurvivor(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "long", Schedule: jobs.At(c.begin.Add(71 * time.Second)), Do: sleep(110 * time.Second)}}
		c.watched(2, declared)
		c.until(70500 * time.Millisecond)
		failOver := c.store.Backup()
		c.until(71500 * time.Millisecond) // the run of 71 s
		failOver()
		c.store.Restart()
		c.until(150 * time.Second)
		leader := c.leader() // either of them
		leader.mute()
		c.until(6 * time.Minute)
		if o := c.overlap("long"); o > 0 {
			t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
		}
		if c.leader() == leader {
			t.Error("nothing was taken over")
		}
	})
}

// The writes may go back to the server that the lease was acquired on, and that one
// then lacks a claim that the leader made in between.
func TestNoEarlyTakeoverAfterFailingBack(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "long", Schedule: jobs.At(c.begin.Add(101 * time.Second)), Do: sleep(190 * time.Second)}}
		first := c.watched(2, declared)
		c.until(70500 * time.Millisecond)
		c.store.Restart()
		c.until(100500 * time.Millisecond)
		failBack := c.store.Backup()
		c.until(101500 * time.Millisecond) // the run of 101 s
		failBack()
		c.store.FailBack()
		c.until(240 * time.Second)
		first.mute()
		c.until(8 * time.Minute)
		if o := c.overlap("long"); o > 0 {
			t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
		}
		if c.leader() == first {
			t.Error("nothing was taken over")
		}
	})
}

// A lease that was taken early and is not kept, since the answer came too late, is
// not released before its time.
func TestUnansweredTakeover(t *testing.T) {
	inBubble(t, func(c *cluster) {
		job := jobs.Job{Name: "long", Schedule: jobs.Every(50 * time.Second), Recover: jobs.RecoverRerun, Overlap: jobs.OverlapQueue, Do: sleep(45 * time.Second)}
		first := c.start([]jobs.Job{job}, scheduler.WithTiming(lease.Timing{TTL: time.Minute, RenewEvery: 5 * time.Second}))
		for range 2 {
			c.start([]jobs.Job{job}, scheduler.WithTiming(lease.Timing{TTL: 3 * time.Second}))
		}
		c.until(66 * time.Second) // the run of 50 s goes on until 95 s
		for _, r := range c.replicas[1:] {
			r.link.set(func(l *link) { l.lose["Acquire"] = 1 })
		}
		first.mute()
		taken := func() bool {
			readings, err := c.store.Read(c.Context(), "g")
			return err == nil && readings[0].Lease.Owner != first.Owner()
		}
		for !taken() {
			time.Sleep(time.Millisecond)
		}
		for _, r := range c.replicas[1:] { // until it cannot be adopted
			r.link.set(func(l *link) { l.away = time.Now().Add(4 * time.Second) })
		}
		c.until(5 * time.Minute)
		if o := c.overlap("long"); o > 0 {
			t.Errorf("two runs of a job at once, for %v: %+v", o, c.runs("long"))
		}
		if runs := c.runs("long"); runs[len(runs)-1].Owner == first.Owner() {
			t.Error("nothing was taken over")
		}
	})
}
