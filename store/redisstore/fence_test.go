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

// After any of these, EXEC would not look at the fence any more, or be sent on a changed connection: they are refused,
// and nothing is stored, even if the function does not look at their errors.
func TestDoKeepsItsWatch(t *testing.T) {
	t.Parallel()
	server := start(t)
	b := newBench(t, server.Addr())
	ctx := b.Context()
	seen := func(p redis.Pipeliner) error { return p.Incr(ctx, b.name+":seen").Err() }
	raw := func(args ...any) func(*redis.Tx, redis.Pipeliner) error {
		return func(tx *redis.Tx, _ redis.Pipeliner) error { return tx.Process(ctx, redis.NewCmd(ctx, args...)) }
	}
	for name, test := range map[string]struct {
		do   func(tx *redis.Tx, queue redis.Pipeliner) error
		says string
	}{
		"TxPipelined": {func(tx *redis.Tx, _ redis.Pipeliner) error { _, err := tx.TxPipelined(ctx, seen); return err }, "TxPipelined"},
		"Exec of a TxPipeline": {func(tx *redis.Tx, _ redis.Pipeliner) error {
			p := tx.TxPipeline()
			n := p.Incr(ctx, b.name+":seen")
			if _, err := p.Exec(ctx); n.Err() == nil {
				t.Errorf("a command of a transaction that was refused (%v) looks executed", err)
			}
			return n.Err()
		}, "write through queue"},
		"a pipeline": {func(tx *redis.Tx, _ redis.Pipeliner) error {
			p := tx.Pipeline()
			p.Do(ctx, "Multi")
			p.Do(ctx, "Exec")
			_, err := p.Exec(ctx)
			return err
		}, "MULTI"},
		"the queue's Exec":      {func(_ *redis.Tx, queue redis.Pipeliner) error { _, err := queue.Exec(ctx); return err }, "queue.Exec"},
		"the queue's Pipelined": {func(_ *redis.Tx, queue redis.Pipeliner) error { _, err := queue.TxPipelined(ctx, seen); return err }, "MULTI"},
		"Unwatch":               {func(tx *redis.Tx, _ redis.Pipeliner) error { return tx.Unwatch(ctx).Err() }, "UNWATCH"},
		"Select":                {func(tx *redis.Tx, _ redis.Pipeliner) error { return tx.Select(ctx, 1).Err() }, "SELECT"},
		"raw":                   {raw("discard"), "DISCARD"},
		"raw SWAPDB":            {raw("SwapDB", 0, 1), "SWAPDB"},
		"SWAPDB in a pipeline": {func(tx *redis.Tx, _ redis.Pipeliner) error {
			p := tx.Pipeline()
			p.SwapDB(ctx, 0, 1)
			_, err := p.Exec(ctx)
			return err
		}, "SWAPDB"},
	} {
		for _, ignored := range []bool{false, true} {
			old := b.term()
			err := b.Do(old, func(tx *redis.Tx, queue redis.Pipeliner) error {
				err := test.do(tx, queue)
				if err == nil {
					t.Errorf("%s: no error", name)
				}
				b.take("bob")
				if ignored {
					err = nil
				}
				return errors.Join(err, b.add(tx, queue))
			})
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), " changes the connection") {
				t.Errorf("%s, ignored %t: %v", name, ignored, err)
			}
		}
	}
	for says, change := range map[string]func(redis.Pipeliner){
		"Discard":                       func(queue redis.Pipeliner) { queue.Discard() },
		"SWAPDB changes the connection": func(queue redis.Pipeliner) { queue.Do(ctx, []byte("SWAPDB"), 0, 1) },
	} {
		err := b.Do(b.term(), func(tx *redis.Tx, queue redis.Pipeliner) error {
			change(queue)
			return b.add(tx, queue)
		})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	b.stored(0)
	if n := b.client.Exists(ctx, b.name+":seen").Val(); n != 0 {
		t.Error("a transaction that was refused is stored")
	}
	// A connection that comes back after a panic has no WATCH left, which would let the next transaction fail.
	func() {
		defer func() { _ = recover() }()
		_ = b.Do(b.term(), func(*redis.Tx, redis.Pipeliner) error { panic("a fault of the function") })
	}()
	b.take("bob")
	calls := 0
	// Reading in one go, and further keys to watch, are not refused.
	b.ok(b.Do(b.term(), func(tx *redis.Tx, queue redis.Pipeliner) error {
		calls++
		b.ok(tx.Watch(ctx, b.name+":other").Err())
		_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error { p.Exists(ctx, b.name+":seen"); return nil })
		return errors.Join(err, b.add(tx, queue))
	}))
	if calls != 1 {
		t.Errorf("%d calls after a panic", calls)
	}
	b.stored(1)
}
