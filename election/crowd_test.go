package election_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// Fifty followers: what they ask at rest, and what a takeover costs.
func TestCrowd(t *testing.T) {
	for name, hide := range map[string]bool{"signal": false, "no signal": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var leases store.Leases = memdb.New()
				if hide {
					leases = noSignal{leases}
				}
				leader := start(t, leases)
				<-leader.terms
				var crowd []*replica
				for range 50 {
					crowd = append(crowd, start(t, leases))
					time.Sleep(97 * time.Millisecond)
				}
				time.Sleep(10 * time.Minute)
				count := func(op string) (sum int) {
					for _, r := range crowd {
						sum += r.Count(op)
					}
					return sum
				}
				const rest = time.Hour
				var before []int
				for _, r := range crowd {
					before = append(before, r.All())
				}
				time.Sleep(rest)
				for i, r := range crowd {
					if n := r.All() - before[i]; n > int(rest/(ttl/2)) {
						t.Errorf("a follower at rest sends %d statements an hour", n)
					}
				}
				if n := count("Acquire") + count("Prepare"); n != 0 {
					t.Errorf("%d writes of followers", n)
				}

				reads := count("Read")
				crashed := time.Now()
				leader.Cut()
				var winners int
				for time.Since(crashed) < ttl+time.Second {
					time.Sleep(time.Second)
				}
				for _, r := range crowd {
					winners += len(r.terms)
				}
				if winners != 1 {
					t.Errorf("%d winners of a crash", winners)
				}
				if n := count("Read") - reads; n > 15*len(crowd) {
					t.Errorf("%d reads at a takeover", n)
				}
				if n := count("Acquire"); n > len(crowd) {
					t.Errorf("%d acquires at a takeover", n)
				}
			})
		})
	}
}
