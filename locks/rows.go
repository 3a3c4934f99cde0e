package locks

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

const (
	// namesMost is how many locks' rows are cached at most without a request for them and
	// without need.
	namesMost = 4096
	// idleMost is how many of the locks that were unlocked are reread early, or without need.
	idleMost = 256
)

// rows is all that a client knows of locks. It does no I/O. It hands what the goroutines
// of the client read and wrote to its parts, each of which owns its fields: rounds
// (what has to be written), sight (what is known of the database), requests (what
// callers want), leftovers (what is to be pruned), and for each lock turn and row.
//
// Client.mu guards it with all that it contains: all methods are called with mu held.
type rows struct {
	log       *zap.Logger
	self      process // without token and address
	notifier  *notifier
	rounds    *rounds
	sight     *sight
	requests  *requests
	leftovers *leftovers
	names     map[string]*name
	room      int           // how many names there may be before some are dropped
	trust     time.Duration // of a session, after its last heartbeat
}

func newRows(mu *sync.Mutex, log *zap.Logger, timing lease.Timing, notifier *notifier, self process) *rows {
	rounds := &rounds{writes: make(chan struct{}, 1), asides: make(chan struct{}, 1)}
	sight := &sight{log: log, barredBy: timing.TTL, over: map[sessionID]time.Time{}}
	return &rows{
		log: log, self: self, notifier: notifier, rounds: rounds, sight: sight,
		requests: &requests{
			mu: mu, grace: timing.Grace, self: self, rounds: rounds, sight: sight,
			active: map[*name]bool{}, sessions: make(chan struct{}, 1),
		},
		leftovers: &leftovers{added: make(chan struct{}, 1)},
		names:     map[string]*name{},
		room:      namesMost,
		trust:     timing.Trust(),
	}
}

// name returns the lock of that name.
func (rs *rows) name(text string) *name {
	n := rs.names[text]
	if n == nil {
		if len(rs.names) >= rs.room {
			rs.drop(0)
		}
		n = &name{text: text}
		rs.names[text] = n
	}
	n.use()
	return n
}

// ahead are the other processes that are ahead of a place in the queue of a lock.
func (rs *rows) ahead(n *name, id string) []process {
	return slices.DeleteFunc(n.row.shown().ahead(id), func(of process) bool { return of.Group == rs.self.Group })
}

// why describes what a request was waiting for.
func (rs *rows) why(r *request) string {
	if trouble := rs.rounds.trouble(r.name); trouble != "" {
		return " (" + trouble + ")"
	}
	q := r.name.row.shown()
	for _, p := range q.Places {
		if p.Granted > 0 && p.ID != r.ID {
			return fmt.Sprintf(" (held by %s under token %d)", q.Processes[p.Process].Owner, p.Granted)
		}
	}
	return ""
}

// answeredBy notes which server answered.
func (rs *rows) answeredBy(server string) {
	if barred := rs.sight.answeredBy(server); barred > 0 {
		rs.requests.touchAfter(barred, slices.Collect(rs.requests.locks())...)
	}
}

// outdated returns the locks of a round whose rows have to be read before they are
// written.
func (rs *rows) outdated(r round) (outdated []*name) {
	stale := rs.sight.isStale()
	for _, n := range r.names {
		if stale || n.row.isOutdated() {
			outdated = append(outdated, n)
		}
	}
	return outdated
}

// adopt updates a lock from a reading of its row.
func (rs *rows) adopt(n *name, version uint64, q queue) {
	barred := rs.sight.met(q.Processes)
	back, stuck := n.row.read(version, q, rs.sight.prunedTo(), barred)
	if back {
		rs.log.Warn("the row of a lock went back to an older version: the lock is not granted for a while", zap.String("lock", n.text), zap.Duration("for", barred))
		rs.requests.touchAfter(barred, n)
	}
	if stuck {
		rs.rounds.setAside(n)
	}
	rs.requests.notice(n)
	if !n.turn.isBusy() && !n.row.isSuspended() && (n.isPending() || rs.hasOrphan(n)) {
		rs.rounds.touch(n)
	}
}

// hasOrphan is [name.hasOrphan] of the present session, if there is one.
func (rs *rows) hasOrphan(n *name) bool {
	return rs.requests.inSession() && n.hasOrphan(rs.requests.process().sessionID())
}

// breakOff suspends a lock whose row cannot be decoded, for a while.
func (rs *rows) breakOff(n *name, err error) {
	n.row.breakOff()
	if !rs.requests.breakOff(n, err) {
		return
	}
	rs.log.Error("a lock cannot be granted", zap.String("lock", n.text), zap.Error(err))
	n.row.suspend(lookEvery)
	rs.requests.touchAfter(lookEvery, n)
}

