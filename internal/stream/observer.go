package stream

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
)

// observer hands events to a function.
type observer struct {
	f    func(event.Event)
	log  *zap.Logger
	most int // events that wait

	taken []event.Event // for f, by deliver alone

	mu       sync.Mutex
	waiting  []event.Event
	dropped  int
	last     event.Header  // of what was dropped last
	done     chan struct{} // closed when deliver ends; nil while it does not run
	panicked time.Time     // when the log said so last
}

// post queues an event, or counts it as dropped.
func (o *observer) post(e event.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) >= o.most {
		o.dropped++
		o.last = e.Head()
		return
	}
	o.tellDropped()
	o.waiting = append(o.waiting, e)
	if o.done == nil {
		o.done = make(chan struct{})
		go o.deliver()
	}
}

// tellDropped puts into the queue, which has room again, what it did not take. It is called
// with mu held.
func (o *observer) tellDropped() {
	if o.dropped > 0 {
		o.waiting = append(o.waiting, event.Dropped{Header: o.last, Events: o.dropped})
		o.dropped = 0
	}
}

// deliver calls the function until nothing waits.
func (o *observer) deliver() {
	over := false
	defer func() {
		if !over { // the function has ended this goroutine
			go o.deliver()
		}
	}()
	for o.more() {
		e := o.taken[0]
		o.taken = o.taken[1:]
		o.call(e)
	}
	over = true
}

// more reports whether there is an event for the function.
func (o *observer) more() bool {
	if len(o.taken) > 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.tellDropped()
	}
	o.taken, o.waiting = o.waiting, nil
	if len(o.taken) == 0 {
		close(o.done)
		o.done = nil
		return false
	}
	return true
}

// call survives a panic of the function. The log says so once a minute.
func (o *observer) call(e event.Event) {
	returned := false
	defer func() {
		p := recover()
		if returned {
			return
		}
		if p == nil {
			p = "runtime.Goexit, as by FailNow of a test"
		}
		if time.Since(o.panicked) < time.Minute && !o.panicked.IsZero() {
			return
		}
		o.panicked = time.Now()
		o.log.Error("an observer of events panicked: it goes on with the next event",
			zap.String("event", fmt.Sprintf("%T", e)), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
	}()
	o.f(e)
	returned = true
}

// idle returns a channel that is closed when nothing waits any more.
func (o *observer) idle() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done != nil {
		return o.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}
