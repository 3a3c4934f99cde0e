package keeper

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/lease"
)

const (
	// troubleEvery is how often a lasting trouble is logged.
	troubleEvery = time.Minute
	// troubleFor is how long a failure counts if its task neither fails nor
	// works again: the task may be over.
	troubleFor = 2 * time.Minute
	// troubleMost is how often each kind of failure is logged in a minute: a database that fails and works in turn, as
	// one at the limit of its memory, is a new trouble each time.
	troubleMost = 5
	// troubleLasts is from when on a trouble is logged though others were before it.
	troubleLasts = 3 * time.Second
)

// Trouble tells of the state of one database for all tasks of a process that use
// it. An outage fails hundreds of attempts a minute; Trouble tells of its beginning,
// each new kind of failure, one line a minute while it lasts, and its end.
// Attempts in between are logged at debug level, and so are troubles after the first few
// of a minute. It is safe for concurrent use.
type Trouble struct {
	events *stream.Stream
	log    *zap.Logger // for the attempts in between
	head   event.Header

	mu       sync.Mutex           // guards what follows
	failing  map[task]failure     // empty when all is well
	logged   map[event.Fault]bool // kinds of failure since the last line of the minute; false: at debug level
	since    time.Time            // of the present trouble
	newest   time.Time            // when a task last failed
	spoke    time.Time            // when the last line of the minute was logged
	failures int
	last     error                       // nil when the end of the trouble has been logged
	told     map[event.Fault][]time.Time // when each kind was logged, in the last minute
	quiet    bool                        // none of the present trouble was logged
}

// A task is known by its name, among the tasks of a term by that term as well.
type task struct {
	of   *Tasks
	name string
}

type failure struct {
	at   time.Time // the newest
	over bool      // the task has ended: any other one that works is proof enough
}

// NewTrouble returns a Trouble of a process, which says what it sees in the stream.
// Group and owner may be empty.
func NewTrouble(events *stream.Stream, group, owner string) *Trouble {
	return &Trouble{events: events, log: ownersLog(events, owner), head: event.Header{Group: group, Owner: owner},
		failing: map[task]failure{}, logged: map[event.Fault]bool{}, told: map[event.Fault][]time.Time{}}
}

func ownersLog(events *stream.Stream, owner string) *zap.Logger {
	log := events.Logger()
	if owner == "" {
		return log
	}
	return log.With(zap.String("owner", owner))
}

// Failed notes that an attempt at the task has failed and will be repeated.
func (t *Trouble) Failed(name string, err error) { t.failed(task{name: name}, err) }

// Worked notes that the task works. The trouble is over when no task fails any
// more.
func (t *Trouble) Worked(name string) { t.worked(task{name: name}) }

// Ended notes that the task is over, whether it worked or not. It no longer keeps
// the trouble from ending, but does not end it either: the database may still be
// away. The next task that works ends it.
func (t *Trouble) Ended(name string) { t.ended(task{name: name}) }

// Tasks returns the tasks of one term, which end with it.
func (t *Trouble) Tasks() *Tasks { return &Tasks{trouble: t} }

// Tasks are those of a term among the tasks of a [Trouble]. They are safe for
// concurrent use.
type Tasks struct {
	trouble *Trouble
	over    bool // guarded by trouble.mu
}

// Failed is [Trouble.Failed] of a task of the term.
func (t *Tasks) Failed(name string, err error) { t.trouble.failed(task{t, name}, err) }

// Worked is [Trouble.Worked] of a task of the term.
func (t *Tasks) Worked(name string) { t.trouble.worked(task{t, name}) }

// End is [Trouble.Ended] of all tasks of the term, also of those that fail after it.
func (t *Tasks) End() {
	t.trouble.mu.Lock()
	defer t.trouble.mu.Unlock()
	t.over = true
	for k, f := range t.trouble.failing {
		if k.of == t {
			t.trouble.failing[k] = failure{f.at, true}
		}
	}
}

func (t *Trouble) failed(k task, err error) {
	away, first, before := t.note(k, err)
	t.tellEnd(before)
	if first { // not with mu held: a log that is blocked must not block Last
		t.events.Emit(away)
	} else {
		t.log.Debug(string(away.Fault), zap.String("task", k.name), zap.Error(err), zap.Duration("for", away.For), zap.Int("failures", away.Failures))
	}
}

