package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// A leader that claims nothing does not look healthy, although it leads.
func TestHealthOfALeaderThatClaimsNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{
			{Name: "minute", Schedule: jobs.Every(time.Minute)},
			{Name: "delay", Schedule: jobs.FixedDelay(time.Minute), Do: sleep(10 * time.Minute)},
		})
		c.until(59 * time.Second)
		if h := r.Health(); h.Err() != nil || h.Late != 0 {
			t.Errorf("%+v", h)
		}
		r.link.set(func(l *link) { l.fail = map[string]int{"Claim": 1e9} })
		for _, late := range []time.Duration{2*time.Second - 1, 2 * time.Second, ttl, ttl + 1} {
			c.until(time.Minute + late)
			want := late
			if late < 2*time.Second {
				want = 0
			}
			if h := r.Health(); h.Late != want || errors.Is(h.Leader, scheduler.ErrNotFiring) != (late > ttl) {
				t.Errorf("after %v: %v late, and %v", late, h.Late, h.Leader)
			}
		}
		c.until(90 * time.Second)
		h := r.Health()
		if h.State.Role != election.Leading || !errors.Is(h.Leader, scheduler.ErrNotFiring) || h.LateJob != "minute" || h.Late < 29*time.Second || h.Late > 31*time.Second {
			t.Errorf("%+v", h)
		}
		if h.Stuck != nil || h.Database == nil || !errors.Is(r.Check(), scheduler.ErrNotFiring) {
			t.Errorf("%+v", h)
		}
		r.link.set(func(l *link) { l.fail = map[string]int{} })
		c.until(100 * time.Second)
		if h := r.Health(); h.Err() != nil || h.Late != 0 {
			t.Errorf("%+v", h)
		}
	})
}

// Ticks that were missed before a term began do not make it unhealthy.
func TestHealthAfterAGap(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "hour", Schedule: jobs.Every(time.Hour), Do: sleep(time.Minute)}}
		c.start(declared).stop()
		c.until(100*time.Hour + time.Minute)
		r := c.startOn(func(l *link) { l.hold["Claim"] = 2500 * time.Millisecond }, declared)
		c.until(100*time.Hour + time.Minute + 2400*time.Millisecond)
		if h := r.Health(); h.Err() != nil || h.Late < 2*time.Second || h.Late > 3*time.Second {
			t.Errorf("%+v", h)
		}
	})
}

// A replica that led before an outage and follows after it is healthy as soon as
// the database answers, and its log has one line for the end of the outage.
func TestHealthOfAFormerLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "second", Schedule: jobs.Every(time.Second)}}
		core, log := observer.New(zap.InfoLevel)
		r := c.start(declared, scheduler.WithLogger(zap.New(core)))
		c.until(10 * time.Second)
		c.start(declared)
		r.link.set(func(l *link) { l.away = time.Now().Add(time.Minute) })
		c.until(69 * time.Second)
		if h := r.Health(); h.Database == nil {
			t.Errorf("the database is away: %+v", h)
		}
		ends := log.FilterMessage("database trouble over")
		if ends.Len() > 0 {
			t.Errorf("the database is still away: %v", ends.All())
		}
		c.until(100 * time.Second)
		if h := r.Health(); h.Err() != nil || h.State.Role == election.Leading {
			t.Errorf("30 s after the outage: %+v", h)
		}
		ends = log.FilterMessage("database trouble over")
		if ends.Len() != 1 {
			t.Errorf("%d lines of the end: %v", ends.Len(), log.All())
		} else if lasted := ends.All()[0].ContextMap()["for"].(time.Duration); lasted < time.Minute-2*time.Second || lasted > time.Minute+10*time.Second {
			t.Errorf("for %v", lasted)
		}
	})
}

// Before the campaign, while a provider is slow, and after it, while jobs that run
// everywhere drain, a restart would not help.
func TestHealthBesideTheCampaign(t *testing.T) {
	inBubble(t, func(c *cluster) {
		slow := c.start(nil, scheduler.WithProvider(func(ctx context.Context) ([]jobs.Job, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		if h := slow.Health(); !h.Started || h.Running || h.Stuck != nil || h.Leader == nil {
			t.Errorf("before the campaign: %+v", h)
		}
		r := c.start([]jobs.Job{{Name: "here", Schedule: jobs.Every(time.Minute), Everywhere: true, Do: sleep(30 * time.Minute)}}, scheduler.WithDrain(time.Hour))
		c.until(90 * time.Second)
		if h := r.Health(); !h.Running || h.Err() != nil {
			t.Errorf("%+v", h)
		}
		r.cancel()
		c.until(20 * time.Minute)
		if h := r.Health(); h.Running || h.Stuck != nil || h.Leader == nil {
			t.Errorf("while a job that runs everywhere drains: %+v", h)
		}
		<-r.done
		if h := r.Health(); h.Running || h.Stuck != nil || h.Leader == nil {
			t.Errorf("after Run has returned: %+v", h)
		}
	})
}
