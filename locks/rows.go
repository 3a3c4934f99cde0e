package locks

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
)

// rows is all that a client knows of locks: the requests of its process, what it
// has seen of their rows, and which of these have to be written. It does no I/O.
// Client.mu guards it with all that it contains: all of its methods are called with
// mu held, and those of name and request are, too.
type rows struct {
	mu     *sync.Mutex // the client's, for timers
	log    *zap.Logger
	timing lease.Timing
	self   process // without token and address

	writes   chan struct{} // capacity 1: some name is dirty
	asides   chan struct{} // capacity 1: some name that is set aside is dirty
	sessions chan struct{} // capacity 1: a session may be needed, or may end
	left     chan struct{} // capacity 1: there are rows without holders and waiters
	notifier *notifier

	names  map[string]*name
	active map[*name]bool // the names that have requests
	dirty  []*name
	flying int       // rounds that are under way, of names that are not set aside
	rounds int       // those of them that will not wait for a row
	until  time.Time // when the newest of them has taken so long that another may begin
	// gathering: a writer was poked since the last batch was taken, and waits for
	// the next one to grow.
	gathering bool
	// waiting: a round's only write may wait if its row, which is not set aside,
	// is locked.
	waiting bool
	alone   bool // the last round was quick, of one row, and nobody else wanted anything

	session *session // nil before the first one
	number  uint64   // of requests that had a place
	closing bool
	over    map[sessionID]time.Time // sessions of other processes that are over

	server   string // that answered last
	clock    clock
	floor    uint64    // see [store.LockReading.Floor]
	barred   time.Time // no lock is granted before this instant
	barredBy time.Duration
	emptied  time.Time // when a row was last written without holders and waiters
	wrote    time.Time // when a row was last written
	failure  error     // of the last statement, nil after a successful one
}

// clock is the database's, as a reading showed it.
type clock struct {
	now time.Time // the database's
	at  time.Time // ours
}

func newRows(mu *sync.Mutex, log *zap.Logger, timing lease.Timing, notifier *notifier, self process) *rows {
	return &rows{
		mu: mu, log: log, timing: timing, self: self, notifier: notifier,
		writes:   make(chan struct{}, 1),
		asides:   make(chan struct{}, 1),
		sessions: make(chan struct{}, 1),
		left:     make(chan struct{}, 1),
		names:    map[string]*name{},
		active:   map[*name]bool{},
		over:     map[sessionID]time.Time{},
		barredBy: timing.TTL, // the longest TTL seen
	}
}

// name is what this process knows of one lock that it uses or has used lately.
type name struct {
	text     string
	requests []*request // in order of arrival
	dirty    bool       // in rows.dirty
	busy     bool       // in a round of the writer
	used     time.Time
	seen     time.Time // when its row was last read or written

	// The row as it was last seen. This cache is only a guess, which the
	// comparison in the next write checks.
	known   bool
	news    uint64 // counts the updates of this cache
	version uint64
	queue   queue
	// highest is the newest version seen since the row was last found to be
	// rewound, and floor the newest ever.
	highest, floor uint64
	// contended: other processes were seen to write the row, so it is read before
	// it is written, which costs less than a failed comparison.
	contended bool
	// refused: a write was not carried out, and the row was not read since.
	refused bool
	// aside: its row is written separately from all others, because another
	// transaction keeps it locked, or because it cannot be written.
	aside bool
	// most is the largest batch that it may be written in, 0 for no limit; failed is
	// when a write of it alone last failed, and failure the error of the last read
	// or write of its row, nil if that succeeded.
	most    int
	failed  time.Time
	failure error
	// broken: its row could not be decoded. It is read again after this instant.
	broken time.Time
	// unsure: a write of ours was not answered and may still be carried out,
	// until another one succeeds.
	unsure bool
	// barred: the lock is not granted before this instant. Its row was rewound,
	// and a holder may still trust a place that is gone.
	barred time.Time
}

// name returns the lock of that name.
func (rs *rows) name(text string) *name {
	n := rs.names[text]
	if n == nil {
		n = &name{text: text}
		rs.names[text] = n
	}
	n.used = time.Now()
	return n
}

// touch schedules the lock for the writer.
func (rs *rows) touch(n *name) {
	if n.dirty {
		return
	}
	n.dirty = true
	rs.dirty = append(rs.dirty, n)
	switch {
	case n.aside:
		poke(rs.asides)
	case rs.rounds == 0 || !rs.gathering || len(rs.dirty) >= batchMost:
		rs.gathering = true
		poke(rs.writes)
	}
}

// setAside leaves a row to the goroutine that writes such rows one by one. Without the
// poke, a name that is dirty already would wait for the next time that another one is
// set aside.
func (rs *rows) setAside(n *name) {
	n.aside = true
	if n.dirty {
		poke(rs.asides)
	}
}

// touchAfter is touch, after a while, for the names that have requests then.
func (rs *rows) touchAfter(wait time.Duration, names ...*name) {
	time.AfterFunc(wait, func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		for _, n := range names {
			if len(n.requests) > 0 {
				rs.touch(n)
			}
		}
	})
}

