package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

// notifying is a store that has notifiers.
type notifying interface {
	store.Locks
	store.Notifiers
}

// process is a store with a notifier, of a process that waits.
type process struct {
	notifying
	notifier store.Notifier
}

// process opens a store and its notifier, which is closed when the case ends.
func (e *lockEnv) process() process {
	e.Helper()
	s, ok := e.open().(notifying)
	if !ok {
		e.Skip("left out: the store has no notifiers")
	}
	return process{s, e.notifier(s)}
}

func (e *lockEnv) notifier(s notifying) store.Notifier {
	e.Helper()
	notifier := s.Notifier()
	e.Cleanup(sync.OnceFunc(func() { _ = notifier.Close() })) // cases that look at its error close it themselves
	return notifier
}

// address is where the notifier is notified; empty if it cannot be.
func (e *lockEnv) address(notifier store.Notifier) string {
	e.Helper()
	address, err := notifier.Address(e.ctx())
	e.ok(err, "Address")
	return address
}

// canBeNotified skips a case for notifiers that only watch the rows.
func (e *lockEnv) canBeNotified(notifier store.Notifier) string {
	e.Helper()
	address := e.address(notifier)
	if address == "" {
		e.Skip("left out: the notifier has no address")
	}
	return address
}

func (e *lockEnv) notify(s process, addresses ...string) {
	e.Helper()
	e.ok(s.notifier.Notify(e.ctx(), addresses...), "Notify")
}

// long is for a Wait that must end before its limit, and atOnce is when. No
// store needs more than a fraction of a second; a machine may be busy.
func (e *lockEnv) long() time.Duration   { return min(25*time.Second, e.h.Patience/2) }
func (e *lockEnv) atOnce() time.Duration { return e.long() / 2 }

// waiting is a Wait that is running.
type waiting struct {
	*lockEnv
	ended chan error
}

// wait begins a Wait. It has ended when the case has.
func (e *lockEnv) wait(ctx context.Context, notifier store.Notifier, rows ...store.LockWatch) waiting {
	e.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w := waiting{e, make(chan error, 1)}
	over := make(chan struct{})
	e.Cleanup(func() {
		cancel()
		<-over
	})
	go func() {
		defer close(over)
		w.ended <- notifier.Wait(ctx, rows, e.long())
	}()
	return w
}

// still checks that Wait goes on for a moment.
func (w waiting) still(what string) {
	w.Helper()
	select {
	case err := <-w.ended:
		w.Fatalf("%s: Wait ended, error %v", what, err)
	case <-time.After(moment):
	}
}

// ends checks that Wait ends, and not by its limit.
func (w waiting) ends(what string) error {
	w.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(w.atOnce()):
		w.Fatalf("%s: Wait has not ended within %v", what, w.atOnce())
		return nil
	}
}

func (w waiting) notified(what string) {
	w.Helper()
	w.ok(w.ends(what), what+": Wait")
}

// notifiedBy notifies until Wait ends: the first notification may come before the database
// has begun to wait.
func (w waiting) notifiedBy(s process, what string, addresses ...string) {
	w.Helper()
	over := time.After(w.atOnce())
	for {
		w.notify(s, addresses...)
		select {
		case err := <-w.ended:
			w.ok(err, what+": Wait")
			return
		case <-time.After(moment):
		case <-over:
			w.Fatalf("%s: Wait has not ended within %v", what, w.atOnce())
		}
	}
}

// waits begins a Wait and checks that it goes on.
func (e *lockEnv) waits(notifier store.Notifier, rows ...store.LockWatch) waiting {
	e.Helper()
	for range 5 { // one may end by its limit
		e.ok(notifier.Wait(e.ctx(), nil, time.Millisecond), "Wait for a notification that is remembered")
	}
	w := e.wait(e.ctx(), notifier, rows...)
	w.still("nothing happens")
	return w
}

// found checks that a Wait returns at once because of a row.
func (e *lockEnv) found(notifier store.Notifier, what string, rows ...store.LockWatch) {
	e.Helper()
	e.wait(e.ctx(), notifier, rows...).notified(what)
}

// limited checks that a Wait lasts until its limit.
func (e *lockEnv) limited(notifier store.Notifier, limit time.Duration, what string, rows ...store.LockWatch) {
	e.Helper()
	var took time.Duration
	for range spurious {
		begin := time.Now()
		e.ok(notifier.Wait(e.ctx(), rows, limit), what+": Wait")
		if took = time.Since(begin); took >= limit*9/10 {
			break
		}
	}
	if took < limit*9/10 {
		e.Errorf("%s: %d times Wait ended early, the last time after %v, want the limit of %v", what, spurious, took, limit)
	} else if took > limit+e.atOnce() {
		e.Errorf("%s: Wait took %v, with a limit of %v", what, took, limit)
	}
}

func watch(name, mark string) store.LockWatch { return store.LockWatch{Name: name, Mark: []byte(mark)} }

