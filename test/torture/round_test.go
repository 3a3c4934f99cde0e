package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// round is three players on a database of their own, and what happens to them.
type round struct {
	t          testing.TB
	random     *rand.Rand
	ttl, grace time.Duration
	maxSkew    time.Duration // of players that judge ticks by the database's clock; zero: they do so by their own
	spread     bool          // the runs are spread over the players
	database   database
	slots      []*slot
	work       sync.WaitGroup // what reads the players' output

	mu       sync.Mutex // guards all below
	events   []Event
	more     chan struct{} // closed and replaced with each event
	troubles []string      // what went wrong that no check of the history would find
	backs    []back
	stepped  time.Time // when a clock was last stepped
	denied   time.Time // until when players may hold back logins that were refused
}

// back is how long it took until a run began again after a fault was healed.
type back struct {
	after string
	took  time.Duration
}

// patience bounds each wait for something that should come soon: a multiple of what any fault takes.
const patience = 90 * time.Second

func newRound(t testing.TB, kind string, seed uint64) *round {
	t.Helper()
	r := &round{t: t, random: rand.New(rand.NewPCG(seed, 0)), ttl: 2 * time.Second, grace: 300 * time.Millisecond, more: make(chan struct{})}
	if r.random.IntN(2) == 0 {
		r.maxSkew = 2 * time.Second
	}
	r.spread = *mode == "spread" || *mode == "both" && r.random.IntN(2) == 0
	t.Logf("spread: %v", r.spread)
	r.database = newDatabase(t, r, kind)
	for i := range 3 {
		s := &slot{round: r, name: fmt.Sprintf("w%d", i+1)}
		var addrs []string
		for _, addr := range r.database.addrs(i) {
			proxy := r.database.proxy(t, addr)
			s.proxies = append(s.proxies, proxy)
			addrs = append(addrs, proxy.Addr())
		}
		s.dsn = r.database.dsn(addrs)
		r.slots = append(r.slots, s)
	}
	t.Cleanup(func() {
		for _, s := range r.slots {
			s.kill()
		}
		r.work.Wait()
	})
	return r
}

// record takes in an event.
func (r *round) record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// note records what is done to all, now.
func (r *round) note(kind Kind, text string) {
	r.record(Event{At: time.Now().UnixNano(), Kind: kind, Text: text})
}

// broken notes what is no fault that was injected.
func (r *round) broken(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles = append(r.troubles, fmt.Sprintf(format, args...))
}

// mark is a place in the history, to look at what comes after it.
func (r *round) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// since reports whether an event after the mark matches.
func (r *round) since(mark int, match func(Event) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[mark:] {
		if match(e) {
			return true
		}
	}
	return false
}

// wait waits for such an event, and returns it, or false when it does not come in time.
func (r *round) wait(mark int, limit time.Duration, match func(Event) bool) (Event, bool) {
	deadline := time.After(limit)
	for {
		r.mu.Lock()
		events, more := r.events[mark:], r.more
		r.mu.Unlock()
		for _, e := range events {
			if match(e) {
				return e, true
			}
		}
		mark += len(events)
		select {
		case <-more:
		case <-deadline:
			return Event{}, false
		}
	}
}

// rest lets the time pass that a fault lasts.
func (r *round) rest(d time.Duration) { <-time.After(d) }

// mayStep reports whether a clock may be stepped now: not twice between two readings of a follower, which is what the
// guarantees assume.
func (r *round) mayStep() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.stepped) > 8*r.ttl
}

// mayStepForGood is mayStep, for a clock that stays so: only players that judge ticks by their own clock go on then, or
// know which ticks have been.
func (r *round) mayStepForGood() bool { return r.maxSkew == 0 && r.mayStep() }

// mayStepForAWhile is mayStep for players that judge ticks by the database's clock, which has to be set right again then.
func (r *round) mayStepForAWhile() bool { return r.maxSkew > 0 && r.mayStep() }

// step notes that a clock is stepped.
func (r *round) step() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepped = time.Now()
}

// leader is the slot of the newest term, if its process still has it as far as is known.
func (r *round) leader() *slot {
	r.mu.Lock()
	var worker string
	var token uint64
	for _, e := range r.events {
		switch {
		case e.Kind == Lead && e.Token > token:
			worker, token = e.Worker, e.Token
		case e.Kind == Drain && e.Worker == worker && e.Token == token:
			worker = ""
		}
	}
	r.mu.Unlock()
	for _, s := range r.slots {
		if p := s.now(); p != nil && p.worker == worker && worker != "" {
			return s
		}
	}
	return nil
}

// token is the newest that was led under.
func (r *round) token() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var token uint64
	for _, e := range r.events {
		if e.Kind == Lead {
			token = max(token, e.Token)
		}
	}
	return token
}

// settle waits until a run of a job has begun after what is named was healed, and notes how long that took.
func (r *round) settle(after string, limit time.Duration) bool {
	from, mark := time.Now(), r.mark()
	for {
		_, ok := r.wait(mark, limit-time.Since(from)+r.starved(mark), func(e Event) bool { return e.Kind == Run && e.Job == "all" })
		if ok {
			r.mu.Lock()
			r.backs = append(r.backs, back{after, time.Since(from)})
			r.mu.Unlock()
			return true
		}
		if time.Since(from) > limit+r.starved(mark) {
			return false
		}
	}
}

// starved returns for how long the players together did not get to run since the mark: the machine's fault alone.
func (r *round) starved(mark int) (sum time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[mark:] {
		if e.Kind == Starved {
			sum += time.Duration(e.For)
		}
	}
	return sum
}

// over waits until no run of a tick up to then is left to be done.
func (r *round) over(ctx context.Context, to time.Time) error {
	for {
		n, err := r.database.left(ctx, to)
		if err == nil && n == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d runs are not over (%w)", n, err)
		}
		r.rest(100 * time.Millisecond)
	}
}

// history is what the round's checks look at, once all players have ended.
func (r *round) history(ctx context.Context, from, to time.Time) (History, error) {
	h := History{Policies: Policies, TTL: r.ttl, Grace: r.grace, MaxSkew: r.maxSkew, Spread: r.spread, From: from.UnixMicro(), To: to.UnixMicro()}
	r.mu.Lock()
	h.Events = append(h.Events, r.events...)
	r.mu.Unlock()
	var err error
	h.Rows, h.Effects, err = r.database.read(ctx)
	return h, err
}
