package stream

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// write logs an event, if it has a line.
func (s *Stream) write(e event.Event) {
	level, message := line(e)
	if message == "" {
		return
	}
	if entry := s.log.Check(level, message); entry != nil {
		entry.Write(append(headFields(e.Head()), fields(e)...)...)
	}
}

// line is what the log says of an event; no message: nothing.
func line(e event.Event) (zapcore.Level, string) {
	switch e := e.(type) {
	case event.Leading:
		return zap.InfoLevel, "leading"
	case event.TermEnded:
		if e.Lost {
			return zap.WarnLevel, "lease lost"
		}
		return zap.InfoLevel, "term over"
	case event.DatabaseAway:
		return unless(e.Often, zap.WarnLevel), string(e.Fault) + ": trying again, and saying so once a minute"
	case event.DatabaseBack:
		return unless(e.Often, zap.InfoLevel), "database trouble over"
	case event.ClockSkew:
		switch e.Now {
		case event.Disagree:
			return zap.ErrorLevel, "the database's clock and this machine's differ too much to tell which is wrong: no tick is started, and this replica does not lead, until they agree"
		case event.Differ:
			return zap.WarnLevel, "the database's clock and this machine's differ"
		case event.Agree:
			if e.First {
				return zap.DebugLevel, "the database's clock and this machine's agree"
			}
			return zap.InfoLevel, "the database's clock and this machine's agree again"
		}
	case event.WritesLost:
		if e.Added == e.Jobs {
			return zap.WarnLevel, "another server answers, which lacks jobs that were added, as after a failover: they are added anew, and their ticks before that do not run"
		}
		return zap.WarnLevel, "another server answers, which lacks the newest ticks of jobs, as after a failover: the misfire policies decide about these ticks again, and they may run twice"
	case event.RunStarted:
		return zap.InfoLevel, "run started"
	case event.LocksLost:
		return zap.WarnLevel, "session lost, and all its locks"
	case event.RunFinished:
		return finished(e)
	case event.NoReplica:
		if e.Over {
			return zap.InfoLevel, "the runs of a job wait for a replica no longer"
		}
		return zap.WarnLevel, "the runs of a job wait for a replica that can have them: none that stays has the job, and the labels that it wants"
	case event.RunInterrupted:
		if e.Again {
			return zap.WarnLevel, "an interrupted run is run again"
		}
		return zap.WarnLevel, "a run was interrupted and is not run again"
	case event.TicksSkipped:
		if e.First {
			return zap.WarnLevel, "ticks skipped"
		}
		return zap.DebugLevel, "ticks skipped"
	case event.NoticeLeftOut:
		if e.First {
			return zap.WarnLevel, "news is left out of the notices: the job has had as many as its limit allows, and its next one says how many"
		}
	}
	return 0, ""
}

// unless is the level, or debug where something is too often for that.
func unless(often bool, level zapcore.Level) zapcore.Level {
	if often {
		return zap.DebugLevel
	}
	return level
}

func finished(e event.RunFinished) (zapcore.Level, string) {
	switch {
	case e.State == jobs.Succeeded:
		return zap.InfoLevel, "run succeeded"
	case e.State == jobs.Cancelled, e.WillRetry:
		return zap.WarnLevel, "run " + e.State.String()
	}
	return zap.ErrorLevel, "run " + e.State.String()
}

// headFields are the fields that most lines have.
func headFields(h event.Header) []zap.Field {
	all := make([]zap.Field, 0, 12)
	if h.Group != "" {
		all = append(all, zap.String("group", h.Group))
	}
	if h.Owner != "" {
		all = append(all, zap.String("owner", h.Owner))
	}
	if h.Token != 0 {
		all = append(all, zap.Uint64("token", h.Token))
	}
	return all
}

