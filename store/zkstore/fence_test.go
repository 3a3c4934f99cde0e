package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/zkstore"
)

// fenced is a bench with nodes of its own, and a client of its own that reads them.
type fenced struct {
	*bench
	client *zk.Conn
	root   string
}

func newFenced(t testing.TB, addr string) *fenced {
	t.Helper()
	name := fmt.Sprintf("/fenced%d", names.Add(1))
	f := &fenced{bench: newBench(t, addr, name), client: dial(t, shared.Addr()), root: name + "-effects"}
	_, err := f.client.Create(f.root, nil, 0, zk.WorldACL(zk.PermAll))
	f.ok(err)
	return f
}

func dial(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	client, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// term is the context of the present term's work.
func (f *fenced) term() context.Context {
	return lease.WithHold(f.Context(), lease.Hold{Store: f.Store, Name: "group", Owner: f.h.Owner, Token: f.h.Token})
}

// add queues an effect: a node, and its number in the data of the one above.
func (f *fenced) add(tx *zkstore.Tx) error {
	data, stat, err := tx.Get(f.Context(), f.root)
	if err != nil {
		return err
	}
	tx.Queue(&zk.SetDataRequest{Path: f.root, Data: append(data, 'x'), Version: stat.Version})
	tx.Queue(&zk.CreateRequest{Path: f.root + "/effect-", Flags: zk.FlagSequence})
	return nil
}

// stored checks how many effects there are.
func (f *fenced) stored(want int) {
	f.Helper()
	_, err := f.client.Sync(f.root)
	f.ok(err)
	data, _, err := f.client.Get(f.root)
	f.ok(err)
	children, _, err := f.client.Children(f.root)
	f.ok(err)
	if len(data) != want || len(children) != want {
		f.Errorf("%d effects, and %d nodes, want %d", len(data), len(children), want)
	}
}

func TestDoStoresUnderTheTerm(t *testing.T) {
	t.Parallel()
	f := newFenced(t, shared.Addr())
	old := f.term()
	f.ok(f.Do(old, f.add))
	f.stored(1)
	beat, err := f.Beat(t.Context(), "alice", 2, store.Renewal{Group: "group", Token: f.h.Token, Heartbeat: 1}, 0)
	f.ok(err)
	if !beat.Renewed {
		t.Fatalf("the heartbeat: %+v", beat)
	}
	f.ok(f.Do(old, func(tx *zkstore.Tx) error {
		_, err := f.Beat(t.Context(), "alice", 3, store.Renewal{Group: "group", Token: f.h.Token, Heartbeat: 2}, 0)
		return errors.Join(err, f.add(tx))
	}))
	f.stored(2)
	mine := errors.New("mine")
	if err := f.Do(old, func(tx *zkstore.Tx) error { return errors.Join(f.add(tx), mine) }); !errors.Is(err, mine) {
		t.Errorf("an error of the function: %v", err)
	}
	if err := f.Do(t.Context(), f.add); !errors.Is(err, zkstore.ErrNoHold) {
		t.Errorf("without a hold: %v", err)
	}
	other := open(t, shared.Addr(), "/elsewhere")
	if err := other.Do(old, f.add); err == nil || !strings.Contains(err.Error(), "another store") {
		t.Errorf("on another store: %v", err)
	}
	gone := lease.WithHold(t.Context(), lease.Hold{Store: f.Store, Name: "group", Owner: f.h.Owner, Token: f.h.Token, Trusted: func() bool { return false }})
	if err := f.Do(gone, f.add); !errors.Is(err, zkstore.ErrFenced) {
		t.Errorf("of a term that does not trust its lease: %v", err)
	}
	ended, cancel := context.WithCancel(old)
	cancel()
	if err := f.Do(ended, f.add); !errors.Is(err, context.Canceled) || errors.Is(err, zkstore.ErrFenced) {
		t.Errorf("of a context that has ended: %v", err)
	}
	f.take("bob")
	if err := f.Do(old, f.add); !errors.Is(err, zkstore.ErrFenced) {
		t.Errorf("of a replaced term: %v", err)
	}
	f.stored(2)
	f.ok(f.Do(f.term(), f.add))
	f.stored(3)
}

// Whatever happens between the check and the transaction, a replaced term stores nothing: also where the fence's node
// was created anew, and so has the version that it had in the term before.
func TestDoDuringATakeover(t *testing.T) {
	t.Parallel()
	remove := func(lease, fence bool) func(f *fenced) {
		return func(f *fenced) {
			f.ok(zkstore.Update(f.Store, "group", func(l *store.Lease, is *store.Fence) (*store.Lease, *store.Fence) {
				if lease {
					l = nil
				}
				if fence {
					is = nil
				}
				return l, is
			}))
		}
	}
	takeover := func(f *fenced) { f.take("bob") }
	for name, changes := range map[string][]func(*fenced){
		"a takeover":                       {takeover},
		"a takeover by the same owner":     {func(f *fenced) { f.take("alice") }},
		"a deleted fence":                  {remove(false, true)},
		"a deleted fence and a takeover":   {remove(false, true), takeover},
		"a deleted lease and a takeover":   {remove(true, false), takeover},
		"nodes of a group that is deleted": {remove(true, true)},
		"a group that is begun anew":       {remove(true, true), takeover},
	} {
		f := newFenced(t, shared.Addr())
		calls := 0
		err := f.Do(f.term(), func(tx *zkstore.Tx) error {
			if calls++; calls == 1 {
				for _, change := range changes {
					change(f)
				}
			}
			return f.add(tx)
		})
		if !errors.Is(err, zkstore.ErrFenced) || calls != 1 {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
		f.stored(0)
	}
	// Without its lease, a term that nobody has replaced is not fenced: its fence is there.
	f := newFenced(t, shared.Addr())
	remove(true, false)(f)
	f.ok(f.Do(f.term(), f.add))
	f.stored(1)
}

// A transaction of a replaced holder that was sent before the takeover, and arrives after it, stores nothing.
func TestDoThatIsLate(t *testing.T) {
	t.Parallel()
	servers := start(t, 1)
	zombie := &bench{TB: t, Store: openQuick(t, servers)}
	zombie.take("alice")
	ctx := lease.WithHold(t.Context(), lease.Hold{Store: zombie.Store, Name: "group", Owner: zombie.h.Owner, Token: zombie.h.Token})
	next := &bench{TB: t, Store: openQuick(t, servers)}
	next.reading()
	ended := make(chan error, 1)
	woken := make(chan struct{})
	go func() {
		ended <- zombie.Do(ctx, func(tx *zkstore.Tx) error {
			tx.Queue(&zk.CreateRequest{Path: "/late"})
			close(woken)
			<-time.After(3 * time.Second) // longer than its session lives
			return nil
		})
	}()
	<-woken
	next.take("bob")
	if err := <-ended; !errors.Is(err, zkstore.ErrFenced) {
		t.Errorf("Do after the takeover: %v", err)
	}
	client := dial(t, servers[0].Addr())
	if there, _, err := client.Exists("/late"); err != nil || there {
		t.Errorf("the node of a replaced holder is there: %t, %v", there, err)
	}
}

// The ensemble refuses a transaction as a whole, with the reason.
func TestDoThatIsRefused(t *testing.T) {
	t.Parallel()
	f := newFenced(t, shared.Addr())
	for want, op := range map[error]any{
		zk.ErrNodeExists: &zk.CreateRequest{Path: f.root},
		zk.ErrNoNode:     &zk.SetDataRequest{Path: f.root + "/none", Version: -1},
		zk.ErrBadVersion: &zk.CheckVersionRequest{Path: f.root, Version: 99},
		zk.ErrNotEmpty:   &zk.DeleteRequest{Path: f.root, Version: -1},
	} {
		err := f.Do(f.term(), func(tx *zkstore.Tx) error {
			err := f.add(tx)
			tx.Queue(op)
			return err
		})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), f.root) || errors.Is(err, zkstore.ErrUnknown) || errors.Is(err, zkstore.ErrFenced) {
			t.Errorf("%T: %v", op, err)
		}
		f.stored(0)
	}
	err := f.Do(f.term(), func(tx *zkstore.Tx) error {
		tx.Queue(&zk.SetDataRequest{Path: f.root, Data: make([]byte, 1<<20), Version: -1})
		return nil
	})
	if err == nil || errors.Is(err, zkstore.ErrUnknown) {
		t.Errorf("one that is too large: %v", err)
	}
	if err := f.Do(f.term(), func(tx *zkstore.Tx) error { tx.Queue("text"); return nil }); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("what is no operation: %v", err)
	}
	if err := f.Do(f.term(), func(tx *zkstore.Tx) error { _, _, err := tx.Get(t.Context(), "/none"); return err }); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("a node that is not there: %v", err)
	}
	f.stored(0)
	// What another has changed since it was read is refused, too.
	err = f.Do(f.term(), func(tx *zkstore.Tx) error {
		err := f.add(tx)
		_, errSet := f.client.Set(f.root, nil, -1)
		return errors.Join(err, errSet)
	})
	if !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("what has changed since it was read: %v", err)
	}
	f.stored(0)
	f.ok(f.Do(f.term(), f.add))
	f.stored(1)
}

