package locks

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// background is what the goroutines of a client share.
type background struct {
	running context.Context // ends with the last step of Close
	stop    context.CancelFunc
	group   sync.WaitGroup
	timeout time.Duration // of one statement
	overdue error         // what says that it has passed
}

func newBackground(timeout time.Duration) *background {
	b := &background{timeout: timeout, overdue: fmt.Errorf("no answer within %v", timeout)}
	b.running, b.stop = context.WithCancel(context.Background())
	return b
}

// pause waits for a poke, at most for wait.
func (b *background) pause(poked <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-poked:
	case <-timer.C:
	case <-b.running.Done():
	}
}

// attempt bounds one statement.
func (b *background) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.timeout, b.overdue)
}

// poke wakes a goroutine that waits at a channel of capacity 1.
func poke(what chan struct{}) {
	select {
	case what <- struct{}{}:
	default: // it has been poked already
	}
}
