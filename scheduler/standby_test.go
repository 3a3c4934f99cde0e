package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// standby are the replicas that could take over, as the roster has them.
func (c *cluster) standby() (owners []string) {
	c.Helper()
	roster, err := c.Roster(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, r := range roster.Standby() {
		owners = append(owners, r.Owner)
	}
	return owners
}

// A replica counts while it is there and could lead: not once it has died, and not
// while its clock keeps it from leading.
func TestStandby(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second)}}
		leader := c.start(declared)
		first, second := c.start(declared), c.start(declared)
		want := func(n int, what string) {
			c.Helper()
			if got := c.standby(); len(got) != n {
				c.Errorf("%s, %v could take over, want %d", what, got, n)
			}
		}
		c.until(time.Second)
		want(2, "with two followers")
		c.until(10 * time.Second)
		want(2, "a while later")
		first.kill()
		c.until(11 * time.Second)
		want(1, "after a follower died")
		leader.kill()
		c.until(2 * time.Minute)
		if c.leader() != second {
			c.Fatal("the second follower does not lead")
		}
		want(0, "after the leader died, too")
		third := c.start(declared)
		c.until(3 * time.Minute)
		want(1, "with a new follower")
		if err := second.Resign(c.Context()); err != nil {
			c.Fatal(err)
		}
		c.until(4 * time.Minute)
		want(1, "after a hand-over")
		third.stop()
		c.until(5 * time.Minute)
		want(0, "after a clean stop")
		c.startOn(func(l *link) { l.wrong = time.Hour }, declared)
		c.until(6 * time.Minute)
		want(0, "with a replica that may not lead")
	})
}

// A replica of a release that does not show itself is not said to be gone: it tells of
// itself, and that is all that is known.
func TestStandbyOfAnOlderRelease(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second)}})
		for owner, list := range map[string]uint64{"dead": jobs.FirstList, "old": 1} {
			if err := c.store.Enlist(c.Context(), "g", jobs.Replica{Owner: owner, List: list}); err != nil {
				c.Fatal(err)
			}
		}
		c.until(time.Minute)
		if got := c.standby(); len(got) != 1 || got[0] != "old" {
			c.Errorf("a minute later, %q could take over", got)
		}
		roster, err := c.Roster(c.Context())
		if gone := roster.Gone(); err != nil || len(gone) != 1 || gone[0].Owner != "dead" {
			c.Errorf("gone are %v (%v)", gone, err)
		}
		c.until(jobs.ReplicaLife + time.Minute)
		if got := c.standby(); len(got) != 0 {
			c.Errorf("long after they told of themselves, %q could take over", got)
		}
	})
}

// A process that was started again after its crash is not said to be gone, and another one
// that died there is.
func TestRestartedIsNotGone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second)}})
		enlist := func(owner string) {
			c.Helper()
			if err := c.store.Enlist(c.Context(), "g", jobs.Replica{Owner: owner, List: jobs.FirstList}); err != nil {
				c.Fatal(err)
			}
		}
		gone := func(want ...string) {
			c.Helper()
			roster, err := c.Roster(c.Context())
			var owners []string
			for _, x := range roster.Gone() {
				owners = append(owners, x.Owner)
			}
			if err != nil || !slices.Equal(owners, want) {
				c.Errorf("after %v gone are %q (%v), want %q", time.Since(c.begin), owners, err, want)
			}
		}
		for _, owner := range []string{"worker/one/1/a", "worker/one/2/b", "worker/two/1/c", "other/one/3/d"} {
			enlist(owner)
		}
		c.until(time.Minute)
		gone("other/one/3/d", "worker/one/1/a", "worker/one/2/b", "worker/two/1/c")
		again := c.store.HandoverSignal("g").(store.PresenceSignal)
		defer again.Close()
		if err := again.Announce(c.Context(), store.ReplicaToken("worker/one/4/e"), ""); err != nil {
			c.Fatal(err)
		}
		enlist("worker/one/4/e")
		c.until(2 * time.Minute)
		gone("other/one/3/d", "worker/one/2/b", "worker/two/1/c")
	})
}

// One that dies beside others of its host, which were started a moment after it, is gone: they were there with it.
func TestKilledBesideOthersOfItsHost(t *testing.T) {
	inBubble(t, func(c *cluster) {
		declared := []jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(time.Second)}}
		first := c.start(declared)
		for range 2 {
			c.until(time.Since(c.begin) + time.Second)
			c.start(declared)
		}
		c.until(30 * time.Second)
		first.kill()
		c.until(time.Minute)
		roster, err := c.Roster(c.Context())
		if gone := roster.Gone(); err != nil || len(gone) != 1 || gone[0].Owner != first.Owner() {
			c.Errorf("gone are %v (%v)", gone, err)
		}
	})
}
