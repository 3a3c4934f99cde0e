package gocronlease

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/cronlease/cronlease/internal/cuttext"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

var _ gocron.Locker = (*Locker)(nil)

// Locker is a [gocron.Locker] over a client's locks. It is safe for concurrent
// use.
type Locker struct {
	client *locks.Client
	prefix string
	keep   time.Duration
}

// A LockerOption changes a default of [NewLocker].
type LockerOption func(*Locker)

// KeepFor sets how long a lock is kept at least, counted from when it was taken,
// also when its run was shorter: another replica whose clock is late by less
// than that finds it taken, and does not run the same tick again. Longer than
// the job's interval, it skips ticks. Default 500 ms; zero keeps none.
func KeepFor(d time.Duration) LockerOption { return func(l *Locker) { l.keep = d } }

// Prefix is put before the names of jobs to make those of locks, so that other
// schedulers on the same database have their own. Up to 51 letters, digits and
// . _ : / @ + -, the first a letter or a digit, are kept as they are before any job's
// name; of others, the lock's name is changed as a whole, see [Locker.Lock]. Default "gocron/".
func Prefix(prefix string) LockerOption { return func(l *Locker) { l.prefix = prefix } }

// NewLocker returns a locker that takes each job's lock for as long as it runs.
func NewLocker(client *locks.Client, options ...LockerOption) *Locker {
	l := &Locker{client: client, prefix: "gocron/", keep: 500 * time.Millisecond}
	for _, option := range options {
		if option != nil {
			option(l)
		}
	}
	return l
}

// Lock implements [gocron.Locker]. It does not wait: when another replica has
// the lock, the error matches [locks.ErrBusy] and gocron leaves the run out. The
// lock's name is the job's, which should be given by gocron.WithName; one that
// cannot be a lock's name is changed, and ends with a part of its hash. The lock's label
// is the job's name, or the beginning of a long one.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if l.client == nil {
		return nil, errors.New("gocronlease: the locker has no client: give NewLocker one")
	}
	taken := time.Now()
	lock, err := l.client.Mutex(l.name(job), locks.Label(cuttext.UTF8(job, locks.MaxLabel))).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	return &heldLock{lock, taken.Add(l.keep)}, nil
}

// name is the name of a job's lock.
func (l *Locker) name(job string) string {
	name := l.prefix + nameOf(job)
	if store.CheckName("lock", name) == nil {
		return name
	}
	fit := strings.TrimLeft(fitting(l.prefix+job), "._:/@+-") // the first has to be a letter or a digit
	return hashed(cmp.Or(fit, "job"), store.MaxName-hashBytes, l.prefix+"\x00"+job)
}

// nameOf makes the end of a lock's name of a job's: gocron names jobs after their function
// unless the program names them, as in "main.(*invoices).run-fm".
func nameOf(job string) string {
	const most = 64
	if store.CheckName("job", job) == nil && len(job) <= most {
		return job
	}
	return hashed(fitting(job), most, job)
}

// fitting replaces what cannot stand in a name.
func fitting(text string) string {
	return strings.Map(func(r rune) rune {
		if store.CheckName("character", "x"+string(r)) != nil {
			return '-'
		}
		return r
	}, text)
}

// hashBytes is how much longer hashed makes a text.
const hashBytes = 13

// hashed is the beginning of a text, and a part of the hash of what it stands for.
func hashed(text string, most int, full string) string {
	sum := sha256.Sum256([]byte(full))
	return fmt.Sprintf("%.*s-%x", most, text, sum[:6])
}

// heldLock is a lock of a run.
type heldLock struct {
	*locks.Lock
	until time.Time
}

// Unlock implements [gocron.Lock]. When the lock is to be kept for longer, it is
// given back later and Unlock returns at once. It goes on after ctx has ended,
// as gocron's has when the scheduler is stopped.
func (h *heldLock) Unlock(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if left := time.Until(h.until); left > 0 {
		time.AfterFunc(left, func() {
			// If the database does not answer, the client goes on trying, and a
			// lock that was lost meanwhile needs no release.
			_ = h.unlock(ctx)
		})
		return nil
	}
	return h.unlock(ctx)
}

func (h *heldLock) unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return h.Lock.Unlock(ctx)
}