// Nodes of a store with a user are for that user alone, and so are those that its jobs create.
func TestDoCreatesWithTheACL(t *testing.T) {
	t.Parallel()
	f := newFenced(t, "plain:secret@"+shared.Addr())
	f.ok(f.Do(f.term(), func(tx *zkstore.Tx) error {
		tx.Queue(&zk.CreateRequest{Path: f.root + "/mine"}, &zk.CreateRequest{Path: f.root + "/all", Acl: zk.WorldACL(zk.PermAll)})
		names, err := tx.Children(t.Context(), f.root)
		if len(names) != 0 {
			t.Errorf("what is queued is there: %q", names)
		}
		return err
	}))
	if _, _, err := f.client.Get(f.root + "/mine"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another user reads it: %v", err)
	}
	_, _, err := f.client.Get(f.root + "/all")
	f.ok(err)
}

// A lost session lets the function be called again: the next one may begin at a server that is behind.
func TestDoOverSessions(t *testing.T) {
	t.Parallel()
	servers := start(t, 1)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.take("alice")
	ctx := lease.WithHold(t.Context(), lease.Hold{Store: b.Store, Name: "group", Owner: b.h.Owner, Token: b.h.Token})
	calls := 0
	err := b.Do(ctx, func(tx *zkstore.Tx) error {
		if calls++; calls == 1 {
			b.ok(servers[0].Kill())
			<-time.After(3 * time.Second) // longer than a session lives
			b.ok(servers[0].Start(ctx))
			<-time.After(3 * time.Second) // one that did not come back has expired
		}
		for {
			_, _, err := tx.Get(ctx, "/zookeeper")
			if err == nil || !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) {
				tx.Queue(&zk.CreateRequest{Path: fmt.Sprint("/call", calls)})
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, servers[0].Addr())
	if there, _, err := client.Exists(fmt.Sprint("/call", calls)); err != nil || !there {
		t.Errorf("the last call of %d stored nothing: %v", calls, err)
	}
	t.Logf("%d calls", calls)
}

// An answer that is lost leaves the outcome unknown.
func TestDoWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	servers := start(t, 1)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.take("alice")
	ctx := lease.WithHold(t.Context(), lease.Hold{Store: b.Store, Name: "group", Owner: b.h.Owner, Token: b.h.Token})
	short, cancel := context.WithCancel(ctx)
	err := b.Do(short, func(tx *zkstore.Tx) error {
		tx.Queue(&zk.CreateRequest{Path: "/unknown"})
		b.ok(servers[0].Pause())
		time.AfterFunc(200*time.Millisecond, cancel)
		return nil
	})
	if !errors.Is(err, zkstore.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("Do: %v", err)
	}
	b.ok(servers[0].Resume())
	client := dial(t, servers[0].Addr())
	b.eventually("the node", func(context.Context) error {
		there, _, err := client.Exists("/unknown")
		if err == nil && !there {
			err = zk.ErrNoNode
		}
		return err
	})
}

// A lock that has passed on fences too, and one for which others have begun to wait does not.
// endsAfterALook is a context that ends when it has been looked at.
type endsAfterALook struct {
	context.Context
	looked atomic.Bool
}

func (c *endsAfterALook) Err() error {
	if c.looked.Swap(true) {
		return context.Canceled
	}
	return nil
}

func (*endsAfterALook) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// The context ends when the transaction is about to be sent: an error that is not ErrUnknown says that it never is.
func TestDoThatEndsBeforeItIsSent(t *testing.T) {
	t.Parallel()
	f := newFenced(t, shared.Addr())
	never := map[string]bool{}
	for i := range 300 {
		name := fmt.Sprint("node", i)
		err := f.CarryOut(&endsAfterALook{Context: t.Context()}, &zk.CreateRequest{Path: f.root + "/" + name, Acl: zk.WorldACL(zk.PermAll)})
		never[name] = err != nil && !errors.Is(err, zkstore.ErrUnknown)
	}
	f.ok(f.Close()) // it waits for what is under way
	nodes, _, err := f.client.Children(f.root)
	f.ok(err)
	for _, name := range nodes {
		if never[name] {
			t.Errorf("%s is there", name)
		}
	}
}

func TestDoUnderALock(t *testing.T) {
	t.Parallel()
	f := newFenced(t, shared.Addr())
	ctx := t.Context()
	client, err := locks.New(f.Store)
	f.ok(err)
	defer func() { f.ok(client.Close(context.WithoutCancel(ctx))) }()
	l, err := client.Mutex("stock").Lock(ctx)
	f.ok(err)
	waited := make(chan error, 1)
	waiter, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	queue := func() string {
		r, err := f.ReadLocks(ctx, "stock")
		f.ok(err)
		return string(r.Rows[0].Queue)
	}
	calls := 0
	f.ok(f.Do(l.Context(), func(tx *zkstore.Tx) error {
		if calls++; calls == 1 {
			was := queue()
			go func() {
				next, err := client.Mutex("stock").Lock(waiter)
				if err == nil {
					err = next.Unlock(ctx)
				}
				waited <- err
			}()
			for queue() == was && waiter.Err() == nil {
				<-time.After(time.Millisecond)
			}
		}
		return f.add(tx)
	}))
	f.stored(1)
	if calls != 2 {
		t.Errorf("%d calls while another began to wait", calls)
	}
	held := lease.WithHold(ctx, lease.Holds(l.Context())...)
	f.ok(l.Unlock(ctx))
	f.ok(<-waited)
	if err := f.Do(held, f.add); !errors.Is(err, zkstore.ErrFenced) {
		t.Errorf("under a lock that was given back: %v", err)
	}
	f.stored(1)
}

// A lock's row that was pruned and begun anew has the version that it had, and fences all the same.
func TestDoUnderALockThatWasPruned(t *testing.T) {
	t.Parallel()
	f := newFenced(t, shared.Addr())
	ctx := t.Context()
	r, err := f.ReadLocks(ctx, "stock")
	f.ok(err)
	mark := []byte("mark of the holder")
	write := func(expect, version uint64, queue []byte) {
		t.Helper()
		done, err := f.WriteLocks(ctx, r.Server, []store.LockWrite{{Name: "stock", Expect: expect, Version: version, Queue: queue}})
		f.ok(err)
		if !done[0] {
			t.Fatalf("version %d was not written", version)
		}
	}
	write(0, 1, mark)
	hold := lease.Hold{Store: f.Store, Kind: lease.HoldLock, Name: "stock", Token: 1, Mark: mark}
	err = f.Do(lease.WithHold(ctx, hold), func(tx *zkstore.Tx) error {
		write(1, 2, nil)
		<-time.After(10 * time.Millisecond)
		if n, err := f.PruneLocks(ctx, 0, 10); err != nil || n != 1 {
			t.Errorf("pruned %d locks: %v", n, err)
		}
		write(0, 3, []byte("mark of another"))
		return f.add(tx)
	})
	if !errors.Is(err, zkstore.ErrFenced) {
		t.Errorf("Do: %v", err)
	}
	f.stored(0)
}

// Runs of other jobs change the ledger all the time. What a run stores has to be done once, all the same, and no more once
// the run is over.
func TestDoOfARunBesideOthers(t *testing.T) {
	t.Parallel()
	f := newFenced(t, shared.Addr())
	one, err := scheduler.New(f.Store, "spread", scheduler.WithSpread())
	f.ok(err)
	group, calls, errs := jobs.NewGroup(f.Store, "spread"), 0, make(chan error, 1)
	trigger := func(ctx context.Context, job string) {
		for {
			if _, err := group.Trigger(ctx, job); !errors.Is(err, jobs.ErrNoJob) {
				f.ok(err)
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	works, ends := make(chan context.Context, 1), make(chan error, 2)
	f.ok(one.Add(jobs.Job{Name: "other", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, Do: func(context.Context, jobs.Run) error { return nil }}))
	f.ok(one.Add(jobs.Job{Name: "fenced", Schedule: jobs.Manual(), Do: func(ctx context.Context, _ jobs.Run) error {
		works <- context.WithoutCancel(ctx)
		err := f.Do(ctx, func(tx *zkstore.Tx) error {
			calls++
			trigger(ctx, "other")
			return f.add(tx)
		})
		ends <- err
		return err
	}}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { errs <- one.Run(ctx) }()
	trigger(ctx, "fenced")
	first := <-works
	trigger(ctx, "fenced")
	<-works // the first is over
	f.ok(<-ends)
	f.ok(<-ends)
	if calls != 2 {
		t.Errorf("fn was called %d times in two runs", calls)
	}
	if err := f.Do(first, f.add); !errors.Is(err, zkstore.ErrFenced) || !strings.Contains(err.Error(), `job "fenced" of group "spread"`) {
		t.Errorf("a transaction of a run that is over: %v", err)
	}
	cancel()
	f.ok(<-errs)
}
