package election

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/event"
)

// Role is what a replica is in its campaign.
type Role uint8

const (
	// Following: another replica leads, or none does. The zero value.
	Following Role = iota
	// Leading: this replica leads.
	Leading
	// Draining: this replica gives its term up, and its leading function has not
	// returned yet. Its context has ended, unless the replica leaves by its own wish
	// and its scheduler lets runs finish first (WithDrain there).
	Draining
)

// String returns "following", "leading" or "draining".
func (r Role) String() string {
	switch r {
	case Following:
		return "following"
	case Leading:
		return "leading"
	case Draining:
		return "draining"
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// MarshalText implements [encoding.TextMarshaler].
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Role) UnmarshalText(text []byte) error {
	for known := Following; known <= Draining; known++ {
		if known.String() == string(text) {
			*r = known
			return nil
		}
	}
	return fmt.Errorf("election: role %q: must be following, leading or draining", text)
}

// State is what a replica knows of its group's leader.
type State struct {
	Role Role
	// Owner and Token name the term that this replica last saw; empty while
	// no replica leads.
	Owner string
	Token uint64
	// Cause says why this replica's own term ended, while it drains and in the
	// first state after it.
	Cause error
}

// State is this replica's present state.
func (e *Election) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// become changes the state and tells the observers.
func (e *Election) become(s State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set(s)
}

// becomeLeaving is become for a leader that leaves, unless its term has ended by then.
func (e *Election) becomeLeaving(term context.Context, s State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if term.Err() == nil {
		e.leaving = true
		e.set(s)
	}
}

// hasLeft notes that the term has ended.
func (e *Election) hasLeft() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaving = false
}

// set is become, with e.mu held.
func (e *Election) set(s State) {
	if e.state == s {
		return
	}
	e.state = s
	close(e.changed)
	e.changed = make(chan struct{})
	e.events.post(s)
	switch s.Role {
	case Following:
		e.stream.Emit(event.Following{Header: e.head(0), Leader: s.Owner, LeaderToken: s.Token})
	case Draining:
		e.stream.Emit(event.Draining{Header: e.head(s.Token), Cause: s.Cause})
	case Leading: // when the term is set up
	}
}

// head is the header of an event.
func (e *Election) head(token uint64) event.Header {
	return event.Header{At: time.Now(), Group: e.group, Owner: e.keeper.Owner(), Token: token}
}

// Server is the identity of the database server that answered the last look at the
// lease ([store.Reading.Server]), which is the one before a term began while this
// replica leads. Empty before the first look.
func (e *Election) Server() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

// answered notes which server has answered. Only the campaign calls it: the
// candidate is its own.
func (e *Election) answered() {
	r := e.candidate.Reading()
	if r == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = r.Server
}

// expect notes that the campaign made progress, and will again within wait.
func (e *Election) expect(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.due = time.Now().Add(wait)
}

// untilAsked is for a campaign that waits for an event that may never come.
const untilAsked = 100 * 365 * 24 * time.Hour

// beatsLate is how long no heartbeat was sent or found not to be needed, if that
// is longer than a TTL, and otherwise zero.
func (e *Election) beatsLate() time.Duration {
	late := min(e.keeper.LastAttempt(), time.Since(e.began)) // the keeper may be older
	if late <= e.timing.TTL {
		return 0
	}
	return late
}

// mailbox hands states to the observers, in order and without a bound: a change
// is never dropped, and never waits for an observer.
type mailbox struct {
	observers []func(State)

	mu     sync.Mutex
	posted []State
	more   chan struct{} // capacity 1
	closed bool
}

func newMailbox() *mailbox { return &mailbox{more: make(chan struct{}, 1)} }

func (m *mailbox) post(s State) {
	if len(m.observers) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posted = append(m.posted, s)
	m.signal()
}

func (m *mailbox) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = false
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// deliver calls the observers until the mailbox is closed and empty.
func (m *mailbox) deliver() {
	for {
		m.mu.Lock()
		posted, closed := m.posted, m.closed
		m.posted = nil
		m.mu.Unlock()
		for _, s := range posted {
			for _, f := range m.observers {
				f(s)
			}
		}
		if closed && len(posted) == 0 {
			return
		}
		if len(posted) == 0 {
			<-m.more
		}
	}
}