func (t *Trouble) worked(k task) { t.tellEnd(t.end(k)) }

func (t *Trouble) ended(k task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.failing[k]; ok {
		t.failing[k] = failure{f.at, true}
	}
}

// tellEnd tells of the end of a trouble; nil: there was none.
func (t *Trouble) tellEnd(back *event.DatabaseBack) {
	if back != nil {
		t.events.Emit(*back)
	}
}

// note is failed without the stream. first says that the failure is worth a warning,
// before is of an earlier trouble whose end has not been told.
func (t *Trouble) note(k task, err error) (away event.DatabaseAway, first bool, before *event.DatabaseBack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.forget(now)
	before = t.over(t.newest)
	if len(t.failing) == 0 {
		t.since, t.spoke, t.failures, t.quiet = now, now, 0, true
		clear(t.logged)
	}
	t.failing[k] = failure{now, k.of != nil && k.of.over}
	t.failures++
	t.newest, t.last = now, err
	if now.Sub(t.spoke) >= troubleEvery {
		t.spoke = now
		clear(t.logged)
	}
	away = event.DatabaseAway{Header: t.head, Fault: faultOf(err), Task: k.name, Err: err, For: now.Sub(t.since), Failures: t.failures}
	away.At = now
	lasts := away.For >= troubleLasts
	if told, ok := t.logged[away.Fault]; !told && (!ok || lasts) {
		first, away.Often = true, t.often(away.Fault, now) && !lasts
		t.logged[away.Fault] = !away.Often
	}
	t.quiet = t.quiet && (away.Often || !first)
	return away, first, before
}

// often reports whether a kind of failure was logged as often in the last minute as it may be, and notes that it is logged otherwise. It is
// called with mu held.
func (t *Trouble) often(fault event.Fault, now time.Time) bool {
	t.told[fault] = slices.DeleteFunc(t.told[fault], func(at time.Time) bool { return now.Sub(at) >= troubleEvery })
	if len(t.told[fault]) >= troubleMost {
		return true
	}
	t.told[fault] = append(t.told[fault], now)
	return false
}

// end is worked without the stream.
func (t *Trouble) end(k task) *event.DatabaseBack {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.forget(now)
	if back := t.over(t.newest); back != nil {
		return back
	}
	delete(t.failing, k)
	maps.DeleteFunc(t.failing, func(_ task, f failure) bool { return f.over })
	return t.over(now)
}

// over returns what to tell when the trouble has come to its end at an instant,
// and nil while it lasts and after its end. It is called with mu held.
func (t *Trouble) over(at time.Time) *event.DatabaseBack {
	if len(t.failing) > 0 || t.last == nil {
		return nil
	}
	t.last = nil
	back := &event.DatabaseBack{Header: t.head, For: at.Sub(t.since), Failures: t.failures, Often: t.quiet}
	back.At = at
	return back
}

// Last returns since when the database has failed, and the newest failure; nil
// when nothing fails.
func (t *Trouble) Last() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(time.Now())
	if len(t.failing) == 0 {
		return time.Time{}, nil
	}
	return t.since, t.last
}

// forget drops tasks that have not been heard of for long. It is called with mu
// held.
func (t *Trouble) forget(now time.Time) {
	maps.DeleteFunc(t.failing, func(_ task, f failure) bool { return now.Sub(f.at) > troubleFor })
}

func faultOf(err error) event.Fault {
	switch {
	case errors.Is(err, lease.ErrDenied):
		return event.Refused
	case errors.Is(err, lease.ErrNotReady):
		return event.NotReady
	case errors.Is(err, lease.ErrSetup):
		return event.Unfit
	}
	return event.Away
}

// Ends reports whether err says that the database cannot keep the guarantees
// and that waiting cannot mend it: an [lease.ErrSetup] that is no [lease.ErrNotReady].
func Ends(err error) bool {
	return errors.Is(err, lease.ErrSetup) && !errors.Is(err, lease.ErrNotReady)
}
