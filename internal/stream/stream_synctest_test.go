package stream_test

import (
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
)

func following(token uint64) event.Event { return event.Following{LeaderToken: token} }

func TestObserverGetsAllInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []event.Event
		s := stream.New(zap.NewNop(), func(e event.Event) { got = append(got, e) })
		const n = 1000
		for i := range uint64(n) {
			s.Emit(following(i))
		}
		synctest.Wait()
		if len(got) != n {
			t.Fatalf("%d events of %d", len(got), n)
		}
		for i, e := range got {
			if e != following(uint64(i)) {
				t.Fatalf("event %d is %v", i, e)
			}
		}
	})
}

// A slow observer holds up neither the process nor another observer, and learns how
// much it has missed, where it has missed it.
func TestSlowObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		var slow, quick []event.Event
		s := stream.New(zap.NewNop(), func(e event.Event) {
			<-block
			slow = append(slow, e)
		}, func(e event.Event) { quick = append(quick, e) })
		s.Emit(following(0))
		synctest.Wait() // the slow one has it
		for i := range uint64(event.Backlog + 5) {
			s.Emit(following(i + 1))
			if i%1000 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if len(quick) != event.Backlog+6 {
			t.Errorf("the quick one has %d events", len(quick))
		}
		close(block)
		synctest.Wait()
		last := slow[len(slow)-1]
		if d, ok := last.(event.Dropped); !ok || d.Events != 5 || len(slow) != event.Backlog+2 {
			t.Errorf("%d events, the last %v: want %d, the last 5 dropped", len(slow), last, event.Backlog+2)
		}
		s.Emit(following(7))
		synctest.Wait()
		if slow[len(slow)-1] != following(7) {
			t.Errorf("after that: %v", slow[len(slow)-1])
		}
	})
}

func TestPanickingObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		calls := 0
		s := stream.New(zap.New(core), func(event.Event) {
			calls++
			panic("no")
		})
		for i := range uint64(3) {
			s.Emit(following(i))
		}
		synctest.Wait()
		if calls != 3 || lines.Len() != 1 {
			t.Errorf("%d calls, and %d lines: want 3, and 1", calls, lines.Len())
		}
		time.Sleep(2 * time.Minute)
		s.Emit(following(3))
		synctest.Wait()
		if lines.Len() != 2 {
			t.Errorf("%d lines after minutes: want 2", lines.Len())
		}
	})
}

// An observer may end its goroutine, as FailNow of a test does: it gets the next event all
// the same.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		calls := 0
		s := stream.New(zap.New(core), func(event.Event) {
			calls++
			runtime.Goexit()
		})
		for i := range uint64(3) {
			s.Emit(following(i))
		}
		synctest.Wait()
		s.Emit(following(3))
		began := time.Now()
		s.Flush(time.Minute)
		if d := time.Since(began); calls != 4 || lines.Len() != 1 || d != 0 {
			t.Errorf("%d calls, %d lines, and Flush took %v: want 4, 1, and nothing", calls, lines.Len(), d)
		}
	})
}

func TestFlushWaitsForObservers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := time.Second
		s := stream.New(zap.NewNop(), func(event.Event) { time.Sleep(took) })
		began := time.Now()
		s.Flush(time.Minute)
		if d := time.Since(began); d != 0 {
			t.Errorf("nothing waits: %v", d)
		}
		s.Emit(following(1))
		s.Emit(following(2))
		s.Flush(time.Minute)
		if d := time.Since(began); d != 2*took {
			t.Errorf("two events: %v", d)
		}
		s.Emit(following(3))
		s.Flush(took / 2)
		if d := time.Since(began); d != 2*took+took/2 {
			t.Errorf("bounded: %v", d)
		}
		synctest.Wait()
		time.Sleep(took)
	})
}

// A line that has no event of its own is a note, whose header has what its fields say.
func TestNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.DebugLevel)
		var got []event.Event
		s := stream.New(zap.New(core), func(e event.Event) { got = append(got, e) })
		log := s.Logger().With(zap.String("group", "billing"), zap.Uint64("token", 7))
		log.Debug("nothing")
		log.Warn("careful", zap.Int("count", 2))
		synctest.Wait()
		if lines.Len() != 2 || len(got) != 1 {
			t.Fatalf("%d lines and %d events: want 2 and 1", lines.Len(), len(got))
		}
		note, ok := got[0].(event.Note)
		if !ok || note.Group != "billing" || note.Token != 7 || note.Level != slog.LevelWarn || note.Message != "careful" || len(note.Fields) != 1 || note.Fields["count"] != int64(2) {
			t.Errorf("%+v", got[0])
		}
	})
}

// An event has its line once, and is no note beside that.
func TestEventHasOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.DebugLevel)
		var got []event.Event
		s := stream.New(zap.New(core), func(e event.Event) { got = append(got, e) })
		head := event.Header{Group: "billing", Owner: "a", Token: 3}
		key := jobs.Key{Job: "report", Tick: time.Unix(0, 0).UTC()}
		s.Emit(event.RunStarted{Header: head, Key: key, Attempt: 1})
		s.Emit(event.RunFinished{Header: head, Key: key, Attempt: 1, State: jobs.Failed, Err: errors.New("full"), Took: time.Second, WillRetry: true, RetryIn: time.Minute})
		synctest.Wait()
		if len(got) != 2 || lines.Len() != 2 {
			t.Fatalf("%d events, %d lines: want 2 of each", len(got), lines.Len())
		}
		line := lines.All()[1]
		fields := line.ContextMap()
		if line.Message != "run failed" || line.Level != zapcore.WarnLevel || fields["group"] != "billing" || fields["owner"] != "a" || fields["token"] != uint64(3) ||
			fields["job"] != "report" || fields["will_retry"] != true || fields["error"] != "full" {
			t.Errorf("%s %v %v", line.Level, line.Message, fields)
		}
	})
}
