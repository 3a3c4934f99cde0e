package watchdog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/watchdog"
)

const ttl = 16 * time.Second

// An activity may stand still for a TTL, from its last beat or from when its step is to be over.
func TestStuck(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)
	dog := watchdog.New(ttl, func() time.Time { return now })
	is := func(want string) { // what is stuck; empty: nothing
		t.Helper()
		err := dog.Stuck()
		if want == "" {
			if err != nil {
				t.Errorf("%v, want nothing", err)
			}
			return
		}
		if !errors.Is(err, election.ErrStuck) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	is("")
	loop := dog.Begin("the loop")
	now = now.Add(ttl)
	is("")
	now = now.Add(1)
	is("the loop has stood still for 16s")

	loop.Beat()
	is("")
	now = now.Add(ttl)
	is("")
	now = now.Add(1)
	is("the loop")

	loop.BeatFor(time.Minute)
	now = now.Add(time.Minute + ttl)
	is("")
	now = now.Add(1)
	is("the loop")

	read := dog.Begin("a read")
	loop.End()
	is("")
	now = now.Add(ttl + time.Millisecond)
	is("a read has stood still for 16.001s")
	read.End()
	is("")
}

// A term stands while its activities make progress, and ends at the first look after one has stood still for a TTL.
func TestWatchEndsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		terms := 0
		err := election.Run(ctx, memdb.New(), "g", func(ctx context.Context, term election.Term) error {
			defer stop()
			terms++
			dog := watchdog.New(ttl, time.Now)
			loop := dog.Begin("the loop")
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				dog.Watch(ctx, term)
			}()
			for range 20 {
				time.Sleep(ttl / 2)
				loop.Beat()
			}
			if !term.Trusted() {
				t.Errorf("a term whose loop makes progress has ended: %v", context.Cause(ctx))
			}
			last := time.Now()
			<-watched
			if still := time.Since(last); still != ttl+ttl/8 {
				t.Errorf("the term ended after %v", still)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, election.ErrStuck) || !strings.Contains(cause.Error(), "the loop") {
				t.Errorf("cause %v", cause)
			}
			return nil
		}, election.WithTiming(lease.Timing{TTL: ttl}))
		if err != nil || terms != 1 {
			t.Errorf("%d terms, %v", terms, err)
		}
	})
}

// A term that has ended otherwise keeps its cause, and its watch ends with it.
func TestWatchEndsWithTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		errOther := errors.New("something else")
		err := election.Run(ctx, memdb.New(), "g", func(ctx context.Context, term election.Term) error {
			defer stop()
			dog := watchdog.New(ttl, time.Now)
			dog.Begin("the loop")
			time.Sleep(2 * ttl)
			term.End(errOther)
			// A context that has not ended yet, as in a process that was paused: the clocks say that the term is over.
			paused, resume := context.WithTimeout(context.WithoutCancel(ctx), ttl)
			defer resume()
			dog.Watch(paused, term)
			if cause := context.Cause(ctx); !errors.Is(cause, errOther) || paused.Err() == nil {
				t.Errorf("the watch ended before its context, %v, and the term because of %v", paused.Err(), cause)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
