package scheduler

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/watchdog"
	"github.com/cronlease/cronlease/store"
)

// reader reads the ledger for a term, beside its loop, to which it hands what it has read.
type reader struct {
	*env
	digest  uint64         // of what was open, where other replicas change it
	look    signal         // asks it to read at once
	glance  signal         // asks it to read at once what is open, where other replicas run it
	deep    *atomic.Bool   // a glance is not enough: there are jobs that what replicas write of others concerns
	asks    asks           // asks it to read at once, and tells whether anything was asked of the leader
	number  *atomic.Uint64 // counts the begins and the ends of readings: odd while one is under way
	relists chan relisted  // capacity 1: changes of the list that the ledger was told of; the next reading hands them to takeIn
}

func newReader(v *env) reader {
	return reader{env: v, look: make(chan struct{}, 1), glance: make(chan struct{}, 1), deep: new(atomic.Bool), asks: make(asks), number: new(atomic.Uint64), relists: make(chan relisted, 1)}
}

// run takes in what is asked of the leader, pause, resume, trigger or cancel, until
// the term ends: when the request signal comes, and by what the heartbeats say. Without
// these it looks by itself.
func (f *reader) run() {
	pulse := f.dog.Begin("the look at the ledger")
	defer pulse.End()
	every := f.lookEvery()
	f.beats.listening.Store(true)
	timer := time.NewTimer(every)
	defer timer.Stop()
	asked, idle := false, false // to read the ledger even if nothing has changed; nothing is assigned to this session
	var list relisted
	limit := f.timing.AttemptTimeout
	for {
		pulse.Beat()
		if idle {
			every = f.timing.TTL // the leader wakes a replica again that has not begun what it was given
			pulse.BeatFor(every)
		}
		timer.Reset(every)
		var beat *heard
		var answers []chan<- bool
		glance := false
		select {
		case b := <-f.beats.newest:
			beat = &b
		case answer := <-f.asks:
			answers, glance = append(f.asks.waiting(), answer), true
		case <-f.glance:
			glance = true
		case <-f.look:
			asked = true
		case list = <-f.relists:
			asked = true
		case <-timer.C:
			asked = asked || f.role == serves
		case <-f.ctx.Done():
			return
		}
		if glance && (f.role != assigns || f.deep.Load()) {
			asked, glance = true, false
		}
		sent, number := time.Now(), f.number.Add(1)
		var snapshot jobs.Snapshot
		var changed bool
		var err error
		if glance && !asked {
			snapshot, changed, err = f.glanced(pulse, limit)
		} else {
			snapshot, changed, err = f.news(pulse, beat, asked, limit)
		}
		if f.ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrSkew) {
			f.cut(err)
			return
		}
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) { // as in retryLonger
				limit = min(2*limit, max(limit, openMost/2))
			}
			f.trouble.Failed("read the ledger", err)
			every = min(every, time.Second)
		} else {
			f.trouble.Worked("read the ledger")
			every = f.lookEvery()
		}
		fruit, same := false, false
		idle = f.role == serves && err == nil && len(snapshot.Open) == 0
		if changed {
			fruit, asked = snapshot.Changes != f.beats.known.Swap(snapshot.Changes), false
			if f.role != runsAll {
				now := digest(snapshot.Open)
				same = now == f.digest
				fruit, f.digest = fruit || !same, now
			}
			isSignal := len(answers) > 0
			relisted := list
			list = nil
			f.do(func(t *term) {
				if !t.met(snapshot, sent) {
					if relisted != nil {
						t.reader.relists <- relisted // nothing else is in it while the list changes
					}
					return
				}
				snapshot.Open = t.over.leaveOut(snapshot.Open, number)
				if relisted != nil {
					t.takeIn(relisted, snapshot)
				}
				t.readAt = number
				t.apply(snapshot)
				t.endAway(snapshot.Open)
				// A replica that was woken for nothing may have jobs that the leader lacks.
				if isSignal && (t.role == assigns || t.role == serves && (same || len(snapshot.Open) == 0)) {
					t.lookAround()
				}
			})
		}
		f.number.Add(1)
		for _, answer := range answers {
			answer <- fruit
		}
	}
}

// soon has the ledger read, after what this term knows to be in it.
func (f *reader) soon() {
	f.look.give()
}

