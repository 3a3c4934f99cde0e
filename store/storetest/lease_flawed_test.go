package storetest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// database is a store in memory with one of the flaws, or none.
type leaseDatabase struct {
	flaw string

	mu      sync.Mutex
	leases  map[string]store.Lease
	fences  map[string]store.Fence
	locked  map[string]chan struct{} // closed when the row is free
	signals map[string]chan struct{}
	had     map[string]*signal // by whom
	present map[term]*signal
	offset  time.Duration
	server  int
	busy    int
	replica int

	enlisted []jobs.Replica
}

// replica is a store of the database.
type leaseReplica struct {
	*leaseDatabase
	number  int
	signals []*signal
}

// Close passes the signals of the store.
func (s *leaseReplica) Close() error {
	s.mu.Lock()
	signals := s.signals
	s.mu.Unlock()
	for _, b := range signals {
		if !s.has("signal: a closed store keeps it") && !s.has("presence: stays after its store is closed") {
			_ = b.Close()
		}
	}
	return nil
}

func newLeaseDatabase(flaw string) *leaseDatabase {
	return &leaseDatabase{
		flaw: flaw, leases: map[string]store.Lease{}, fences: map[string]store.Fence{}, locked: map[string]chan struct{}{},
		signals: map[string]chan struct{}{}, had: map[string]*signal{}, present: map[term]*signal{},
	}
}

func (d *leaseDatabase) quickHarness() Harness {
	h := d.harness()
	h.quick, h.Patience = 10, time.Second
	return h
}

func (d *leaseDatabase) harness() Harness {
	return Harness{
		Open: func(testing.TB) store.Leases {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.replica++
			return &leaseReplica{leaseDatabase: d, number: d.replica}
		},
		Update: func(_ testing.TB, group string, change Change) { d.update(group, change) },
		StepClock: func(_ testing.TB, by time.Duration) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.has("clock: does not step") {
				d.offset += by
			}
		},
		LockLease:  func(_ testing.TB, group string) func() { return d.lockLease(group) },
		LoseSignal: func(_ testing.TB, group string) { d.loseSignal(group) },
		Restart: func(testing.TB) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.server++
		},
	}
}

func (d *leaseDatabase) lockLease(group string) (free func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	locked := make(chan struct{})
	d.locked[group] = locked
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locked, group)
		close(locked)
	})
}

func (d *leaseDatabase) loseSignal(group string) {
	d.mu.Lock()
	b := d.had[group]
	d.mu.Unlock()
	if b == nil || d.has("signal: a lost connection keeps it") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !d.has("presence: a lost connection keeps it") {
		b.hide(false)
	}
	if b.has {
		b.leave()
		b.has = d.has("signal: Wait does not ask whether it was lost")
	}
}

func (d *leaseDatabase) has(flaw string) bool { return d.flaw == flaw }

// or is the condition, unless it is the flaw to leave it out.
func (d *leaseDatabase) or(flaw string, condition bool) bool { return condition || d.has(flaw) }

// same compares two numbers, unless the flaw is to ignore a difference.
func (d *leaseDatabase) same(got, want uint64, statement, what string) bool {
	switch {
	case d.has(statement + ": ignores the " + what):
		return true
	case want < got && d.has(statement+": ignores an older "+what):
		return true
	case want > got && d.has(statement+": ignores a newer "+what):
		return true
	}
	return got == want
}

func (d *leaseDatabase) key(name string) string {
	if len(name) > store.MaxName && d.has("names: truncated groups") {
		name = name[:store.MaxName]
	}
	if len(name) == store.MaxName && d.has("names: trailing") {
		name = name[:store.MaxName-1]
	}
	if d.has("names: case") {
		return strings.ToLower(name)
	}
	if d.has("names: trailing") {
		return strings.TrimRight(name, "-. ")
	}
	if d.has("names: numbers") {
		return strings.TrimSuffix(strings.TrimPrefix(name, "0"), ".0")
	}
	return name
}

func (d *leaseDatabase) owner(name string) string {
	if len(name) > store.MaxName && d.has("names: truncated owners") {
		name = name[:store.MaxName]
	}
	return name
}

// elsewhere lets others in, in the middle of what should be one statement.
func (d *leaseDatabase) elsewhere() {
	d.mu.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	<-time.After(50 * time.Microsecond)
	d.mu.Lock()
}

func (d *leaseDatabase) update(group string, change Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.key(group)
	var l *store.Lease
	var f *store.Fence
	if row, ok := d.leases[k]; ok {
		l = &row
	}
	if row, ok := d.fences[k]; ok {
		f = &row
	}
	if d.has("update: hides absence") && l == nil {
		l = &store.Lease{}
	}
	l, f = change(l, f)
	if !d.has("update: lease stays") {
		delete(d.leases, k)
	}
	if !d.has("update: fence stays") {
		delete(d.fences, k)
	}
	if l != nil {
		d.leases[k] = *l
	}
	if f != nil {
		d.fences[k] = *f
	}
}

func (d *leaseDatabase) now() time.Time {
	return time.Now().Add(d.offset).UTC().Truncate(time.Microsecond)
}

func (d *leaseDatabase) clockToken() uint64 { return uint64(d.now().UnixMicro()) }

func (d *leaseDatabase) session(number int) uint64 {
	server := d.server
	if d.has("restart: session stays") {
		server = 0
	}
	return uint64(number)<<16 + uint64(server)
}

func (d *leaseDatabase) ended(ctx context.Context, what string) error {
	if d.has("context: "+what) || ctx.Err() == nil {
		return nil
	}
	if d.has("context: ErrChanged") {
		return store.ErrChanged
	}
	return ctx.Err()
}
