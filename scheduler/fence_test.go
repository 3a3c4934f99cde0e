package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A fence row that was changed by hand refuses the term's claims, although its
// heartbeats succeed. The term ends, its runs are cancelled as those of a lost
// lease, and the next term writes both rows again.
func TestFenceMovedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leases := memdb.New()
		causes := make(chan error, 10)
		tokens := make(chan uint64, 1000)
		s := newScheduler(t, leases,
			jobs.Job{Name: "long", Schedule: jobs.Every(time.Second), Overlap: jobs.OverlapForbid, Do: func(ctx context.Context, _ jobs.Run) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			}},
			jobs.Job{Name: "short", Schedule: jobs.Every(time.Second), Do: func(_ context.Context, run jobs.Run) error {
				tokens <- run.Token
				return nil
			}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		before := <-tokens
		leases.Update("g", func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			f.Token++
			return l, f
		})
		if cause := <-causes; !errors.Is(cause, election.ErrLost) || !errors.Is(cause, store.ErrReplaced) {
			t.Errorf("cause %v", cause)
		}
		began := time.Now()
		for token := range tokens {
			if token > before {
				break
			}
		}
		if gap := time.Since(began); gap > time.Minute {
			t.Errorf("no job ran for %v", gap)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
