package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
)

// A request to resign that is made through the database reaches the leader of an
// election without a ledger at once, although its heartbeat is seconds away.
func TestAskResignWakesTheLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		ctx, stop := context.WithCancel(t.Context())
		terms, ends, done := make(chan time.Time, 10), make(chan error, 10), make(chan error, 1)
		go func() {
			done <- election.Run(ctx, store, "g", func(ctx context.Context, _ election.Term) error {
				terms <- time.Now()
				<-ctx.Done()
				ends <- context.Cause(ctx)
				return nil
			})
		}()
		<-terms
		time.Sleep(time.Second)
		asked := time.Now()
		if _, err := election.AskResign(t.Context(), store, "g"); err != nil {
			t.Fatal(err)
		}
		if cause := <-ends; !errors.Is(cause, election.ErrResigned) {
			t.Errorf("cause %v", cause)
		}
		if took := time.Since(asked); took > 100*time.Millisecond {
			t.Errorf("the term ended %v after the request", took)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