// own schedules the lock as touch does. If its caller is alone, and the database is quick,
// it returns the round for the caller to carry out instead.
func (rs *rows) own(n *name) (batch []*name) {
	if !rs.alone || rs.flying > 0 || len(rs.dirty) > 0 || n.busy || n.aside || rs.closing {
		rs.touch(n)
		return nil
	}
	n.dirty = true
	rs.dirty = append(rs.dirty, n)
	batch, _ = rs.take(false)
	return batch
}

// take returns the locks of the next round: those that became dirty first, sorted by
// name, because statements that lock rows in one order do not deadlock. If there are
// none yet, it returns how long to wait unless poked.
func (rs *rows) take(aside bool) (batch []*name, wait time.Duration) {
	most := batchMost
	if aside {
		most = 1
	} else {
		if rs.flying >= writers { // one of them is a caller's
			return nil, time.Hour
		}
		if rs.rounds > 0 && len(rs.dirty) > 0 && len(rs.dirty) < batchMost {
			if wait := time.Until(rs.until); wait > 0 {
				return nil, wait
			}
		}
		rs.gathering = false
	}
	rs.dirty = slices.DeleteFunc(rs.dirty, func(n *name) bool {
		least := most
		if n.most > 0 {
			least = min(most, n.most)
		}
		if n.aside != aside || n.busy || len(batch) >= least {
			return false
		}
		most = least
		batch = append(batch, n)
		n.dirty, n.busy = false, true
		return true
	})
	slices.SortFunc(batch, func(a, b *name) int { return strings.Compare(a.text, b.text) })
	if len(batch) > 0 && !aside {
		rs.flying++
		rs.rounds++
		rs.until = time.Now().Add(patience + time.Duration(len(batch))*patienceForRow)
		if len(rs.dirty) > 0 {
			poke(rs.writes) // for another writer
		}
	}
	return batch, time.Hour
}

// mayWait allows a round whose only write may wait for its row, one at a time.
func (rs *rows) mayWait() bool {
	if rs.waiting {
		return false
	}
	rs.waiting = true
	rs.rounds--
	if len(rs.dirty) > 0 {
		poke(rs.writes) // these need not gather any more
	}
	return true
}

// waited ends what mayWait allowed.
func (rs *rows) waited() {
	rs.waiting = false
	rs.rounds++
}

// now estimates the database's clock, in microseconds since 1970. It serves display
// and new versions; no expiry is decided by it.
func (rs *rows) now() int64 {
	if rs.clock.now.IsZero() {
		return 0
	}
	return rs.clock.now.Add(time.Since(rs.clock.at)).UnixMicro()
}

// answeredBy notes which server answered. After a change of server, the client
// grants no lock for a TTL: the new server may lack the last writes, which a
// holder trusts for a TTL at most.
func (rs *rows) answeredBy(server string) {
	if rs.server != "" && rs.server != server {
		rs.log.Warn("another server answers: no lock is granted for a while", zap.String("server", server), zap.Duration("for", rs.barredBy))
		rs.barred = time.Now().Add(rs.barredBy)
		rs.touchAfter(rs.barredBy, slices.Collect(maps.Keys(rs.active))...)
	}
	rs.server = server
}

// adopt updates a lock from a reading of its row.
func (rs *rows) adopt(n *name, version uint64, q queue) {
	for _, p := range q.Processes {
		rs.barredBy = max(rs.barredBy, min(p.TTL, lease.MaxTTL))
	}
	if version < n.highest && (version > 0 || !n.pruned(rs.floor)) {
		// A holder may still trust a place that is gone.
		rs.log.Warn("the row of a lock went back to an older version: the lock is not granted for a while", zap.String("lock", n.text), zap.Duration("for", rs.barredBy))
		n.barred = time.Now().Add(rs.barredBy)
		rs.touchAfter(rs.barredBy, n)
	}
	n.highest, n.floor = version, max(n.floor, version)
	if n.refused && version == n.version {
		rs.setAside(n) // the write was refused although the version matches
	}
	n.refused = false
	if n.known {
		n.contended = version != n.version
	}
	n.known, n.version, n.queue, n.seen = true, version, q, time.Now()
	n.news++
	rs.notice(n)
	if !n.busy && !n.suspended() && (n.pending() || rs.hasOrphan(n)) {
		rs.touch(n)
	}
}

// written updates a lock whose write was carried out.
func (rs *rows) written(p plan) {
	n := p.name
	n.news++
	n.aside, n.refused, n.most, n.failure = false, false, 0, nil
	rs.wrote = time.Now()
	n.known, n.version, n.queue, n.unsure = true, p.write.Version, p.queue, false
	n.highest, n.floor, n.seen = n.version, max(n.floor, n.version), time.Now()
	if len(p.write.Queue) == 0 {
		rs.emptied = n.seen
		poke(rs.left)
	}
	rs.notice(n)
	for _, g := range p.granted {
		of := p.queue.Processes[g.Process]
		if of.Group != rs.self.Group && of.Address != "" {
			rs.notifier.add(of.Address)
		}
	}
}

// notWritten updates a lock whose row was not as its write expected.
func (rs *rows) notWritten(n *name) {
	n.news++
	n.known, n.contended, n.refused = false, true, true
}

