package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// lockTiming is that of all players of locks: the shortest there is.
var lockTiming = lease.Timing{TTL: lease.MinTTL}

func lockGrace(t *testing.T) time.Duration {
	t.Helper()
	timing, err := lockTiming.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return timing.Grace
}

// The locks that are played for.
const (
	mutexName   = "one/mutex"
	rwMutexName = "one/rwmutex"
)

// playedLock is a lock while it is held, a [locks.Lock] or a broken one.
type playedLock interface {
	Context() context.Context
	Token() uint64
	Trusted() bool
	Unlock(ctx context.Context) error
}

// takeLock waits for the lock of that name.
type takeLock func(ctx context.Context, name string, read bool) (playedLock, error)

func lockOf(client *locks.Client) takeLock {
	mutex, rw := client.Mutex(mutexName), client.RWMutex(rwMutexName)
	return func(ctx context.Context, name string, read bool) (playedLock, error) {
		take := mutex.Lock
		switch {
		case name == rwMutexName && read:
			take = rw.RLock
		case name == rwMutexName:
			take = rw.Lock
		}
		lock, err := take(ctx)
		if err != nil {
			return nil, err
		}
		return lock, nil
	}
}

// lockPlayer is the workers of one process, which take locks again and again and
// report it.
type lockPlayer struct {
	take takeLock
	now  func() int64
	// say has delivered the event when it returns, even if the process is killed
	// then. Like now, it is safe for concurrent use.
	say    func(lockEvent) error
	finish context.Context // ended: take no more locks
	quiet  context.Context // ended: hold none for long, and do not rest
}

// work is one of so many workers. The first half of them is at the mutex.
func (p *lockPlayer) work(worker, workers int, random *rand.Rand) error {
	for p.finish.Err() == nil {
		name, read := mutexName, false
		if worker >= workers/2 {
			name, read = rwMutexName, random.IntN(10) < 7
		}
		if err := p.play(worker, name, read, random); err != nil {
			return err
		}
		// In one second there is always a long line, in the next one a lock is
		// free now and then, and several come for it at once.
		if p.now()/int64(time.Second)%2 == 0 {
			idle(p.quiet, time.Duration(random.IntN(2000))*time.Millisecond)
		}
	}
	return nil
}

// usualSteps is how often the holder of a lock says that it still is, at most;
// a few do so for longer.
const usualSteps = 3

// play takes a lock once. An error is one of saying so.
func (p *lockPlayer) play(worker int, name string, read bool, random *rand.Rand) error {
	ctx := context.Background()
	if err := p.say(lockEvent{What: lockCalled, Worker: worker, At: p.now(), Lock: name, Read: read}); err != nil {
		return err
	}
	lock, err := p.take(ctx, name, read)
	if err != nil {
		return p.say(lockEvent{What: lockFailed, Worker: worker, At: p.now(), Error: err.Error()})
	}
	// First the clock, then the question: what is trusted now was so then.
	at := p.now()
	if err := p.say(lockEvent{What: lockGot, Worker: worker, At: at, Token: lock.Token(), Trusted: lock.Trusted()}); err != nil {
		return err
	}
	steps := 1 + random.IntN(usualSteps)
	if random.IntN(24) == 0 {
		steps = 40 // long enough to be killed in
	}
	for range steps {
		idle(lock.Context(), time.Duration(random.IntN(4000))*time.Microsecond)
		at := p.now()
		if !lock.Trusted() || p.quiet.Err() != nil {
			break
		}
		if err := p.say(lockEvent{What: lockKept, Worker: worker, At: at, Trusted: true}); err != nil {
			return err
		}
	}
	at = p.now()
	if err := p.say(lockEvent{What: lockUnlock, Worker: worker, At: at, Trusted: lock.Trusted()}); err != nil {
		return err
	}
	done := lockEvent{What: lockUnlocked, Worker: worker}
	if err := lock.Unlock(ctx); err != nil {
		done.Error = err.Error()
	}
	done.At = p.now()
	return p.say(done)
}

// idle waits that long, or until ctx ends.
func idle(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lockPlayerVariable makes the test program a player of locks, as its value
// says.
const lockPlayerVariable = "CRONLEASE_TEST_LOCK_PLAYER"

// lockRole is the value of lockPlayerVariable, in JSON.
type lockRole struct {
	Kind    string // of the database
	DSN     string // or the file's path
	Workers int
	Seed    uint64
}

// playLocks plays the role that text is.
func playLocks(text string) error {
	var role lockRole
	if err := json.Unmarshal([]byte(text), &role); err != nil {
		return err
	}
	return role.play()
}

// lockStore is a store for locks that can be closed.
type lockStore interface {
	store.Locks
	Migrate(ctx context.Context) error
	Close() error
}

func (r lockRole) open() (lockStore, error) {
	if r.Kind == workertest.SQLite {
		return sqlitestore.Open(r.DSN)
	}
	return mysqlstore.Open(r.DSN)
}

// play takes locks until its standard input ends; a line of it asks for quiet.
// Each event is one write to standard output, which is a pipe: it is read by
// the test even if the process is killed the instant after.
func (r lockRole) play() error {
	store, err := r.open()
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := locks.New(store, locks.WithTiming(lockTiming))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	finish, stop := context.WithCancel(context.Background())
	quiet, calm := context.WithCancel(finish)
	player := &lockPlayer{take: lockOf(client), now: monotonic, finish: finish, quiet: quiet, say: func(e lockEvent) error {
		mu.Lock()
		defer mu.Unlock()
		return out.Encode(e)
	}}
	errs := make([]error, r.Workers)
	var group sync.WaitGroup
	for w := range r.Workers {
		group.Go(func() { errs[w] = player.work(w, r.Workers, rand.New(rand.NewPCG(r.Seed, uint64(w)))) })
	}
	lines := bufio.NewScanner(os.Stdin)
	_ = lines.Scan()
	calm()
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	group.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), workertest.Patience)
	defer cancel()
	return errors.Join(append(errs, client.Close(ctx))...)
}
