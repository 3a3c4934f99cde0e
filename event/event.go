// Package event has what happens in a process that takes part in an election, runs
// jobs or holds locks, as typed values.
//
// Packages election, scheduler and locks report everything that happens in one stream
// of these. Log lines are made from it, and so are the metrics of package metrics and
// the spans of package tracing. WithEvents of each of these packages gives the stream to a
// function:
//
//	scheduler.New(store, "billing", scheduler.WithEvents(func(e event.Event) {
//		switch e := e.(type) {
//		case event.RunFinished:
//			if e.State != jobs.Succeeded && !e.WillRetry {
//				alert(e.Job, e.Err)
//			}
//		}
//	}))
//
// Such a function is an observer. It has a goroutine of its own and gets the events in their
// order, one at a time. Nothing waits for it: up to [Backlog] events wait for an
// observer that is slow, those beyond that are dropped, and [Dropped] says how many. An
// observer that panics loses that event, goes on with the next one, and the log says so.
//
// The stream tells of this process, as long as it lives. What a run came to is in the
// ledger: that survives a crash, and is what to ask about the past.
//
// New types of events and new fields may come with any version. So a type switch needs a
// case for those that it does not know, which does nothing.
package event

import (
	"log/slog"
	"time"
)

// Backlog is how many events wait for a slow observer at most.
const Backlog = 100_000

// Event is one of the types of this package. It is a plain value: observers may keep it.
type Event interface {
	// Head is what all events have.
	Head() Header
}

// Header is what all events have. They embed it.
type Header struct {
	// At is when it happened, by this machine's clock.
	At time.Time
	// Group is the group; empty for what concerns no single one.
	Group string
	// Owner is this process, as the owner of leases; empty where it has none.
	Owner string
	// Token is the term's, or zero outside a term.
	Token uint64
}

// Head implements [Event].
func (h Header) Head() Header { return h }

// Note is what the log says beside the other events, for people: its text may change with
// any version. Lines below slog.LevelInfo are not in the stream.
type Note struct {
	Header
	Level   slog.Level
	Message string
	// Fields are those of the line but for the header's, by their keys. Nil: none.
	Fields map[string]any
}

// Dropped says that an observer was too slow, and did not get so many events. It stands
// where they were.
type Dropped struct {
	Header
	Events int
}
