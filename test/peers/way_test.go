package peers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	redislocker "github.com/go-co-op/gocron-redis-lock/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
	"github.com/cronlease/cronlease/store/zkstore"
)

// ttl is how long a lock outlives its process, with each way.
const ttl = 4 * time.Second

// mostWorkers is how many connections a pool has.
const mostWorkers = 256

// way is a way to lock, as one process uses it.
type way struct {
	name string
	// lock waits for the lock.
	lock func(ctx context.Context, key string) (*held, error)
}

// held is a lock that is held.
type held struct {
	unlock func(context.Context) error
	lost   <-chan struct{} // closed when the lock is lost; nil: the holder is not told
	token  uint64          // of the holder, grows from one to the next; zero: there is none
}

// opener makes a way with connections of its own, to the server with that address. They end with tb.
type opener struct {
	name string
	open func(tb testing.TB, addr string) way
}

// redisOpeners are the ways to lock in Redis. Those that poll do so in the interval of their own examples or defaults, and once
// more every 10 ms.
var redisOpeners = []opener{
	{"ours", func(tb testing.TB, addr string) way {
		tb.Helper()
		s, err := redisstore.Open("redis://" + addr)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.Close() })
		return ours(tb, s)
	}},
	{"redislock", func(tb testing.TB, addr string) way { return redisLock(tb, addr, 100*time.Millisecond) }},
	{"redislock-10ms", func(tb testing.TB, addr string) way { return redisLock(tb, addr, 10*time.Millisecond) }},
	{"redsync", func(tb testing.TB, addr string) way { return redSync(tb, addr) }},
	{"redsync-10ms", func(tb testing.TB, addr string) way {
		return redSync(tb, addr, redsync.WithRetryDelay(10*time.Millisecond))
	}},
	{"gocron-redis-lock", func(tb testing.TB, addr string) way {
		tb.Helper()
		locker, err := redislocker.NewRedisLocker(redisClient(tb, addr), redislocker.WithExpiry(ttl), redislocker.WithTries(1_000_000))
		if err != nil {
			tb.Fatal(err)
		}
		return way{"gocron-redis-lock", func(ctx context.Context, key string) (*held, error) {
			l, err := locker.Lock(ctx, key)
			if err != nil {
				return nil, err
			}
			return &held{unlock: l.Unlock}, nil
		}}
	}},
}

// zkOpeners are the ways to lock in ZooKeeper.
var zkOpeners = []opener{
	{"ours", func(tb testing.TB, addr string) way {
		tb.Helper()
		s, err := zkstore.Open("zk://" + addr + "/ours")
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.Close() })
		return ours(tb, s)
	}},
	{"zk.Lock", func(tb testing.TB, addr string) way {
		tb.Helper()
		conn, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(silent{}))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(conn.Close)
		return way{"zk.Lock", func(_ context.Context, key string) (*held, error) {
			l := zk.NewLock(conn, "/peer/"+key, zk.WorldACL(zk.PermAll))
			if err := l.Lock(); err != nil {
				return nil, err
			}
			return &held{unlock: func(context.Context) error { return l.Unlock() }}, nil
		}}
	}},
}

// silent keeps the client of ZooKeeper from writing to stderr.
type silent struct{}

func (silent) Printf(string, ...any) {}

// ours is package locks.
func ours(tb testing.TB, s store.Locks) way {
	tb.Helper()
	client, err := locks.New(s, locks.WithTiming(lease.Timing{TTL: ttl}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close(context.Background()) })
	return way{"ours", func(ctx context.Context, key string) (*held, error) {
		l, err := client.Mutex(strings.ReplaceAll(key, "/", ":")).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return &held{l.Unlock, l.Context().Done(), l.Token()}, nil
	}}
}

func redisClient(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: mostWorkers})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func redisLock(tb testing.TB, addr string, poll time.Duration) way {
	tb.Helper()
	client := redislock.New(redisClient(tb, addr))
	return way{fmt.Sprint("redislock-", poll), func(ctx context.Context, key string) (*held, error) {
		l, err := client.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll)})
		if err != nil {
			return nil, err
		}
		return &held{unlock: l.Release}, nil
	}}
}

func redSync(tb testing.TB, addr string, options ...redsync.Option) way {
	tb.Helper()
	rs := redsync.New(goredis.NewPool(redisClient(tb, addr)))
	options = append([]redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(1_000_000)}, options...)
	return way{"redsync", func(ctx context.Context, key string) (*held, error) {
		m := rs.NewMutex(key, options...)
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return &held{unlock: func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}}, nil
	}}
}
