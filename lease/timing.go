package lease

import (
	"fmt"
	"time"
)

// Timing says how long a lease lives and how it is kept. The zero value means
// the defaults. [Timing.Complete] checks the one relation that safety and
// liveness rest on:
//
//	RenewEvery + AttemptTimeout + Grace + Drift*TTL < TTL
//
// so that a holder whose heartbeat fails has time for another attempt, and
// then, still before another replica can take the lease, for its work to stop.
//
// Beside client-go's leader election: TTL is LeaseDuration, [Timing.Trust] is
// RenewDeadline, and RenewEvery is RetryPeriod.
type Timing struct {
	// TTL is how long a lease lives without a renewal, and so how long a group
	// is without a leader after a crash. Default 15 s; 1 s to 24 h. Replicas
	// of one group may have different ones: followers wait for the holder's.
	TTL time.Duration
	// RenewEvery is the time between heartbeats. Default TTL/3, less when a
	// long Grace leaves no room for it. If it is more, it should be the same part of
	// TTL on all replicas of a group: after the connection of a leader at work was cut,
	// the next replica takes its own for the leader's, or TTL/3 if that is longer, and
	// waits that long for a heartbeat.
	RenewEvery time.Duration
	// AttemptTimeout ends one statement to the database. Default TTL/5, less
	// when a long Grace leaves no room for it.
	AttemptTimeout time.Duration
	// Grace is how long work may take to stop once its context has ended: the
	// trust deadline lies this long before the lease can be taken. Default
	// 2/15 of TTL, which is 2 s of 15 s.
	Grace time.Duration
	// Drift is how much the rates of two machines' clocks may differ, as a
	// fraction. Default 0.01, which is far above the 0.0005 that NTP slews
	// by; raise it where clocks are slewed faster. Below 0.25.
	Drift float64
}

// MinTTL and MaxTTL bound [Timing.TTL].
const (
	MinTTL = time.Second
	MaxTTL = 24 * time.Hour
)

// TimingError names the field of a [Timing] that does not fit the others.
type TimingError struct {
	Field string // as in Timing, e.g. "TTL"
	Value string
	Limit string // what would be right
}

func (e *TimingError) Error() string {
	return fmt.Sprintf("lease: %s %s: %s", e.Field, e.Value, e.Limit)
}

// Complete returns t with defaults for its zero fields, or a [*TimingError].
func (t Timing) Complete() (Timing, error) {
	if t.TTL == 0 {
		t.TTL = 15 * time.Second
	}
	if t.TTL < MinTTL || t.TTL > MaxTTL {
		return t, &TimingError{"TTL", t.TTL.String(), fmt.Sprintf("must be from %v to %v", MinTTL, MaxTTL)}
	}
	if t.Drift == 0 {
		t.Drift = 0.01
	}
	if !(t.Drift > 0 && t.Drift < 0.25) { // written so that NaN fails
		return t, &TimingError{"Drift", fmt.Sprint(t.Drift), "must be above 0 and below 0.25"}
	}
	if t.Grace == 0 {
		t.Grace = t.TTL * 2 / 15
	}
	if t.Grace < 0 {
		return t, &TimingError{"Grace", t.Grace.String(), "must not be negative"}
	}
	// A fifth of the TTL is the least that heartbeats can be kept up in.
	if most := t.TTL*4/5 - t.margin(); t.Grace > most {
		return t, &TimingError{"Grace", t.Grace.String(), fmt.Sprintf("must be at most %v with a TTL of %v: heartbeats need the rest", most, t.TTL)}
	}
	trust := t.Trust()
	if t.RenewEvery == 0 {
		t.RenewEvery = min(t.TTL/3, trust/2)
	}
	if t.AttemptTimeout == 0 {
		t.AttemptTimeout = min(t.TTL/5, trust/3)
	}
	if t.RenewEvery < 0 {
		return t, &TimingError{"RenewEvery", t.RenewEvery.String(), "must not be negative"}
	}
	if t.AttemptTimeout < 0 {
		return t, &TimingError{"AttemptTimeout", t.AttemptTimeout.String(), "must not be negative"}
	}
	if t.RenewEvery >= trust-t.AttemptTimeout { // a sum could overflow
		return t, &TimingError{"RenewEvery", t.RenewEvery.String(), fmt.Sprintf(
			"must be below %v: with AttemptTimeout %v it has to fit into TTL %v less Grace %v and drift %v",
			trust-t.AttemptTimeout, t.AttemptTimeout, t.TTL, t.Grace, t.margin())}
	}
	return t, nil
}

// Trust is how long a holder may act after it sent the last statement that is
// known to have renewed its lease.
func (t Timing) Trust() time.Duration { return t.TTL - t.margin() - t.Grace }

// margin is what two clocks' rates may disagree by over one TTL.
func (t Timing) margin() time.Duration { return time.Duration(float64(t.TTL) * t.Drift) }
