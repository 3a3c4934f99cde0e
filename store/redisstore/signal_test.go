package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// scripts is how many scripts the server has run.
func (b *bench) scripts() int {
	b.Helper()
	stats, err := b.client.InfoMap(b.Context(), "commandstats").Result()
	b.ok(err)
	n := 0
	for _, command := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		var calls int
		if _, err := fmt.Sscanf(stats["Commandstats"][command], "calls=%d,", &calls); err == nil {
			n += calls
		}
	}
	return n
}

// A replica that waits asks now and then whether the leader is there. The leader itself does not, though it waits too.
func TestWaitingIsCheap(t *testing.T) {
	t.Parallel()
	server := start(t)
	b := newBench(t, server.Addr())
	leader := b.HandoverSignal("group").(store.PresenceSignal)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	wait := func(signal store.HandoverSignal) {
		waiting.Go(func() {
			_ = signal.Wait(ctx)
			_ = signal.Close()
		})
	}
	r, err := b.Read(ctx, "group")
	b.ok(err)
	wait(leader)
	b.ok(leader.Announce(ctx, b.h.Token, r[0].Server))
	const looked, most = 3 * time.Second, 2
	pass := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	count := func() int {
		pass(time.Second)
		before := b.scripts()
		pass(looked)
		return b.scripts() - before
	}
	if n := count(); n > 0 {
		t.Errorf("a leader at rest has sent %d scripts in %v", n, looked)
	}
	wait(open(t, server.Addr(), b.name).HandoverSignal("group"))
	if n := count(); n > most { // the lease of a bench has a TTL of a minute
		t.Errorf("a replica that waits has sent %d scripts in %v", n, looked)
	}
}
