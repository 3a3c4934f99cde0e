package mysqlstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/store/mysqlstore"
)

// A call that ends early, or was cancelled, decides nothing for the others that wait with it.
func TestSharedCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		share := mysqlstore.Share()
		unfit := errors.New("unfit")
		var calls atomic.Int32
		f := func(ctx context.Context) error { // takes 3 s
			calls.Add(1)
			select {
			case <-time.After(3 * time.Second):
				return unfit
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ask := func(within time.Duration, want error, after time.Duration) <-chan struct{} {
			answered := make(chan struct{})
			began := time.Now()
			go func() {
				defer close(answered)
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				if err := share(ctx, f); !errors.Is(err, want) || time.Since(began) != after {
					t.Errorf("of %v: %v after %v", within, err, time.Since(began))
				}
			}()
			synctest.Wait()
			return answered
		}
		first := ask(2*time.Second, context.DeadlineExceeded, 2*time.Second)
		short := ask(time.Second, context.DeadlineExceeded, time.Second)
		long := ask(time.Minute, unfit, 5*time.Second)
		longer := ask(time.Hour, unfit, 5*time.Second)
		for _, answered := range []<-chan struct{}{first, short, long, longer} {
			<-answered
		}
		if n := calls.Load(); n != 3 { // short asks for what its context says
			t.Errorf("%d calls", n)
		}
		<-ask(time.Minute, unfit, 3*time.Second)
		if n := calls.Load(); n != 4 {
			t.Errorf("%d calls after an answer", n)
		}
	})
}
