package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// seed is that of a test's random numbers: of CRONLEASE_SEED if it is set.
func seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("CRONLEASE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("CRONLEASE_SEED=%d", seed)
	return seed
}

// Three replicas run jobs of any policy for days, while replicas die, networks
// break, replies are lost, and people pause, trigger, cancel and release. See
// simulation for what has to hold.
func TestSimulation(t *testing.T) {
	seed := seed(t)
	inBubble(t, func(c *cluster) {
		s := &simulation{cluster: c, random: rand.New(rand.NewPCG(seed, 0)), claims: map[jobs.Key]uint64{}, newest: map[string]uint64{}, attempts: map[string]bool{}, running: map[string]int{}}
		c.watch = func(l *link) { l.opened, l.claimed = s.opened, s.claimed }
		for range 16 {
			s.declared = append(s.declared, s.newJob(len(s.declared)))
		}
		for range 3 {
			s.join()
		}
		const length = 36 * time.Hour
		for time.Since(c.begin) < length {
			time.Sleep(s.upTo(10 * time.Minute))
			s.act()
		}
		s.heal()
		s.check()
	})
}

// act does one thing to the cluster.
func (s *simulation) act() {
	c, at := s.cluster, s.random.IntN(3)
	r := c.replicas[at]
	op := []string{"Claim", "Move", "Declare", "Load", "Changes", "Renew", "Acquire", "Release"}[s.random.IntN(8)]
	job := s.declared[s.random.IntN(len(s.declared))].Name
	switch s.random.IntN(16) {
	case 0, 1, 2:
		s.did("kill")
		s.replace(at, (*replica).kill)
	case 3:
		s.did("stop")
		s.replace(at, (*replica).stop)
	case 4, 5:
		s.did("cut")
		r.link.set(func(l *link) { l.away = time.Now().Add(s.upTo(3 * time.Minute)) })
	case 6:
		s.did("database away")
		for _, r := range c.replicas {
			r.link.set(func(l *link) { l.away = time.Now().Add(s.upTo(10 * time.Minute)) })
		}
	case 7, 8:
		s.did("lost replies")
		r.link.set(func(l *link) { l.lose[op] = s.random.IntN(20) })
	case 9:
		s.did("failures")
		r.link.set(func(l *link) { l.fail[op] = s.random.IntN(20) })
	case 10:
		s.did("slow")
		hold, delay := s.upTo(2*time.Second), s.upTo(2*time.Second)
		r.link.set(func(l *link) { l.hold[op], l.delay[op] = hold, delay })
	case 11:
		s.did("pause")
		if s.random.IntN(3) == 0 {
			job = ""
		}
		_ = c.Pause(c.Context(), job) // the ledger may not know it yet
		time.Sleep(s.upTo(30 * time.Minute))
		_ = c.Resume(c.Context(), job)
	case 12:
		for range s.random.IntN(5) {
			if key, err := c.Trigger(c.Context(), job); err == nil {
				s.did("trigger")
				s.triggers = append(s.triggers, key)
			}
			time.Sleep(s.upTo(3 * time.Second))
		}
	case 13:
		if snapshot, err := c.Load(c.Context()); err == nil && len(snapshot.Open) > 0 {
			s.did("cancel")
			_ = c.Cancel(c.Context(), snapshot.Open[s.random.IntN(len(snapshot.Open))].Key)
		}
	case 14:
		s.did("release")
		for range 3 {
			i := s.random.IntN(len(s.declared))
			s.declared = slices.Clone(s.declared)
			s.declared[i] = s.newJob(i)
		}
		for i := range 3 {
			time.Sleep(s.upTo(5 * time.Minute))
			s.replace(i, (*replica).stop)
		}
	case 15:
		s.did("all off")
		for _, r := range c.replicas {
			r.kill()
		}
		time.Sleep(s.upTo(6 * time.Hour))
		for i := range 3 {
			s.replace(i, (*replica).stop)
		}
	}
}

// newJob is a job of any policy.
func (s *simulation) newJob(i int) jobs.Job {
	random := s.random
	every := time.Duration(20+random.IntN(600)) * time.Second
	j := jobs.Job{
		Name:    fmt.Sprint("job-", i),
		Misfire: jobs.Misfire(random.IntN(3)), Recover: jobs.Recover(random.IntN(2)), Overlap: jobs.Overlap(random.IntN(4)),
		Limit:   random.IntN(4),
		CatchUp: jobs.CatchUp{Limit: random.IntN(10)},
		History: jobs.History{Keep: 1e6},
	}
	switch random.IntN(6) {
	case 0, 1:
		j.Schedule = jobs.Every(every)
	case 2:
		minutes := []int{1, 2, 3, 5, 10}[random.IntN(5)]
		every = time.Duration(minutes) * time.Minute
		j.Schedule = jobs.Cron(fmt.Sprintf("%d */%d * * * *", random.IntN(60), minutes))
	case 3:
		j.Schedule = jobs.FixedRate(every).InitialDelay(time.Duration(random.IntN(2)) * time.Minute)
	case 4:
		j.Schedule = jobs.FixedDelay(every).InitialDelay(time.Duration(random.IntN(2)) * time.Minute)
	case 5:
		j.Schedule = jobs.Manual()
	}
	if random.IntN(3) == 0 {
		j.CatchUp.Deadline = s.upTo(30 * time.Minute)
	}
	if random.IntN(3) == 0 {
		j.Retry = jobs.Retry{Attempts: random.IntN(5), Initial: s.upTo(time.Minute), Max: 10 * time.Minute}
	}
	if random.IntN(4) == 0 {
		j.Timeout = s.upTo(5 * time.Minute)
	}
	if random.IntN(4) == 0 {
		j.LockAtLeastFor = s.upTo(every)
	}
	long, unlucky := s.upTo(every), random.IntN(4)
	j.Do = func(ctx context.Context, run jobs.Run) error {
		s.begin(j, run)
		defer s.end(j, run)
		h := rand.New(rand.NewPCG(uint64(run.Tick.UnixMicro()), uint64(run.Attempt)))
		if err := wait(ctx, time.Duration(h.Int64N(int64(long)))); err != nil {
			return err
		}
		switch h.IntN(12) {
		case 0, 1, 2:
			if unlucky > 0 {
				return errWork
			}
		case 3:
			return jobs.Permanent(errWork)
		case 4:
			panic("boom")
		}
		return nil
	}
	return j
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	return 1 + time.Duration(s.random.Int64N(int64(d)))
}

func (s *simulation) join() {
	s.start(s.declared, scheduler.WithMaxRuns(simulatedSlots))
}

const simulatedSlots = 6

// replace ends a replica and starts another.
func (s *simulation) replace(at int, end func(*replica)) {
	end(s.replicas[at])
	time.Sleep(s.upTo(time.Minute))
	s.join()
	last := len(s.replicas) - 1
	<-s.replicas[at].done
	s.replicas[at] = s.replicas[last]
	s.replicas = s.replicas[:last]
}

func (s *simulation) did(what string) { s.Logf("%v %s", time.Since(s.cluster.begin), what) }