// roundEnded ends a round: locks whose rows do not reflect their requests yet go
// into the next.
func (rs *rows) roundEnded(batch []*name, aside bool) {
	rs.landed(aside)
	rs.failure = nil
	for _, n := range batch {
		n.busy, n.failure = false, nil
		if n.known {
			rs.notice(n)
		}
		if n.known && !n.refused && !n.pending() {
			n.aside = false
		}
		switch {
		case len(n.requests) == 0:
			if len(rs.names) > namesMost && !n.dirty {
				delete(rs.names, n.text)
			}
		case n.suspended():
		case !n.known || n.aside || n.pending():
			rs.touch(n)
		}
	}
	rs.pokeWriters() // for names that became dirty while they were busy
}

// wanted reports whether a request for one of these locks still waits.
func (rs *rows) wanted(batch []*name) bool {
	return slices.ContainsFunc(batch, func(n *name) bool {
		return slices.ContainsFunc(n.requests, func(r *request) bool { return r.state == wanted })
	})
}

// roundFailed ends a round whose outcome is unknown.
func (rs *rows) roundFailed(batch []*name, err error, written, aside bool) {
	rs.landed(aside)
	rs.alone = false
	if !batch[0].aside {
		rs.failure = err
	}
	if written {
		rs.narrow(batch)
	}
	for _, n := range batch {
		n.known, n.busy, n.failure = false, false, err
		n.unsure = n.unsure || written
		rs.failTries(n, err)
		rs.touch(n)
	}
	rs.pokeWriters() // as above
}

// roundLost ends a round of a caller whose outcome is unknown: the writers find out.
func (rs *rows) roundLost(batch []*name, written bool) {
	rs.landed(false)
	rs.alone = false
	for _, n := range batch {
		n.known, n.busy = false, false
		n.unsure = n.unsure || written
		rs.touch(n)
	}
	rs.pokeWriters() // as above
}

// landed ends a round.
func (rs *rows) landed(aside bool) {
	if !aside {
		rs.flying--
		rs.rounds--
	}
}

// narrow narrows down which row made a batch fail, if it was not the database: each
// row is retried in a batch of at most half the size, and a row that fails alone
// while others are written is set aside.
func (rs *rows) narrow(batch []*name) {
	for _, n := range batch {
		n.most = max(1, len(batch)/2)
	}
	if n := batch[0]; len(batch) == 1 {
		if !n.failed.IsZero() && rs.wrote.After(n.failed) {
			rs.setAside(n)
		}
		n.failed = time.Now()
	}
}

// pokeWriters wakes the goroutines that have something to write.
func (rs *rows) pokeWriters() {
	aside := func(n *name) bool { return n.aside }
	if slices.ContainsFunc(rs.dirty, aside) {
		poke(rs.asides)
	}
	if slices.ContainsFunc(rs.dirty, func(n *name) bool { return !aside(n) }) {
		poke(rs.writes)
	}
}

// tidy drops what was not used for a while.
func (rs *rows) tidy() {
	for text, n := range rs.names {
		if len(n.requests) == 0 && !n.busy && !n.dirty && time.Since(n.used) > tidyEvery {
			delete(rs.names, text)
		}
	}
	for s, since := range rs.over {
		if time.Since(since) > tidyEvery {
			delete(rs.over, s)
		}
	}
}

// waits returns this process's first waiting place in the queue as it is known, or
// nil if there is none.
func (n *name) waits() *place {
	if !n.known {
		return nil
	}
	for i := range n.queue.Places {
		p := &n.queue.Places[i]
		if p.Granted > 0 {
			continue
		}
		for _, r := range n.requests {
			if r.ID == p.ID && r.state == wanted && r.session != nil && !r.session.over {
				return p
			}
		}
	}
	return nil
}

// holds reports whether this process holds the lock.
func (n *name) holds() bool {
	return slices.ContainsFunc(n.requests, func(r *request) bool { return r.state == held })
}

// pending reports whether the row does not reflect a request yet.
func (n *name) pending() bool {
	return slices.ContainsFunc(n.requests, func(r *request) bool {
		return r.session != nil && !r.session.over && (r.state == leaving || r.state == wanted && n.queue.find(r.ID) == nil)
	})
}

// suspended reports whether the lock's row could not be decoded or was rewound, a
// short while ago.
func (n *name) suspended() bool {
	now := time.Now()
	return now.Before(n.broken) || now.Before(n.barred)
}

// pruned reports whether a lock's row, which is missing, can have been deleted by
// pruning: it had no holders and waiters when this process last saw it, or that
// was long enough ago.
func (n *name) pruned(floor uint64) bool {
	return floor >= n.highest && (len(n.queue.Places) == 0 || time.Since(n.seen) >= pruneIdle*9/10)
}

// mayBePruned reports whether a lock's row, which existed when it was last seen,
// may have been pruned since: reading it first is quicker than a write that finds
// no row.
func (n *name) mayBePruned() bool {
	return n.version > 0 && len(n.queue.Places) == 0 && time.Since(n.seen) >= pruneIdle*9/10
}
