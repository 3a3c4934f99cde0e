package keeper

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// A model of one holder, one database and one follower in real time, each with
// a clock of its own rate; any two rates agree within 1 %.
type model struct {
	holder, database, self float64 // rates
	steps                  []step  // of the database's clock
	beats                  []beat
	epoch                  instant
	ttl                    time.Duration
}

type step struct{ at, by time.Duration }

// beat is one renewal: when its holder sent it, the statement began in the
// server, and its row could be read.
type beat struct{ sent, began, applied time.Duration }

func rate() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.SampledFrom([]float64{0.9951, 1, 1.0049}), rapid.Float64Range(0.9951, 1.0049))
}

func span(low, high time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(int64(low), int64(high)), func(i int64) time.Duration { return time.Duration(i) })
}

// usually draws from 0 to most, and now and then from 0 to much more.
func usually(most, muchMore time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		if rapid.IntRange(0, 5).Draw(t, "unusual") == 0 {
			return span(0, muchMore).Draw(t, "long")
		}
		return span(0, most).Draw(t, "short")
	})
}

func newModel(t *rapid.T) *model {
	return &model{
		holder: rate().Draw(t, "holder's rate"), database: rate().Draw(t, "database's rate"), self: rate().Draw(t, "follower's rate"),
		epoch: instants(clocks.Now)(), ttl: rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second, time.Minute, time.Hour}).Draw(t, "TTL"),
	}
}

func scale(d time.Duration, rate float64) time.Duration {
	return time.Duration(math.Round(float64(d) * rate))
}

// clock is the database's clock at a real time.
func (m *model) clock(at time.Duration) time.Time {
	shown := scale(at, m.database)
	for _, s := range m.steps {
		if s.at <= at {
			shown += s.by
		}
	}
	return m.epoch.wall.Add(shown).Round(time.Microsecond)
}

// own is the follower's clock at a real time.
func (m *model) own(at time.Duration) instant {
	d := scale(at, m.self)
	return instant{mono: m.epoch.mono.Add(d), wall: m.epoch.wall.Add(d)}
}

// visible is the newest heartbeat that can be read at a real time.
func (m *model) visible(at time.Duration) int {
	newest := 0
	for i, b := range m.beats {
		if b.applied <= at {
			newest = i
		}
	}
	return newest
}

// reading is what the follower's watch learns from the database at real time
// seen, between sent and replied; it returns the real time from which the
// follower would take the lease.
func (m *model) reading(w *watch, sent, seen, replied time.Duration) time.Duration {
	b := m.visible(seen)
	w.observe(store.Reading{
		Now: m.clock(seen), Server: "one", Fence: &store.Fence{Owner: "o", Token: 1},
		Lease: &store.Lease{Owner: "o", Token: 1, Heartbeat: uint64(b + 1), RenewedAt: m.clock(m.beats[b].began), TTL: m.ttl},
	}, m.own(sent), m.own(replied))
	return replied + max(0, scale(w.takeableIn(m.own(replied)), 1/m.self))
}

// addBeats lets the holder renew until a real time, with any delays.
func (m *model) addBeats(t *rapid.T, until time.Duration) {
	at := time.Duration(0)
	for at < until {
		b := beat{sent: at}
		b.began = b.sent + usually(m.ttl/100, m.ttl/2).Draw(t, "way to the server")
		b.applied = b.began + usually(m.ttl/1000, m.ttl/2).Draw(t, "wait in the server")
		m.beats = append(m.beats, b)
		at = b.applied + span(m.ttl/100, m.ttl/2).Draw(t, "pause")
		if rapid.IntRange(0, 20).Draw(t, "silence") == 0 {
			at += usually(m.ttl, 100*m.ttl).Draw(t, "silence of")
		}
	}
}

// Whatever the heartbeats, the latencies, the steps of the database's clock
// (between two readings in one direction, unless they are far apart) and the rates of the clocks: no
// reading lets the follower take the lease before the holder's context has
// ended, a grace ago.
func TestFollowerIsNeverEarly(t *testing.T) {
	t.Parallel()
	const ownTTL = 15 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		timing, err := lease.Timing{TTL: m.ttl}.Complete()
		if err != nil {
			t.Fatal(err)
		}
		type reading struct{ sent, seen, replied time.Duration }
		var readings []reading
		at := span(0, m.ttl).Draw(t, "first look")
		for range rapid.IntRange(2, 12).Draw(t, "readings") {
			r := reading{sent: at}
			r.seen = r.sent + 1 + usually(m.ttl/100, m.ttl).Draw(t, "way there")
			r.replied = r.seen + usually(m.ttl/100, m.ttl).Draw(t, "way back")
			readings = append(readings, r)
			at = r.replied + usually(m.ttl, 100*m.ttl).Draw(t, "until the next look")
		}
		m.addBeats(t, at)
		last := reading{}
		for _, r := range readings {
			direction := rapid.SampledFrom([]time.Duration{1, -1})
			sign := direction.Draw(t, "direction")
			for range rapid.IntRange(0, 2).Draw(t, "steps") {
				if r.sent-last.replied > max(m.ttl, ownTTL)*21/10 { // too long ago to be relied on
					sign = direction.Draw(t, "direction")
				}
				// The clock that a reading shows has the steps of that very instant.
				m.steps = append(m.steps, step{at: span(last.seen+1, r.seen).Draw(t, "step at"), by: time.Duration(int64(sign) * int64(usually(m.ttl, 10*time.Hour).Draw(t, "step by")))})
			}
			last = r
		}
		w := &watch{ttl: ownTTL, drift: timing.Drift}
		for _, r := range readings {
			takes := m.reading(w, r.sent, r.seen, r.replied)
			b := m.beats[m.visible(r.seen)]
			ends := b.sent + scale(timing.Trust()+timing.Grace, 1/m.holder)
			if takes < ends-10*time.Microsecond {
				t.Fatalf("reading at %v: the lease may be taken at %v, and the holder, who renewed it at %v (began %v, applied %v), has work until %v",
					r.seen, takes, b.sent, b.began, b.applied, ends)
			}
		}
	})
}

// A follower that looks when it is time to takes the lease a TTL after the last
// heartbeat, but for what two clocks can differ by between two looks, and the
// latencies.
func TestFollowerIsInTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.addBeats(t, m.ttl*time.Duration(rapid.IntRange(1, 20).Draw(t, "alive for TTLs")))
		latency := usually(time.Millisecond, 200*time.Millisecond).Draw(t, "latency")
		w := &watch{ttl: m.ttl, drift: 0.01}
		last := m.beats[len(m.beats)-1].applied
		first := span(0, m.ttl).Draw(t, "first look")
		last = max(last, first)
		for at, gap, looks := first, time.Duration(0), 0; ; looks++ {
			if looks > 1_000_000 {
				t.Fatal("never taken")
			}
			takes := m.reading(w, at, at+latency, at+2*latency)
			if takes <= at+2*latency {
				if m.visible(at+latency) != len(m.beats)-1 {
					// The holder was silent for longer than its TTL.
					at += time.Second
					continue
				}
				if late := at - last - scale(m.ttl, 1/m.self); late > gap/50+8*latency+time.Millisecond {
					t.Fatalf("taken %v late, with looks %v apart and a latency of %v", late, gap, latency)
				}
				return
			}
			gap = max(gap, min(takes-at, time.Minute))
			at = min(takes, at+time.Minute)
		}
	})
}
