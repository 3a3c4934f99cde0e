package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/redisstore"
)

// term is the context of the present term's work.
func (b *bench) term() context.Context {
	return lease.WithHold(b.Context(), lease.Hold{Store: b.Store, Name: "group", Owner: b.h.Owner, Token: b.h.Token})
}

// add queues an effect.
func (b *bench) add(_ *redis.Tx, queue redis.Pipeliner) error {
	queue.Incr(context.Background(), b.name+":effects")
	queue.RPush(context.Background(), b.name+":list", "effect")
	return nil
}

// stored checks how many effects there are.
func (b *bench) stored(want int) {
	b.Helper()
	ctx := b.Context()
	n, err := b.client.Get(ctx, b.name+":effects").Int()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	b.ok(err)
	if l := b.client.LLen(ctx, b.name+":list").Val(); n != want || l != int64(want) {
		b.Errorf("%d effects, and %d in the list, want %d", n, l, want)
	}
}

func TestDoStoresUnderTheTerm(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	old := b.term()
	var n *redis.IntCmd
	b.ok(b.Do(old, func(tx *redis.Tx, queue redis.Pipeliner) error {
		n = queue.Incr(old, b.name+":n")
		queue.Get(old, b.name+":missing") // an answer, and no failure
		return b.add(tx, queue)
	}))
	if n.Val() != 1 {
		t.Errorf("the answer is %d", n.Val())
	}
	b.stored(1)
	mine := errors.New("mine")
	if err := b.Do(old, func(tx *redis.Tx, queue redis.Pipeliner) error { return errors.Join(b.add(tx, queue), mine) }); !errors.Is(err, mine) {
		t.Errorf("an error of the function: %v", err)
	}
	if err := b.Do(t.Context(), b.add); !errors.Is(err, redisstore.ErrNoHold) {
		t.Errorf("without a hold: %v", err)
	}
	other := open(t, shared.Addr(), b.name)
	if err := other.Do(old, b.add); err == nil || !strings.Contains(err.Error(), "another store") {
		t.Errorf("on another store: %v", err)
	}
	gone := lease.WithHold(t.Context(), lease.Hold{Store: b.Store, Name: "group", Owner: b.h.Owner, Token: b.h.Token, Trusted: func() bool { return false }})
	if err := b.Do(gone, b.add); !errors.Is(err, redisstore.ErrFenced) {
		t.Errorf("of a term that does not trust its lease: %v", err)
	}
	ended, cancel := context.WithCancel(old)
	cancel()
	if err := b.Do(ended, b.add); !errors.Is(err, context.Canceled) || errors.Is(err, redisstore.ErrFenced) {
		t.Errorf("of a context that has ended: %v", err)
	}
	b.take("bob")
	if err := b.Do(old, b.add); !errors.Is(err, redisstore.ErrFenced) {
		t.Errorf("of a replaced term: %v", err)
	}
	b.stored(1)
	b.ok(b.Do(b.term(), b.add))
	b.stored(2)
}

// Whatever happens between the check and EXEC, a replaced term stores nothing.
func TestDoDuringATakeover(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bench){
		"a takeover":                   func(b *bench) { b.take("bob") },
		"a takeover by the same owner": func(b *bench) { b.take("alice") },
		"a deleted fence":              func(b *bench) { b.ok(b.client.Del(b.Context(), b.name+":fence:group").Err()) },
	} {
		b := newBench(t, shared.Addr())
		calls := 0
		err := b.Do(b.term(), func(tx *redis.Tx, queue redis.Pipeliner) error {
			if calls++; calls == 1 {
				change(b)
			}
			return b.add(tx, queue)
		})
		if !errors.Is(err, redisstore.ErrFenced) || calls != 1 {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
		b.stored(0)
	}
}

// A connection that is lost takes its WATCH along: the transaction goes nowhere else.
func TestDoOnALostConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	err := b.Do(b.term(), func(tx *redis.Tx, queue redis.Pipeliner) error {
		b.ok(b.client.ClientKillByFilter(b.Context(), "ID", strconv.FormatInt(tx.ClientID(b.Context()).Val(), 10)).Err())
		b.take("bob")
		return b.add(tx, queue)
	})
	if err == nil {
		t.Error("stored over a lost connection")
	}
	b.stored(0)
}

// A watched key that changes lets the function be called again, which then sees the change.
func TestDoBeginsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	key, calls := b.name+":mine", 0
	b.ok(b.Do(b.term(), func(tx *redis.Tx, queue redis.Pipeliner) error {
		was, err := tx.Get(b.Context(), key).Result()
		if calls++; calls == 1 {
			b.ok(b.client.Set(b.Context(), key, "changed", 0).Err())
		} else if err != nil || was != "changed" {
			t.Errorf("call %d reads %q: %v", calls, was, err)
		}
		return b.add(tx, queue)
	}, key))
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	b.stored(1)
}