// written updates a lock whose write was carried out.
func (rs *rows) written(p plan) {
	n := p.name
	rs.rounds.written(n)
	n.row.written(p.write, p.queue)
	if len(p.write.Queue) == 0 {
		rs.leftovers.add()
	}
	rs.requests.notice(n)
	if _, woken := rs.notifier.Notifier.(store.Waker); woken {
		return
	}
	for _, address := range p.write.Wake {
		rs.notifier.add(address)
	}
}

// roundEnded ends a round that began then: locks whose rows do not reflect their requests
// yet go into the next.
func (rs *rows) roundEnded(r round, began time.Time) {
	rs.rounds.ended(r, began)
	for _, n := range r.names {
		if n.row.isKnown() {
			rs.requests.notice(n)
			if !n.isPending() {
				rs.rounds.putBack(n)
			}
		}
		switch {
		case n.isIdle(), n.row.isSuspended():
		case !n.row.isKnown() || n.turn.isAside() || n.isPending():
			rs.rounds.touch(n)
		}
	}
	rs.rounds.pokeWriters() // for names that became due while they were busy
}

// roundFailed ends a round whose outcome is unknown.
func (rs *rows) roundFailed(r round, err error, written bool) {
	rs.rounds.failed(r, err, written)
	for _, n := range r.names {
		n.row.forget(written)
		rs.requests.giveUpTries(n, err)
		rs.rounds.touch(n)
	}
	rs.rounds.pokeWriters() // as above
}

// roundLost ends a round of a caller whose outcome is unknown: the writers find out.
func (rs *rows) roundLost(r round, written bool) {
	rs.rounds.lost(r)
	for _, n := range r.names {
		n.row.forget(written)
		rs.rounds.touch(n)
	}
	rs.rounds.pokeWriters() // as above
}

// releaseDead has the places of a session that is over removed from every queue
// that this process knows.
func (rs *rows) releaseDead(p process) {
	rs.sight.ended(p)
	for _, n := range rs.names {
		if n.row.shown().has(p.sessionID()) {
			rs.rounds.touch(n)
		}
	}
}

// reread returns the locks whose rows have to be looked at although this process waits for
// none of them: those that it holds, then those whose last write can be proven by now. Of the
// others, it returns those that were used last: of all while it holds some, because another program
// may restore rows, and of those that were written.
func (rs *rows) reread() []*name {
	var holds, proves, idle []*name
	for _, n := range rs.names {
		switch {
		case n.has(held):
			holds = append(holds, n)
		case !n.isIdle():
		case n.row.mayBeProven(rs.trust):
			proves = append(proves, n)
		default: // known or not: the write that was to repair it may have been refused
			idle = append(idle, n)
		}
	}
	if len(holds) == 0 {
		idle = slices.DeleteFunc(idle, func(n *name) bool { return n.row.isProven() })
	}
	slices.SortFunc(idle, func(a, b *name) int { return b.usedAt().Compare(a.usedAt()) })
	return slices.Concat(holds, proves, idle[:min(len(idle), idleMost)])
}

// tidy drops what was not used for a while.
func (rs *rows) tidy() {
	rs.drop(tidyEvery)
	rs.sight.tidy()
}

// drop drops the locks that were not used for so long, but for those whose rows still matter.
// These can be more than namesMost, so that the next drop is due when their number has doubled.
func (rs *rows) drop(unused time.Duration) {
	for text, n := range rs.names {
		if n.isIdle() && !n.turn.isBusy() && !n.turn.isDue() && n.row.isForgettable() && time.Since(n.usedAt()) > unused {
			delete(rs.names, text)
		}
	}
	rs.room = max(namesMost, 2*len(rs.names))
}

// read takes in a reading of locks that was sent and answered then, but for those that were
// updated meanwhile, or forgotten: the requests of that name may be another's by now. A peek, which
// may be behind, counts as sent at the zero time: it proves nothing.
func (rs *rows) read(names []*name, editions []uint64, reading store.LockReading, sent, replied time.Time, writer bool) {
	rs.answeredBy(reading.Server)
	rs.sight.read(reading, replied)
	for i, n := range names {
		row := reading.Rows[i]
		if n.row.edition() != editions[i] || n.turn.isBusy() && !writer || rs.names[n.text] != n {
			continue
		}
		q, err := decode(n.text, row.Queue)
		if err != nil {
			rs.breakOff(n, err)
			continue
		}
		rs.adopt(n, row.Version, q)
		if !rs.hasOrphan(n) {
			n.row.prove(sent, rs.trust)
		}
	}
}
