package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// checked is a way to a database whose settings change.
type checked struct {
	*link
	says func() error
}

func (c checked) Check(context.Context) error { return c.says() }

// A setting of the database that becomes unfit while the group is at work is named by its leader, once, and so is its end.
func TestDatabaseBecomesUnfit(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var says atomic.Value // a func() error
		says.Store(func() error { return nil })
		var asked [2]atomic.Int32
		var logs [2]*observer.ObservedLogs
		for i := range 2 {
			core, lines := observer.New(zap.InfoLevel)
			logs[i] = lines
			s, err := scheduler.New(checked{newLink(c.store), func() error { asked[i].Add(1); return says.Load().(func() error)() }}, "g", scheduler.WithLogger(zap.New(core)))
			if err != nil {
				c.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					c.Error(err)
				}
			}()
			c.until(time.Duration(i+1) * 20 * time.Second)
		}
		for i, err := range []error{
			fmt.Errorf("%w: for now", lease.ErrNotReady),
			fmt.Errorf("%w: maxmemory-policy is allkeys-lru", lease.ErrSetup),
			fmt.Errorf("%w: maxmemory-policy is allkeys-lru", lease.ErrSetup),
			nil,
		} {
			says.Store(func() error { return err })
			c.until(time.Duration(i+1) * time.Hour)
		}
		var told [2][]string
		for i, lines := range logs {
			for _, line := range lines.All() {
				if strings.Contains(line.Message, "fit") {
					told[i] = append(told[i], fmt.Sprint(line.Level, " ", line.ContextMap()["error"]))
				}
			}
		}
		if want := []string{"warn " + lease.ErrSetup.Error() + ": maxmemory-policy is allkeys-lru", "info <nil>"}; !slices.Equal(told[0], want) {
			c.Errorf("the leader says %q, want %q", told[0], want)
		}
		if leader, follower := asked[0].Load(), asked[1].Load(); len(told[1]) > 0 || follower > 3 || leader < 60 || leader > 80 {
			c.Errorf("asked %d and %d times; the follower says %q", leader, follower, told[1])
		}
	})
}
