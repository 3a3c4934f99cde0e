package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A claim that a pause refused and that arrives again around Resume, late, is run
// once: whether the leader reads of its row before it claims the tick itself,
// while it does, or after.
func TestRefusedClaimArrivesLate(t *testing.T) {
	for _, misfire := range []jobs.Misfire{jobs.MisfireOnce, jobs.MisfireAll} {
		for _, millis := range []int{1, 200, 999, 1000, 1001, 1500, 60_000, 60_001, 62_500} {
			after := time.Duration(millis) * time.Millisecond
			t.Run(fmt.Sprint(misfire, " ", after), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					const resumed = 90 * time.Second
					r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Misfire: misfire, Do: sleep(3 * time.Second)}})
					c.until(30 * time.Second)
					held := false
					r.link.set(func(l *link) {
						l.late = func(h store.Holder, id store.ClaimID, claims []store.Claim) bool {
							if held {
								return false
							}
							held = true
							time.AfterFunc(time.Until(c.begin.Add(resumed+after)), func() {
								_, err := c.store.Claim(context.Background(), h, id, claims)
								check(t, err)
							})
							return true
						}
					})
					c.until(time.Minute + time.Millisecond) // the claim is under way
					check(t, c.Pause(t.Context(), "job"))
					c.until(resumed)
					check(t, c.Resume(t.Context(), "job"))
					c.until(4*time.Minute + 10*time.Second)
					ran := map[time.Duration]int{}
					for _, run := range c.runs("job") {
						ran[run.Tick.Sub(c.begin)]++
					}
					for tick := time.Minute; tick <= 4*time.Minute; tick += time.Minute {
						if ran[tick] != 1 {
							t.Errorf("the tick %v ran %d times", tick, ran[tick])
						}
					}
					for _, record := range c.records("job") {
						if record.State != jobs.Succeeded {
							t.Errorf("%v is %v: %s", record.Tick.Sub(c.begin), record.State, record.Error)
						}
					}
				})
			})
		}
	}
}

// handedOver is a tick of 1h whose claim is answered as its leader leaves: it has not begun there. The next leader comes after then.
func (c *cluster) handedOver(job jobs.Job, after time.Duration, between func()) {
	c.Helper()
	r := c.start([]jobs.Job{job})
	c.until(59 * time.Minute)
	r.link.set(func(l *link) { l.delay["Claim"] = 2 * time.Second })
	c.until(time.Hour + time.Second)
	r.stop()
	between()
	c.until(time.Hour + after)
	c.start([]jobs.Job{job})
	c.until(time.Hour + 40*time.Minute)
}

// handedOn is handedOver, and the next leader leaves too, while the ledger's answer to its start of the run is under way.
func (c *cluster) handedOn(job jobs.Job) {
	c.Helper()
	r := c.start([]jobs.Job{job})
	c.until(59 * time.Minute)
	r.link.set(func(l *link) { l.delay["Claim"] = 2 * time.Second })
	c.until(time.Hour + time.Second)
	next := c.start([]jobs.Job{job})
	next.link.set(func(l *link) { l.delay["Move"] = 2 * time.Second })
	r.stop()
	synctest.Wait()
	next.stop()
	c.start([]jobs.Job{job})
	c.until(time.Hour + 40*time.Minute)
}

// lastOf compares which of the attempts at the job knew that none follows.
func lastOf(c *cluster, want ...bool) {
	c.Helper()
	var last []bool
	for _, run := range c.runs("a") {
		last = append(last, run.LastAttempt)
	}
	if !slices.Equal(last, want) {
		c.Errorf("the attempts are the last one: %v, want %v", last, want)
	}
}

// A tick that was handed on before it began, once or twice, has not begun for its start deadline, for a pause, and for
// the attempts that it may have.
func TestHandedOverBeforeItBegan(t *testing.T) {
	job := jobs.Job{Name: "a", Schedule: jobs.Every(time.Hour)}
	for name, test := range map[string]func(*cluster){
		"start deadline": func(c *cluster) {
			late := job
			late.CatchUp.Deadline = time.Minute
			c.handedOver(late, 30*time.Minute, func() {})
			c.wantBegan("a")
			c.wantRows("a", "1h skipped: too late to start")
		},
		"pause": func(c *cluster) {
			c.handedOver(job, 30*time.Minute, func() { check(c.T, c.Pause(c.Context(), "a")) })
			c.wantBegan("a")
			check(c.T, c.Resume(c.Context(), "a"))
			c.until(time.Hour + 41*time.Minute)
			c.wantBegan("a", time.Hour+40*time.Minute)
		},
		"attempts": func(c *cluster) {
			twice := job
			twice.Retry, twice.Do = jobs.Retry{Attempts: 2, Initial: time.Second}, failing(100)
			c.handedOver(twice, 5*time.Second, func() {})
			lastOf(c, false, true)
		},
		"attempts, twice": func(c *cluster) {
			twice := job
			twice.Retry, twice.Do = jobs.Retry{Attempts: 2, Initial: time.Second}, failing(100)
			c.handedOn(twice)
			lastOf(c, false, true)
			c.wantRows("a", "1h failed, attempt 4: no luck")
		},
	} {
		t.Run(name, func(t *testing.T) { inBubble(t, test) })
	}
}