// The server refuses a transaction as a whole, with the reason, and says when a command of it has failed.
func TestDoThatIsRefused(t *testing.T) {
	t.Parallel()
	server := start(t)
	b := newBench(t, server.Addr())
	ctx := t.Context()
	for _, setting := range [][3]string{{"maxmemory", "100kb", "0"}, {"min-replicas-to-write", "1", "0"}} {
		b.ok(b.client.ConfigSet(ctx, setting[0], setting[1]).Err())
		err := b.Do(b.term(), b.add)
		if !errors.Is(err, lease.ErrNotReady) || errors.Is(err, redisstore.ErrUnknown) || errors.Is(err, redisstore.ErrHalf) {
			t.Errorf("%s: %v", setting[0], err)
		}
		b.ok(b.client.ConfigSet(ctx, setting[0], setting[2]).Err())
		b.stored(0)
	}
	b.ok(b.client.Set(ctx, b.name+":text", "text", 0).Err())
	err := b.Do(b.term(), func(tx *redis.Tx, queue redis.Pipeliner) error {
		queue.RPush(ctx, b.name+":text", "effect")
		return b.add(tx, queue)
	})
	if !errors.Is(err, redisstore.ErrHalf) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a command that fails: %v", err)
	}
	b.stored(1)
}

// An answer that is lost leaves the outcome unknown.
func TestDoWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, lose := range []struct {
		message func(*dbtest.Proxy, string) <-chan struct{}
		stored  int
	}{{(*dbtest.Proxy).DropRequest, 0}, {(*dbtest.Proxy).DropReply, 1}} {
		proxy := dbtest.NewRedisProxy(t, shared.Addr())
		b := newBench(t, proxy.Addr())
		lose.message(proxy, "exec")
		if err := b.Do(b.term(), b.add); !errors.Is(err, redisstore.ErrUnknown) {
			t.Errorf("Do: %v", err)
		}
		b.stored(lose.stored)
	}
}

// A lock that has passed on fences too, and one for which others have begun to wait does not.
func TestDoUnderALock(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := t.Context()
	client, err := locks.New(b.Store)
	b.ok(err)
	defer func() { b.ok(client.Close(context.WithoutCancel(ctx))) }()
	l, err := client.Mutex("stock").Lock(ctx)
	b.ok(err)
	waited := make(chan error, 1)
	waiter, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	calls := 0
	b.ok(b.Do(l.Context(), func(tx *redis.Tx, queue redis.Pipeliner) error {
		if calls++; calls == 1 {
			was := b.client.Get(ctx, b.name+":lock:stock").Val()
			go func() {
				next, err := client.Mutex("stock").Lock(waiter)
				if err == nil {
					err = next.Unlock(ctx)
				}
				waited <- err
			}()
			for b.client.Get(ctx, b.name+":lock:stock").Val() == was && waiter.Err() == nil {
				<-time.After(time.Millisecond)
			}
		}
		return b.add(tx, queue)
	}))
	b.stored(1)
	if calls != 2 {
		t.Errorf("%d calls while another began to wait", calls)
	}
	held := lease.WithHold(ctx, lease.Holds(l.Context())...)
	b.ok(l.Unlock(ctx))
	b.ok(<-waited)
	if err := b.Do(held, b.add); !errors.Is(err, redisstore.ErrFenced) {
		t.Errorf("under a lock that was given back: %v", err)
	}
	b.stored(1)
}

// A connection of the store stays in its database: on another one, the store would find its lease gone.
func TestDoKeepsTheConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	ctx := b.term()
	for name, change := range map[string]func(redis.Pipeliner){
		"SELECT": func(queue redis.Pipeliner) { queue.Select(ctx, 1) },
		"CLIENT": func(queue redis.Pipeliner) { queue.Do(ctx, "Client", "id") },
		// After these, what follows would be stored without the transaction.
		"DISCARD":   func(queue redis.Pipeliner) { queue.Do(ctx, "DISCARD") },
		"EXEC":      func(queue redis.Pipeliner) { queue.Do(ctx, "EXEC") },
		"MULTI":     func(queue redis.Pipeliner) { queue.Do(ctx, "MULTI") },
		"SUBSCRIBE": func(queue redis.Pipeliner) { queue.Do(ctx, "SUBSCRIBE", "news") },
	} {
		err := b.Do(ctx, func(tx *redis.Tx, queue redis.Pipeliner) error {
			change(queue)
			return b.add(tx, queue)
		})
		if err == nil || !strings.Contains(err.Error(), name+" changes the connection") {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.stored(0)
	if rs, err := b.Read(t.Context(), "group"); err != nil || rs[0].Lease == nil {
		t.Errorf("the lease afterwards: %v, %v", rs, err)
	}
}
