package scheduler_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// blockedLog is where a log goes that nothing reads any more.
type blockedLog struct{ free chan struct{} }

func (b blockedLog) Write(line []byte) (int, error) { <-b.free; return len(line), nil }

func (blockedLog) Sync() error { return nil }

// A leader whose log is blocked gives way: its term ends, its runs are cancelled,
// and another replica leads while the log is still blocked.
func TestBlockedLog(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}
		free := make(chan struct{})
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), blockedLog{free}, zap.InfoLevel)
		blocked := c.start(declared, scheduler.WithLogger(zap.New(core)))
		if role := blocked.State().Role; role != election.Leading {
			t.Fatalf("%v", role)
		}
		other := c.start(declared)
		c.until(2*time.Minute - 5*time.Second)
		if role := other.State().Role; role != election.Leading {
			t.Errorf("the other replica is %v", role)
		}
		if role := blocked.State().Role; role != election.Draining {
			t.Errorf("the replica whose log is blocked is %v, and another one leads", role)
		}
		if err := blocked.Check(); err == nil {
			t.Error("Check of the replica whose log is blocked: no error")
		}
		c.until(3*time.Minute + time.Second)
		records := c.records("job")
		for _, r := range records[1:] {
			if r.State != jobs.Succeeded || r.Owner != other.Owner() {
				t.Errorf("%+v", r)
			}
		}
		if len(records) != 3 {
			t.Errorf("%d runs:\n%s", len(records), c.rows("job"))
		}
		close(free)
		synctest.Wait()
		for _, r := range c.runs("job") {
			if r.Owner == blocked.Owner() {
				t.Errorf("tick %v began %v after the begin, long after its term", r.Tick, r.began)
			}
		}
	})
}

// A log that is blocked when it says that the clocks disagree lets no tick start by
// the wrong one.
func TestBlockedLogWhileClocksDisagree(t *testing.T) {
	inBubble(t, func(c *cluster) {
		free := make(chan struct{})
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), blockedLog{free}, zap.ErrorLevel)
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, scheduler.WithLogger(zap.New(core)))
		c.until(90 * time.Second)
		c.store.StepClock(year)
		c.until(5 * time.Minute)
		c.wantRows("job", "1m succeeded")
		c.store.StepClock(-year)
		close(free)
		synctest.Wait()
	})
}

// A log that is blocked while the ledger cannot be reached stops the statement
// that would say so, and the term ends just the same.
func TestBlockedLogOfAStatement(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}
		free := make(chan struct{})
		core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), blockedLog{free}, zap.WarnLevel)
		blocked := c.startOn(func(l *link) { l.fail = map[string]int{"Claim": 1} }, declared, scheduler.WithLogger(zap.New(core)))
		other := c.start(declared)
		c.until(2*time.Minute + time.Second)
		if role := other.State().Role; role != election.Leading {
			t.Errorf("the other replica is %v", role)
		}
		if cause := blocked.State().Cause; !errors.Is(cause, election.ErrStuck) {
			t.Errorf("cause %v, want ErrStuck", cause)
		}
		close(free)
		synctest.Wait()
	})
}

// An observer that never returns holds up nothing but itself.
func TestBlockedObserver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		free := make(chan struct{})
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute)}}, scheduler.WithObserver(func(election.State) { <-free }))
		c.until(2*time.Minute + time.Second)
		c.wantRows("job", "1m succeeded", "2m succeeded")
		check(t, r.Check())
		close(free)
	})
}

// Statements that are answered within their time end no term, however much of a
// TTL the timing lets each of them take.
func TestSlowLedgerIsNotStuck(t *testing.T) {
	for name, test := range map[string]struct {
		timing lease.Timing
		hold   map[string]time.Duration
	}{
		"two reads in a row": {
			lease.Timing{TTL: 15 * time.Second, Grace: 100 * time.Millisecond, RenewEvery: time.Second, AttemptTimeout: 10 * time.Second},
			map[string]time.Duration{"Changes": 8 * time.Second, "Load": 8 * time.Second},
		},
		"a read and the wait before it": {
			lease.Timing{TTL: 15 * time.Second, Grace: 10 * time.Millisecond, RenewEvery: 200 * time.Millisecond, AttemptTimeout: 14*time.Second + 500*time.Millisecond},
			map[string]time.Duration{"Changes": 14*time.Second + 400*time.Millisecond},
		},
		"attempts that time out": {
			lease.Timing{TTL: 15 * time.Second, Grace: 10 * time.Millisecond, RenewEvery: 200 * time.Millisecond, AttemptTimeout: 14*time.Second + 500*time.Millisecond},
			map[string]time.Duration{"Claim": 16 * time.Second, "Prune": 16 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(10 * time.Minute)}}, scheduler.WithTiming(test.timing))
				c.until(65 * time.Second)
				token := c.holder(r).Token
				r.link.set(func(l *link) { l.hold = test.hold })
				check(t, c.Pause(t.Context(), "job"))
				c.until(90 * time.Second)
				check(t, c.Resume(t.Context(), "job"))
				c.until(5 * time.Minute)
				if now := c.holder(r).Token; now != token {
					t.Errorf("the term has ended: %v", r.State().Cause)
				}
				for _, run := range c.runs("job") {
					if run.cause != nil {
						t.Errorf("the run of %v was ended: %v", run.Tick.Sub(c.begin), run.cause)
					}
				}
			})
		})
	}
}

// halting is a schedule that comes to no answer any more.
type halting struct {
	jobs.Schedule
	halted *atomic.Bool
	free   chan struct{}
}

func (h halting) Next(after time.Time) time.Time {
	if h.halted.Load() {
		<-h.free
	}
	return h.Schedule.Next(after)
}

// A term that stands still while it opens is noticed as one that stands still later is.
func TestStuckWhileItOpens(t *testing.T) {
	inBubble(t, func(c *cluster) {
		h := halting{jobs.Every(time.Minute), new(atomic.Bool), make(chan struct{})}
		first := c.start([]jobs.Job{{Name: "job", Schedule: h}})
		other := c.start([]jobs.Job{{Name: "job", Schedule: h}})
		c.until(90 * time.Second)
		h.halted.Store(true)
		first.kill()
		c.until(2*time.Minute + 10*time.Second)
		if err := other.Check(); !errors.Is(err, election.ErrStuck) {
			t.Errorf("%+v: %v", other.State(), err)
		}
		close(h.free)
		h.halted.Store(false)
		synctest.Wait()
	})
}
