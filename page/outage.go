package page

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/lease"
)

// outages notes since when the database cannot be read. The zero outages is ready for use.
type outages struct {
	mu    sync.Mutex
	begun time.Time // of the first reading that failed; zero: the last one that says something worked
}

// note takes in how a reading ended that began at an instant of this machine's clock. What a store
// does not have says nothing of whether it can be read.
func (o *outages) note(begun time.Time, err error) {
	status := statusOf(err)
	if status == http.StatusNotImplemented {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch is := err != nil && status == http.StatusServiceUnavailable; {
	case is && o.begun.IsZero():
		o.begun = begun
	case !is && !begun.Before(o.begun):
		o.begun = time.Time{}
	}
}

// since is from when on it could not be read; zero: it can be.
func (o *outages) since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
}

const (
	// noDatabase is the title of what is shown without the database.
	noDatabase = "The database cannot be read"
	// impatience is how long a view tries to read a database that has just not been readable.
	impatience = 2 * time.Second
)

// patience is how long a view tries to read.
func (p *Page) patience() time.Duration {
	if !p.source.outages.since().IsZero() || p.health != nil && p.health().Database != nil {
		return impatience
	}
	return readsFor
}

// errBusy says that a request got no turn.
var errBusy = errors.New("too many requests wait for the database: try again")

// errUncertain says that what was asked for may have been done although an error says otherwise.
var errUncertain = errors.New("it may have been requested all the same: look at the runs of the job first")

// inWords says an error to users. What a driver or the network says of a database that is away is for the log: it
// names hosts, and helps nobody here.
func inWords(err error) string {
	if statusOf(err) != http.StatusServiceUnavailable || errors.Is(err, errBusy) {
		return err.Error()
	}
	text := noDatabase + "."
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		text = "The database does not answer."
	case errors.Is(err, lease.ErrDenied):
		text = "The database refuses this replica's login."
	case errors.Is(err, lease.ErrSetup):
		text = "The database answers, but cannot be used as it is: it is read-only, has not all tables, or this replica lacks a right."
	case errors.As(err, new(net.Error)):
		text = "The database cannot be reached."
	}
	if errors.Is(err, errUncertain) {
		text += " What was asked for may have been done all the same: look at the runs of the job first."
	}
	return text
}

// outage is what this replica knows while the database cannot be read. Its form is relied on.
type outage struct {
	// Error says what is wrong, in words.
	Error string `json:"error"`
	// Since is from when on the page could not read, by this machine's clock.
	Since *jsontime.Instant `json:"since"`
	// Role and what follows are null where the page has no scheduler that runs.
	Role                *election.Role `json:"role"`
	HeartbeatAgeSeconds *float64       `json:"heartbeat_age_seconds"`
	Running             *int           `json:"running"`
}

// outage is that of an error; false: the database is not what is wrong, and there are only the words.
func (p *Page) outage(err error) (o outage, is bool) {
	o.Error = inWords(err)
	if statusOf(err) != http.StatusServiceUnavailable || errors.Is(err, errBusy) {
		return o, false
	}
	o.Since = jsontime.Of(p.source.outages.since())
	if p.health == nil {
		return o, true
	}
	if h := p.health(); h.Started {
		age := h.HeartbeatAge.Seconds()
		o.Role, o.HeartbeatAgeSeconds = &h.State.Role, &age
	}
	if p.here != nil {
		running := len(p.here.Running())
		o.Running = &running
	}
	return o, true
}

// known are the lines of a page about an outage.
func (o outage) known(now time.Time) (known []pair) {
	if o.Since != nil {
		known = append(known, pair{"Not read since", exact(o.Since.Truncate(time.Second)) + ", for " + took(now.Sub(o.Since.Time))})
	}
	if o.Role != nil {
		does := map[election.Role]string{
			election.Following: "follows, and cannot take over without the database",
			election.Leading:   "leads, until its lease ends for lack of heartbeats",
			election.Draining:  "gives its term up",
		}
		heartbeat := "none was seen"
		if age := time.Duration(*o.HeartbeatAgeSeconds * float64(time.Second)); age > 0 {
			heartbeat = "the newest one seen is " + took(age) + " old"
		}
		known = append(known, pair{"This replica", does[*o.Role]}, pair{"Heartbeat", heartbeat})
	}
	if o.Running != nil {
		known = append(known, pair{"Running here", strconv.Itoa(*o.Running)})
	}
	if known != nil {
		known = append(known, pair{"More", "the log of this replica has the error itself, and worker doctor names the cure"})
	}
	return known
}
