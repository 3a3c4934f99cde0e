package keeper

import (
	"errors"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
)

const (
	// troubleEvery is how often a lasting trouble is logged.
	troubleEvery = time.Minute
	// troubleFor is how long a failure counts if its task neither fails nor
	// works again: the task may be over.
	troubleFor = 2 * time.Minute
)

// Trouble logs the state of one database for all tasks of a process that use
// it. An outage fails hundreds of attempts a minute; Trouble logs its beginning,
// each new kind of failure, one line a minute while it lasts, and its end.
// Attempts in between are logged at debug level. It is safe for concurrent use.
type Trouble struct {
	log *zap.Logger

	mu       sync.Mutex       // guards what follows
	failing  map[task]failure // empty when all is well
	logged   map[string]bool  // kinds of failure since the last line of the minute
	since    time.Time        // of the present trouble
	newest   time.Time        // when a task last failed
	spoke    time.Time        // when the last line of the minute was logged
	failures int
	last     error // nil when the end of the trouble has been logged
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

// NewTrouble returns a Trouble that logs to log.
func NewTrouble(log *zap.Logger) *Trouble {
	return &Trouble{log: log, failing: map[task]failure{}, logged: map[string]bool{}}
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
type Tasks struct{ trouble *Trouble }

// Failed is [Trouble.Failed] of a task of the term.
func (t *Tasks) Failed(name string, err error) { t.trouble.failed(task{t, name}, err) }

// Worked is [Trouble.Worked] of a task of the term.
func (t *Tasks) Worked(name string) { t.trouble.worked(task{t, name}) }

// End is [Trouble.Ended] of all tasks of the term.
func (t *Tasks) End() {
	t.trouble.mu.Lock()
	defer t.trouble.mu.Unlock()
	for k, f := range t.trouble.failing {
		if k.of == t {
			t.trouble.failing[k] = failure{f.at, true}
		}
	}
}

func (t *Trouble) failed(k task, err error) {
	message, fields, first, before := t.note(k, err)
	t.logEnd(before)
	if first { // not with mu held: a log that is blocked must not block Last
		t.log.Warn(message+": trying again, and saying so once a minute", fields...)
	} else {
		t.log.Debug(message, fields...)
	}
}

func (t *Trouble) worked(k task) { t.logEnd(t.end(k)) }

func (t *Trouble) ended(k task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.failing[k]; ok {
		t.failing[k] = failure{f.at, true}
	}
}

// logEnd logs the end of a trouble. Without fields there was none.
func (t *Trouble) logEnd(fields []zap.Field) {
	if fields != nil {
		t.log.Info("database trouble over", fields...)
	}
}

// note is failed without the log. first says that the line is worth a warning,
// before is of an earlier trouble whose end has not been logged.
func (t *Trouble) note(k task, err error) (message string, fields []zap.Field, first bool, before []zap.Field) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.forget(now)
	before = t.over(t.newest)
	if len(t.failing) == 0 {
		t.since, t.spoke, t.failures = now, now, 0
		clear(t.logged)
	}
	t.failing[k] = failure{at: now}
	t.failures++
	t.newest, t.last = now, err
	if now.Sub(t.spoke) >= troubleEvery {
		t.spoke = now
		clear(t.logged)
	}
	fields = []zap.Field{zap.String("task", k.name), zap.Error(err), zap.Duration("for", now.Sub(t.since)), zap.Int("failures", t.failures)}
	message = kindOfTrouble(err)
	first = !t.logged[message]
	t.logged[message] = true
	return message, fields, first, before
}

// end is worked without the log.
func (t *Trouble) end(k task) []zap.Field {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.forget(now)
	if fields := t.over(t.newest); fields != nil {
		return fields
	}
	delete(t.failing, k)
	maps.DeleteFunc(t.failing, func(_ task, f failure) bool { return f.over })
	return t.over(now)
}

// over returns what to log when the trouble has come to its end at an instant,
// and nil while it lasts and after its end. It is called with mu held.
func (t *Trouble) over(at time.Time) []zap.Field {
	if len(t.failing) > 0 || t.last == nil {
		return nil
	}
	t.last = nil
	return []zap.Field{zap.Duration("for", at.Sub(t.since)), zap.Int("failures", t.failures)}
}

// Last returns since when the database has failed, and the newest failure; nil
// when nothing fails.
func (t *Trouble) Last() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.failing {
		if time.Since(f.at) <= troubleFor {
			return t.since, t.last
		}
	}
	return time.Time{}, nil
}

// forget drops tasks that have not been heard of for long. It is called with mu
// held.
func (t *Trouble) forget(now time.Time) {
	maps.DeleteFunc(t.failing, func(_ task, f failure) bool { return now.Sub(f.at) > troubleFor })
}

func kindOfTrouble(err error) string {
	switch {
	case errors.Is(err, lease.ErrDenied):
		return "database refuses the login"
	case errors.Is(err, lease.ErrNotReady):
		return "database not ready"
	case errors.Is(err, lease.ErrSetup):
		return "database unfit"
	}
	return "database trouble"
}

// Ends reports whether err says that the database cannot keep the guarantees
// and that waiting cannot mend it: an [lease.ErrSetup] that is no [lease.ErrNotReady].
func Ends(err error) bool {
	return errors.Is(err, lease.ErrSetup) && !errors.Is(err, lease.ErrNotReady)
}