var notifierCases = []lockCase{
	{"notifier/a row without its mark", func(e *lockEnv) {
		s := e.process()
		e.put(s, write(one, 0, 1, "a mark, and more"), write(two, 0, 1, ""), write(three, 0, 1, "x"))
		e.limited(s.notifier, 2*moment, "the mark is there", watch(one, "a mark"))
		for what, row := range map[string]store.LockWatch{
			"the row has another":           watch(one, "a remark"),
			"the row has it in other case":  watch(one, "A mark"),
			"the row has a part of it":      watch(one, "a mark, and more than that"),
			"the row has it with a space":   watch(one, "amark"),
			"the queue of the row is empty": watch(two, "a mark"),
			"the row is a part of the mark": watch(three, "xx"),
			"a mark with NUL":               watch(one, "a mark\x00"),
			"a mark that is a pattern":      watch(one, "%mark_"),
		} {
			e.found(s.notifier, what, row)
		}
	}},

	{"notifier/one row of several without its mark", func(e *lockEnv) {
		s := e.process()
		e.put(s, write(one, 0, 1, "mark 1"), write(two, 0, 1, "mark 2"), write(three, 0, 1, "mark 3"))
		all := []store.LockWatch{watch(one, "mark 1"), watch(two, "mark 2"), watch(three, "mark 3")}
		e.limited(s.notifier, 2*moment, "all marks are there", all...)
		for i := range all {
			rows := append([]store.LockWatch{}, all...)
			rows[i].Mark = []byte("mark")
			e.limited(s.notifier, moment, "all marks are there", rows...)
			rows[i].Mark = []byte("mark 4")
			e.found(s.notifier, fmt.Sprint("the mark of row ", i, " is not there"), rows...)
		}
		e.found(s.notifier, "one of two marks of a row is not there", watch(one, "mark 1"), watch(one, "mark 2"))
	}},

	{"notifier/a row that is not there", func(e *lockEnv) {
		s := e.process()
		e.put(s, write(one, 0, 1, "mark"))
		e.found(s.notifier, "the row is not there", watch(two, "mark"))
		e.found(s.notifier, "one of two rows is not there", watch(one, "mark"), watch(two, "mark"))
	}},

	{"notifier/any bytes in a mark", func(e *lockEnv) {
		s := e.process()
		for i, queue := range queues() {
			if queue == "" {
				continue
			}
			name := fmt.Sprint("lock", i)
			e.put(s, write(name, 0, 1, "<"+queue+">"))
			e.limited(s.notifier, 20*time.Millisecond, fmt.Sprintf("the mark %.40q", queue), watch(name, queue))
			e.found(s.notifier, fmt.Sprintf("not the mark %.40q", queue), watch(name, queue+"."))
		}
	}},

	{"notifier/until the limit", func(e *lockEnv) {
		s := e.process()
		e.put(s, write(one, 0, 1, "mark"))
		for _, limit := range []time.Duration{0, time.Microsecond, time.Millisecond, 150 * time.Millisecond, 30 * time.Millisecond} {
			e.limited(s.notifier, limit, "nothing happens", watch(one, "mark"))
		}
		e.limited(s.notifier, moment, "there are no rows")
		if e.h.quick == 0 {
			e.limited(s.notifier, 1200*time.Millisecond, "nothing happens", watch(one, "mark"))
		}
	}},

	{"notifier/a thousand rows", func(e *lockEnv) {
		s, other := e.process(), e.process()
		var writes []store.LockWrite
		var rows []store.LockWatch
		for i := range 1000 {
			name := fmt.Sprint("lock", i)
			writes = append(writes, write(name, 0, 1, "mark of "+name+"."))
			rows = append(rows, watch(name, "mark of "+name+"."))
		}
		e.put(s, writes...)
		address := e.address(s.notifier)
		e.limited(s.notifier, 2*moment, "all marks are there", rows...)
		w := e.waits(s.notifier, rows...)
		e.put(other, write("lock999", 1, 2, "changed"))
		e.notify(other, address)
		w.notified("the last row has changed")
		e.found(s.notifier, "the last row has changed", rows...)
	}},

	{"notifier/a context ends Wait", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		ctx, cancel := context.WithCancel(e.ctx())
		defer cancel()
		w := e.wait(ctx, s.notifier, watch(one, "mark"))
		w.still("nothing happens")
		cancel()
		if err := w.ends("its context ended"); !errors.Is(err, context.Canceled) {
			e.Errorf("Wait after its context ended: error %v, want the context's", err)
		}
		// The notifier still works.
		e.limited(s.notifier, 2*moment, "after a context has ended", watch(one, "mark"))
		address := e.address(s.notifier) // it may have changed
		w = e.waits(s.notifier, watch(one, "mark"))
		e.put(other, write(one, 1, 2, "changed"))
		e.notify(other, address)
		w.notified("after a context has ended")
	}},

	{"context/an ended one, for notifiers", func(e *lockEnv) {
		s := e.process()
		e.put(s, write(one, 0, 1, "mark"))
		address := e.address(s.notifier)
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		if err := e.wait(ctx, s.notifier, watch(one, "mark")).ends("its context has ended"); !errors.Is(err, context.Canceled) {
			e.Errorf("Wait with an ended context: error %v, want the context's", err)
		}
		if _, err := s.notifier.Address(ctx); !errors.Is(err, context.Canceled) {
			e.Errorf("Address with an ended context: error %v, want the context's", err)
		}
		if err := s.notifier.Notify(ctx, address); !errors.Is(err, context.Canceled) {
			e.Errorf("Notify with an ended context: error %v, want the context's", err)
		}
		e.found(s.notifier, "after a context has ended", watch(one, "another"))
	}},

	{"notifier/closed", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		e.ok(e.notifier(s).Close(), "Close before the first use")
		second := e.notifier(s)
		address, mine := e.address(second), e.address(s.notifier)
		e.limited(second, moment, "nothing happens", watch(one, "mark"))
		e.ok(second.Close(), "Close")
		e.ok(second.Close(), "Close again")
		e.notify(s, address)
		// Other notifiers still work.
		w := e.waits(s.notifier, watch(one, "mark"))
		e.notify(other, address, e.address(other.notifier))
		w.still("a notifier that is closed was notified")
		e.put(other, write(one, 1, 2, "changed"))
		e.notify(other, address, mine)
		w.notified("a notifier was closed")
	}},
}
