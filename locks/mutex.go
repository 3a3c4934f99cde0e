package locks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Mutex is an exclusive lock, shared by all processes that use the same database.
// It is only a handle: making one costs nothing, and two with the same name are
// the same lock. It is safe for concurrent use.
type Mutex struct {
	client  *Client
	name    string
	options options
}

// A LockOption changes how a [Mutex] or [RWMutex] is locked.
type LockOption func(*options)

// MaxLabel is the largest length of a [Label], in bytes.
const MaxLabel = 128

// Label is shown by [Client.Inspect] beside the owner, to tell which part of a
// program holds the lock. It has up to [MaxLabel] bytes; with a longer one, Lock returns
// an error. A lock's row keeps up to 16 KiB of labels: those that come later are shown without theirs.
func Label(text string) LockOption { return func(o *options) { o.label = text } }

// Reentrant lets the holder lock again, with the [Lock.Context] of the first lock;
// the returned lock is nested in the first. Without it, locking again returns
// [ErrNested], because it usually is a mistake.
func Reentrant() LockOption { return func(o *options) { o.reentrant = true } }

// Mutex returns the mutex of that name: up to 128 letters, digits and
// . _ : / @ + -, the first a letter or a digit. With an invalid name, Lock returns
// an error. A Mutex and an [RWMutex] with the same name are the same lock.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{c, name, combine(opts)}
}

func combine(opts []LockOption) options {
	var o options
	for i, option := range opts {
		if option == nil {
			o.invalid = fmt.Errorf("locks: option %d of %d is nil", i+1, len(opts))
			continue
		}
		option(&o)
	}
	return o
}

// Lock waits until the caller holds the lock. Requests are served in order of
// arrival, across processes. When ctx ends, Lock gives up its place in the queue,
// and its error names the holder.
func (m *Mutex) Lock(ctx context.Context) (*Lock, error) {
	return m.client.acquire(ctx, m.name, m.options)
}

// TryLock takes the lock if it is free, and otherwise returns [ErrBusy]. It
// waits for the database, but not for other holders. Only watching a silent holder
// for its TTL shows that it has crashed: a process that only calls TryLock finds
// out by trying again after that. If ctx ends while it takes the place of such a holder
// away, the error matches ErrBusy and the cause of that end.
func (m *Mutex) TryLock(ctx context.Context) (*Lock, error) {
	o := m.options
	o.try = true
	return m.client.acquire(ctx, m.name, o)
}

// LockFor is Lock with a time limit: the lock's context ends after limit, counted
// from when it was granted, and a grace later the lock passes to the next waiter,
// even if its holder has not unlocked it.
func (m *Mutex) LockFor(ctx context.Context, limit time.Duration) (*Lock, error) {
	o, err := m.options.within(m.name, limit)
	if err != nil {
		return nil, err
	}
	return m.client.acquire(ctx, m.name, o)
}

func (o options) within(name string, limit time.Duration) (options, error) {
	if limit <= 0 {
		return o, fmt.Errorf("locks: lock %q for %v: must be above 0", name, limit)
	}
	o.limit = limit
	return o, nil
}

// Do runs f while it holds the lock. The context passed to f ends with ctx, or
// when the lock is lost. Do returns the error of f, joined with one that matches
// [ErrLost] if the lock was lost before f returned.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	if f == nil {
		return fmt.Errorf("locks: lock %q: the function of Do is nil", m.name)
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, f)
}

// Do is [Mutex.Do] of the mutex of that name.
func (c *Client) Do(ctx context.Context, name string, f func(ctx context.Context) error) error {
	return c.Mutex(name).Do(ctx, f)
}

// do runs f and unlocks, also when f panics.
func (l *Lock) do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	working, cancel := context.WithCancelCause(l.attach(ctx))
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	defer func() {
		stop()
		cancel(ErrUnlocked)
		// The lock has to be released even after ctx has ended.
		finish, done := l.client.attempt(context.WithoutCancel(ctx))
		defer done()
		err = errors.Join(err, l.Unlock(finish))
	}()
	return f(working)
}

// RWMutex is a lock that is held by one writer or by any number of readers.
// Requests are served in order of arrival: a waiting writer blocks later readers,
// and adjacent waiting readers are granted together. Like a [Mutex], it is only a
// handle.
type RWMutex struct {
	write, read Mutex
}

// RWMutex returns the lock of that name; see [Client.Mutex].
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	write := Mutex{c, name, combine(opts)}
	read := write
	read.options.read = true
	return &RWMutex{write, read}
}

// Lock waits until the caller holds the lock exclusively; see [Mutex.Lock].
func (m *RWMutex) Lock(ctx context.Context) (*Lock, error) { return m.write.Lock(ctx) }

// TryLock is [Mutex.TryLock].
func (m *RWMutex) TryLock(ctx context.Context) (*Lock, error) { return m.write.TryLock(ctx) }

// LockFor is [Mutex.LockFor].
func (m *RWMutex) LockFor(ctx context.Context, limit time.Duration) (*Lock, error) {
	return m.write.LockFor(ctx, limit)
}

// Do is [Mutex.Do].
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.write.Do(ctx, f)
}

// RLock waits until the caller holds the lock for reading.
func (m *RWMutex) RLock(ctx context.Context) (*Lock, error) { return m.read.Lock(ctx) }

// TryRLock takes the lock for reading, or returns [ErrBusy] when a writer holds it
// or waits for it; see [Mutex.TryLock].
func (m *RWMutex) TryRLock(ctx context.Context) (*Lock, error) { return m.read.TryLock(ctx) }

// RLockFor is RLock with a time limit; see [Mutex.LockFor].
func (m *RWMutex) RLockFor(ctx context.Context, limit time.Duration) (*Lock, error) {
	return m.read.LockFor(ctx, limit)
}

// RDo runs f while it holds the lock for reading; see [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.read.Do(ctx, f)
}