// lookEvery is how long the term waits for heartbeats that look at the ledger, until it
// looks by itself.
func (f *reader) lookEvery() time.Duration {
	if _, ok := f.db.(store.Heartbeats); ok {
		return f.timing.RenewEvery + f.timing.AttemptTimeout
	}
	return time.Second
}

// heed waits for the request signal.
func (f *reader) heed() {
	known := f.beats.known.Load
	if f.role == serves {
		known = nil
	}
	keeper.HeldOf(f.ctx).Heed(f.ctx, known, f.request)
}

// request has the ledger read, since the request signal came, and reports whether there was
// a request. Where that takes long, as with a large ledger, a stream of requests has it
// done for a fifth of the time. A replica that is to begin what it was assigned looks again at once.
func (f *reader) request() bool {
	began := time.Now()
	fruit := f.asks.ask(f.ctx)
	if f.role == serves {
		return fruit
	}
	const long = 20 * time.Millisecond
	_ = retry.Sleep(f.ctx, min(4*max(0, time.Since(began)-long), time.Second))
	return fruit
}

// news reads the ledger if that was asked for, if it has changed, or if another server
// has it now, within limit. A beat tells whether it has changed; without one, Changes does.
// Each statement may take nearly a TTL, so each begins with a beat of the pulse.
func (f *reader) news(pulse *watchdog.Pulse, beat *heard, asked bool, limit time.Duration) (snapshot jobs.Snapshot, changed bool, err error) {
	pulse.Beat()
	if beat == nil && !asked {
		soon, cancel := context.WithTimeout(f.ctx, f.timing.AttemptTimeout)
		defer cancel()
		sent := f.clock.Own()
		var present store.Changes
		err := f.stream.Timed(f.head(), "changes", 0, func() (err error) {
			present, err = f.db.Changes(soon, f.holder.Group)
			return err
		})
		if err != nil {
			return snapshot, false, err
		}
		b := hear(f.clock, sent, store.Beat{Asked: present.Number != f.beats.known.Load(), Now: present.Now, Server: present.Server})
		beat = &b
	}
	if beat != nil {
		same, err := f.take(*beat)
		if err != nil || !beat.Asked && same && !asked {
			return snapshot, false, err
		}
	}
	pulse.BeatFor(limit - f.timing.AttemptTimeout)
	ctx, cancel := context.WithTimeout(f.ctx, limit)
	defer cancel()
	sent := f.clock.Own()
	snapshot, err = f.load(ctx, false)
	if err == nil && f.role != serves { // a session has no ticks
		_, err = f.take(hear(f.clock, sent, store.Beat{Now: snapshot.Now, Server: snapshot.Server}))
	}
	return snapshot, err == nil, err
}

// take takes in what an answer says of the server and its clock, and reports whether it is the server of before. Each
// answer counts: while runs are away, the leader may have no others.
func (f *reader) take(b heard) (same bool, err error) {
	keeper.HeldOf(f.ctx).Answered(b.Server)
	if err := f.clock.Observe(b.skew); err != nil {
		return false, err
	}
	return f.memory.Alive(b.Server, b.at, b.Now), nil
}

// glanced reads what is open, and the jobs only if anything else has changed: other replicas have ended runs.
func (f *reader) glanced(pulse *watchdog.Pulse, limit time.Duration) (snapshot jobs.Snapshot, changed bool, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, f.timing.AttemptTimeout)
	defer cancel()
	sent := f.clock.Own()
	err = f.stream.Timed(f.head(), "open", 0, func() (err error) {
		snapshot, err = f.sessions.db.Open(ctx, f.holder.Group, "")
		return err
	})
	if err != nil {
		return f.news(pulse, nil, true, limit)
	}
	b := hear(f.clock, sent, store.Beat{Asked: snapshot.Changes != f.beats.known.Load(), Now: snapshot.Now, Server: snapshot.Server})
	if all, changed, err := f.news(pulse, &b, false, limit); changed || err != nil {
		return all, changed, err
	}
	return snapshot, true, nil
}

// digest stands for runs, as far as others may change them.
func digest(open []jobs.Record) uint64 {
	h := fnv.New64a()
	for _, r := range open {
		_, _ = h.Write([]byte(r.Job))
		_ = binary.Write(h, binary.LittleEndian, []uint64{uint64(r.Tick.UnixMicro()), r.Trigger, uint64(r.State), uint64(r.Attempt), r.Token})
		_ = binary.Write(h, binary.LittleEndian, r.CancelAsked)
	}
	return h.Sum64()
}
