package retry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/cronlease/cronlease/internal/retry"
)

func TestForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 10 * time.Minute
		wait := retry.Forever(time.Second, most)
		longest := time.Duration(0)
		for began := time.Now(); time.Since(began) < 24*time.Hour; {
			next := wait.NextBackOff()
			if next == backoff.Stop || next <= 0 {
				t.Fatalf("after %v: %v", time.Since(began), next)
			}
			longest = max(longest, next)
			<-time.After(next)
		}
		if longest < most/2 || longest > 2*most {
			t.Errorf("the longest wait is %v", longest)
		}
		if next := retry.Forever(time.Hour, time.Second).NextBackOff(); next < time.Hour/2 {
			t.Errorf("with a maximum below the initial wait: %v", next)
		}
	})
}
