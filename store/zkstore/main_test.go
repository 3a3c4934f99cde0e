package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/zkserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
	"github.com/cronlease/cronlease/store/zkstore"
)

// shared is the server of all tests that do not harm it.
var shared *zkserver.Server

func TestMain(m *testing.M) {
	program, err := zkserver.Find()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = zkserver.New(program, "-Dzookeeper.forceSync=no")
	if err := shared.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(goleak.IgnoreTopFunction("github.com/cronlease/cronlease/internal/subprocess.Go.func1"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var names atomic.Int64

func open(t testing.TB, addr, root string) *zkstore.Store {
	t.Helper()
	s, err := zkstore.Open("zk://" + addr + root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func harness(t testing.TB) storetest.Harness {
	root := fmt.Sprintf("/test%d", names.Add(1))
	clock := &zkstore.Clock{}
	openClocked := func(t testing.TB) *zkstore.Store {
		s := open(t, shared.Addr(), root)
		clock.Drive(s)
		return s
	}
	operator := sync.OnceValue(func() *zkstore.Store { return openClocked(t) })
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return storetest.Harness{
		Open: func(t testing.TB) store.Leases { return openClocked(t) },
		Update: func(_ testing.TB, group string, change storetest.Change) {
			ok(zkstore.Update(operator(), group, change))
		},
		StepClock:  func(_ testing.TB, by time.Duration) { ok(clock.Step(operator(), by)) },
		Restart:    func(testing.TB) { ok(zkstore.Turn(operator())) },
		SignalsAll: true,
		Fenced: func(ctx context.Context, s store.Leases, h lease.Hold) (bool, error) {
			err := s.(*zkstore.Store).Do(lease.WithHold(ctx, h), func(*zkstore.Tx) error { return nil })
			if errors.Is(err, zkstore.ErrFenced) {
				return false, nil
			}
			return err == nil, err
		},
		Patience: 5 * time.Minute, // some cases have many replicas write to one ledger, which is slow here
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	storetest.Leases(t, harness)
}

func TestLocks(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, harness)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	storetest.Rows(t, harness)
}
