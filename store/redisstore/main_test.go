package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
	"github.com/cronlease/cronlease/store/storetest"
)

// shared is the server of all tests that do not harm it.
var shared *redisserver.Server

func TestMain(m *testing.M) {
	logging.Disable() // servers are killed on purpose
	program, err := redisserver.Find()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = redisserver.New(program, "--appendfsync", "no")
	if err := shared.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	// A pool of the client that was closed while its server was down tries for up to a second more.
	const dialling = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"
	if err := goleak.Find(goleak.IgnoreAnyFunction(dialling), goleak.IgnoreTopFunction("github.com/cronlease/cronlease/internal/subprocess.Go.func1"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait")); err != nil && code == 0 {
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

func open(t testing.TB, addr, name string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open("redis://"+addr, redisstore.WithName(name))
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

func harness(t testing.TB) storetest.Harness { return harnessWith(t, flaw{}) }

func harnessWith(t testing.TB, f flaw) storetest.Harness {
	name := fmt.Sprintf("{test%d}", names.Add(1))
	client := redis.NewClient(&redis.Options{Addr: shared.Addr()})
	t.Cleanup(func() { client.Close() })
	return storetest.Harness{
		Open:       func(t testing.TB) store.Leases { return openFlawed(t, shared.Addr(), name, f) },
		Update:     func(t testing.TB, group string, change storetest.Change) { update(t, client, name, group, change) },
		StepClock:  func(t testing.TB, by time.Duration) { stepClock(t, client, name, by) },
		Restart:    func(t testing.TB) { restart(t, client, name) },
		SignalsAll: true,
		Fenced: func(ctx context.Context, s store.Leases, h lease.Hold) (bool, error) {
			err := s.(*redisstore.Store).Do(lease.WithHold(ctx, h), func(*redis.Tx, redis.Pipeliner) error { return nil })
			if errors.Is(err, redisstore.ErrFenced) {
				return false, nil
			}
			return err == nil, err
		},
	}
}

func update(t testing.TB, client *redis.Client, name, group string, change storetest.Change) {
	t.Helper()
	lease, fence := name+":lease:"+group, name+":fence:"+group
	ctx := context.Background()
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	l, err := client.HGetAll(ctx, lease).Result()
	if err != nil {
		t.Fatal(err)
	}
	f, err := client.HGetAll(ctx, fence).Result()
	if err != nil {
		t.Fatal(err)
	}
	var is *store.Lease
	var fenced *store.Fence
	if len(l) > 0 {
		is = &store.Lease{
			Owner: l["owner"], Token: number(l["token"]), Heartbeat: number(l["heartbeat"]), RenewedAt: time.UnixMicro(int64(number(l["renewed"]))),
			TTL: time.Duration(number(l["ttl"])) * time.Microsecond, Released: l["released"] == "1", ResignAsked: l["resign"] == "1",
		}
	}
	if len(f) > 0 {
		fenced = &store.Fence{Owner: f["owner"], Token: number(f["token"])}
	}
	is, fenced = change(is, fenced)
	flag := map[bool]string{true: "1", false: "0"}
	_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, lease, fence)
		if is != nil {
			p.HSet(ctx, lease, "owner", is.Owner, "token", is.Token, "heartbeat", is.Heartbeat, "renewed", is.RenewedAt.UnixMicro(),
				"ttl", is.TTL.Microseconds(), "released", flag[is.Released], "resign", flag[is.ResignAsked])
		}
		if fenced != nil {
			p.HSet(ctx, fence, "owner", fenced.Owner, "token", fenced.Token)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	storetest.Leases(t, harness)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	storetest.Ledger(t, harness)
}

func TestLocks(t *testing.T) {
	t.Parallel()
	storetest.Locks(t, harness)
}