// fields are those that belong to the event.
func fields(e event.Event) []zap.Field {
	switch e := e.(type) {
	case event.TermEnded:
		if e.Lost {
			return []zap.Field{zap.Error(e.Cause)}
		}
		return []zap.Field{zap.NamedError("cause", e.Cause)}
	case event.DatabaseAway:
		return []zap.Field{zap.String("task", e.Task), zap.Error(e.Err), zap.Duration("for", e.For), zap.Int("failures", e.Failures)}
	case event.DatabaseBack:
		return []zap.Field{zap.Duration("for", e.For), zap.Int("failures", e.Failures)}
	case event.ClockSkew:
		all := []zap.Field{zap.Duration("database_ahead", e.Skew.Ahead), zap.Duration("bound", e.Skew.Bound)}
		switch e.Now {
		case event.Disagree:
			all = append(all, zap.Duration("max_skew", e.Most))
		case event.Differ:
			all = append(all, zap.Bool("ticks_by_database", e.ByDatabase))
		}
		return all
	case event.WritesLost:
		return []zap.Field{zap.Int("jobs", e.Jobs), zap.Int("added", e.Added), zap.String("job", e.Job), zap.Time("had", e.Had), zap.Time("has", e.Has)}
	case event.LocksLost:
		return []zap.Field{zap.Error(e.Cause), zap.Int("locks", e.Locks)}
	case event.RunStarted:
		return attempt(e.Key, e.Attempt)
	case event.RunFinished:
		return outcome(e)
	case event.NoReplica:
		return []zap.Field{zap.String("job", e.Job), zap.Stringer("on", e.On), zap.Int("replicas", e.Replicas)}
	case event.RunInterrupted:
		all := append(tick(e.Key), zap.String("by", e.By), zap.Int("attempt", e.Attempt))
		if !e.Again {
			all = append(all, zap.String("why", e.Why))
		}
		return all
	case event.TicksSkipped:
		return []zap.Field{zap.String("job", e.Job), zap.String("why", e.Why), zap.Int("ticks", e.Ticks), zap.Time("from", e.From), zap.Time("to", e.To)}
	case event.NoticeLeftOut:
		return append(tick(e.Key), zap.String("notifier", e.Notifier), zap.String("event", string(e.Event)))
	}
	return nil
}

func tick(k jobs.Key) []zap.Field {
	all := []zap.Field{zap.String("job", k.Job), zap.Time("tick", k.Tick)}
	if i, n := triggers.ShardOf(k.Trigger); n > 0 {
		all = append(all, zap.Int("shard", i))
	}
	return all
}

func attempt(k jobs.Key, n int) []zap.Field { return append(tick(k), zap.Int("attempt", n)) }

// outcome are the fields of an attempt that has ended.
func outcome(e event.RunFinished) []zap.Field {
	all := append(attempt(e.Key, e.Attempt), zap.Duration("took", e.Took))
	var panicked *jobs.PanicError
	if errors.As(e.Err, &panicked) {
		all = append(all, zap.ByteString("stack", panicked.Stack))
	}
	switch {
	case e.State == jobs.Succeeded:
		return all
	case e.State == jobs.Cancelled:
		return append(all, zap.Error(Bounded(e.Err)), zap.NamedError("cause", e.Cause))
	case e.WillRetry:
		return append(all, zap.Error(Bounded(e.Err)), zap.Bool("will_retry", true), zap.Duration("retry", e.RetryIn))
	}
	return append(all, zap.Error(Bounded(e.Err)), zap.Bool("will_retry", false))
}

// Bounded bounds what is logged of an error of the user's code.
func Bounded(err error) error {
	const most = 16 << 10 // bytes; what the worker's jobs say at their end is below
	if text := err.Error(); len(text) > most {
		return fmt.Errorf("%s... (%d bytes in all)", text[:most], len(text))
	}
	return err
}

// Timed calls f, a call of the database, and emits how it went. rows is how many rows it is
// to write.
func (s *Stream) Timed(head event.Header, name string, rows int, f func() error) error {
	if !s.Observed() {
		return f()
	}
	began := time.Now()
	err := f()
	s.post(event.Statement{Header: at(head, time.Now()), Name: name, Rows: rows, Took: time.Since(began), Err: err})
	return err
}

func at(h event.Header, t time.Time) event.Header {
	h.At = t
	return h
}
