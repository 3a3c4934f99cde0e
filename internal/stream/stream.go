// Package stream carries the events of a process (package event) to its observers and to
// its log.
package stream

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/event"
)

// FlushFor is how long a Run waits for slow observers at its end.
const FlushFor = time.Second

// Stream takes in events: it hands them to the observers and writes their lines to the log.
// It is safe for concurrent use.
type Stream struct {
	log       *zap.Logger // as the user gave it
	notes     *zap.Logger
	observers []*observer
}

// New returns a stream with a log and observers. It starts nothing: the
// goroutine of an observer ends each time that there is nothing left for it.
func New(log *zap.Logger, observers ...func(event.Event)) *Stream {
	s := &Stream{log: log, notes: log}
	for _, f := range observers {
		s.observers = append(s.observers, &observer{f: f, log: log, most: event.Backlog})
	}
	if len(observers) > 0 {
		s.notes = log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
			// First to the observers: a log that is blocked must not hold them up.
			return zapcore.NewTee(&notes{stream: s}, c)
		}))
	}
	return s
}

// Logger returns a logger for what has no event of its own: its lines are notes for the
// observers.
func (s *Stream) Logger() *zap.Logger { return s.notes }

// Observed reports whether there is an observer, for what is not worth its cost otherwise.
func (s *Stream) Observed() bool { return len(s.observers) > 0 }

// Emit takes in an event. It may wait for the log, like any line of it, but for no observer.
func (s *Stream) Emit(e event.Event) {
	s.post(e)
	s.write(e)
}

func (s *Stream) post(e event.Event) {
	for _, o := range s.observers {
		o.post(e)
	}
}

// Flush waits until the observers have all events, for so long at most.
func (s *Stream) Flush(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for _, o := range s.observers {
		select {
		case <-o.idle():
		case <-timer.C:
			return
		}
	}
}
