package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// watching is no flaw: notifiers that have no address and look at the rows all
// the time.
const watching = "notifiers that watch"

// database has the locks of a store in memory with one of the flaws, or none,
// beside the leases of a sound one.
type lockDatabase struct {
	flaw   string
	leases *memdb.Store

	mu       sync.Mutex
	busy     int
	rows     map[string]*lockRow
	sessions map[string]*session
	doors    map[string]*door
	number   int
	pruned   map[string]uint64
	floor    uint64
	past     map[string]bool // writes that were done
	process  int
}

type lockRow struct {
	store.LockRow
	first, last time.Time
	writes      int
}

// session is what a flaw knows of a session's lease.
type session struct{ first time.Time }

func newLockDatabase(flaw string) *lockDatabase {
	return &lockDatabase{
		flaw: flaw, leases: memdb.New(), rows: map[string]*lockRow{}, sessions: map[string]*session{}, doors: map[string]*door{},
		pruned: map[string]uint64{}, past: map[string]bool{},
	}
}

func (d *lockDatabase) quickHarness() Harness {
	h := d.harness()
	h.quick, h.Patience = 5, 1500*time.Millisecond
	return h
}

func (d *lockDatabase) harness() Harness {
	return Harness{
		Open: func(testing.TB) store.Leases {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.process++
			return &flawedStore{Leases: d.leases, lockDatabase: d, number: d.process}
		},
		StepClock: func(_ testing.TB, by time.Duration) { d.leases.StepClock(by) },
		Restart:   func(testing.TB) { d.leases.Restart() },
	}
}

// store is one of the database: the leases of a sound one, and locks.
type flawedStore struct {
	store.Leases
	*lockDatabase
	number int
}

func (d *lockDatabase) has(flaw string) bool { return d.flaw == flaw }

// elsewhere lets other goroutines run in the middle of what should be one statement.
func (d *lockDatabase) elsewhere() {
	d.mu.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	<-time.After(50 * time.Microsecond)
	d.mu.Lock()
}

// alone returns an error while another statement runs, if that is the flaw.
func (d *lockDatabase) alone(flaw string) (func(), error) {
	if !d.has(flaw) {
		return func() {}, nil
	}
	d.busy++
	if d.elsewhere(); d.busy > 1 {
		d.busy--
		return nil, errors.New("deadlock")
	}
	return func() { d.busy-- }, nil
}

func (d *lockDatabase) ended(ctx context.Context, what string) error {
	switch {
	case d.has("context: "+what) || ctx.Err() == nil:
		return nil
	case d.has("context: an error of its own"):
		return errors.New("connection lost")
	}
	return ctx.Err()
}

// instant is the server's clock and its identity.
func (d *lockDatabase) instant() (now time.Time, server string) {
	rs, err := d.leases.Read(context.Background(), "x")
	if err != nil {
		panic(err) // memory has no errors
	}
	if d.has("restart: server stays") {
		return rs[0].Now, "server"
	}
	return rs[0].Now, rs[0].Server
}

// Read is that of a sound store, but for what leases and locks share.
func (s *flawedStore) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	rs, err := s.Leases.Read(ctx, groups...)
	if s.has("restart: server stays") {
		for i := range rs {
			rs[i].Server = "server"
		}
	}
	return rs, err
}

func (s *flawedStore) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, _ := s.instant(); s.sessions[group] == nil {
		s.sessions[group] = &session{now}
	}
	return s.Leases.Prepare(ctx, group, ttl)
}

func (d *lockDatabase) name(name string) string {
	switch {
	case d.has("names: case"):
		return strings.ToLower(name)
	case d.has("names: trailing"):
		return strings.TrimRight(name, "-. ")
	case d.has("names: numbers"):
		return strings.TrimSuffix(strings.TrimPrefix(name, "0"), ".0")
	case d.has("names: truncated") && len(name) == store.MaxName:
		return name[:store.MaxName-1]
	case d.has("names: null") && strings.EqualFold(name, "null"):
		return "null"
	}
	return name
}

func (s *flawedStore) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	if err := s.ended(ctx, "ReadLocks"); err != nil {
		return store.LockReading{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := store.LockReading{Floor: s.floor}
	r.Now, r.Server = s.instant()
	switch {
	case s.has("read: no floor"):
		r.Floor = 0
	case s.has("read: the highest version for the floor"):
		for _, one := range s.rows {
			r.Floor = max(r.Floor, one.Version)
		}
	case s.has("read: fails after a restart") && r.Server != "memory/0":
		return store.LockReading{}, errors.New("connection refused")
	case s.has("read: no server"):
		r.Server = ""
	case s.has("read: server is the process"):
		r.Server += fmt.Sprint("/", s.number)
	case s.has("read: no clock"):
		r.Now = time.Time{}
	case s.has("read: machine's clock"):
		r.Now = time.Now().UTC().Round(time.Microsecond)
	case s.has("read: local time"):
		r.Now = r.Now.In(time.FixedZone("CET", 3600))
	case s.has("read: whole seconds"):
		r.Now = r.Now.Truncate(time.Second)
	case s.has("read: at most 100"):
		names = names[:min(len(names), 100)]
	}
	seen := map[string]bool{}
	for i, name := range names {
		if s.has("read: one after the other") && i > 0 {
			s.elsewhere()
		}
		found := store.LockRow{Name: name}
		if one := s.rows[s.name(name)]; one != nil {
			found.Version, found.Queue = one.Version, one.Queue
			if !s.has("read: hands out its own bytes") {
				found.Queue = slices.Clone(found.Queue)
			}
		} else if s.has("read: absent rows are of version 1") {
			found.Version = 1
		} else if s.has("read: absent rows have a queue") {
			found.Queue = []byte("null")
		} else if s.has("read: absent rows are left out") {
			continue
		}
		if s.has("read: no queue") {
			found.Queue = nil
		}
		if seen[name] && s.has("read: once per name") {
			continue
		}
		seen[name] = true
		r.Rows = append(r.Rows, found)
	}
	if s.has("read: sorted") {
		slices.SortFunc(r.Rows, func(a, b store.LockRow) int { return strings.Compare(a.Name, b.Name) })
	}
	return r, nil
}

func (s *flawedStore) isServer(named string) bool {
	_, server := s.instant()
	if s.has("read: server is the process") {
		server += fmt.Sprint("/", s.number)
	}
	return named == server || s.has("write: ignores the server") || s.has("read: no server") ||
		s.has("write: any server if none is named") && named == "" ||
		s.has("write: ignores the server's end") && strings.HasPrefix(named, server)
}

func (s *flawedStore) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	if err := s.ended(ctx, "WriteLocks"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(writes) == 0 && s.has("write: fails with none") {
		return nil, errors.New("syntax error near ')'")
	}
	var invalid error
	for _, w := range writes {
		if err := store.CheckName("lock", w.Name); err != nil {
			invalid = err
		} else if err := s.grows(w); err != nil {
			return nil, err
		}
	}
	if invalid != nil && !s.has("names: any") && !s.has("names: the others are written") {
		return nil, invalid
	}
	done := make([]bool, len(writes))
	if !s.isServer(server) {
		switch {
		case s.has("write: another server is an error"):
			return nil, errors.New("another server")
		case s.has("write: another server answers all"):
			for i := range done {
				done[i] = true
			}
		}
		return done, nil
	}
	over, err := s.alone("store: not for two at once")
	if err == nil && len(writes) > 1 {
		var several func()
		if several, err = s.alone("store: fails when it has to wait"); err == nil {
			defer several()
		}
	}
	if err != nil {
		return nil, err
	}
	defer over()

	matches := make([]bool, len(writes))
	for i, w := range writes {
		matches[i] = (i < 500 || !s.has("write: at most 500")) && s.matches(w, writes)
	}
	s.together(writes, matches)
	if s.has("write: looks, then writes") {
		s.elsewhere()
	}
	for i, w := range writes {
		if !matches[i] {
			if one := s.rows[s.name(w.Name)]; one != nil && s.has("prune: by what was refused") {
				one.last, _ = s.instant()
			}
			continue
		}
		if s.has("write: one after the other") && i > 0 {
			s.elsewhere()
			if !s.matches(w, writes) {
				continue
			}
		}
		if s.has("names: the others are written") && store.CheckName("lock", w.Name) != nil {
			continue
		}
		s.set(w, writes)
		done[i] = true
	}
	if s.has("names: the others are written") && invalid != nil {
		return nil, invalid
	}
	s.answer(writes, done)
	return done, nil
}

// grows compares a write's two versions.
func (s *flawedStore) grows(w store.LockWrite) error {
	switch {
	case s.has("write: a version that goes back"),
		s.has("write: a version that stays") && w.Version == w.Expect,
		s.has("write: a new row of no version") && w.Expect == 0:
		return nil
	}
	return w.Check()
}

// isAboveFloor compares a new row's version with the floor.
func (s *flawedStore) isAboveFloor(w store.LockWrite, writes []store.LockWrite) bool {
	switch {
	case s.has("write: ignores the floor"), s.has("write: ignores the floor beside others") && len(writes) > 1,
		s.has("write: compares the floor with the first of several") && writes[0].Version > s.floor:
		return true
	case s.has("write: new rows at the floor"):
		return w.Version >= s.floor
	case s.has("write: looks at the floor, then writes"):
		above := w.Version > s.floor
		s.elsewhere()
		return above
	case s.has("write: only the names that were pruned"):
		return w.Version > s.floor || !s.past["pruned "+w.Name]
	}
	return w.Version > s.floor
}

// matches compares a row with what a write expects.
func (s *flawedStore) matches(w store.LockWrite, writes []store.LockWrite) bool {
	one := s.rows[s.name(w.Name)]
	switch {
	case w.Wait && s.has("write: none that waits"):
		return false
	case w.Wait && s.has("write: one that waits is not compared"):
		return true
	}
	if one == nil {
		return w.Expect == 0 && s.pruned[w.Name] == 0 && s.isAboveFloor(w, writes) || s.has("write: inserts for a row") ||
			s.has("write: inserts for a row beside others") && len(writes) > 1
	}
	if w.Expect == 0 {
		return s.has("write: overwrites for no row") || s.has("write: overwrites an empty queue for no row") && len(one.Queue) == 0 ||
			s.has("write: overwrites for no row what is of that version") && one.Version == w.Version
	}
	if s.has("write: rows that are there above the floor") && w.Version <= s.floor {
		return false
	}
	switch {
	case s.has("write: ignores the version"),
		s.has("write: ignores that the row is older") && one.Version < w.Expect,
		s.has("write: ignores that the row is newer") && one.Version > w.Expect,
		s.has("write: ignores that the row is newer by one") && one.Version == w.Expect+1,
		s.has("write: compares in 53 bits") && float64(one.Version) == float64(w.Expect),
		s.has("write: again if it was written before") && s.past[fmt.Sprint(w.Name, w.Expect, w.Version, string(w.Queue))]:
		return true
	}
	if s.has("write: several with any version of the list") && slices.ContainsFunc(writes, func(other store.LockWrite) bool { return other.Expect == one.Version }) {
		return true
	}
	return one.Version == w.Expect
}

// together is what flaws make of several writes.
func (s *flawedStore) together(writes []store.LockWrite, matches []bool) {
	first := true
	clash, mixed := false, map[bool]bool{}
	for i, w := range writes {
		clash = clash || w.Expect == 0 && !matches[i]
		mixed[w.Expect == 0] = true
	}
	all := !slices.Contains(matches, false)
	for i, w := range writes {
		switch {
		case s.has("write: all or none") && !all,
			s.has("write: the first that matches") && !first,
			s.has("write: only when all new rows are new, but says so of all") && clash && w.Expect == 0,
			s.has("write: no new rows beside others") && mixed[true] && mixed[false] && w.Expect == 0,
			s.has("write: no others beside new rows") && mixed[true] && mixed[false] && w.Expect > 0:
			matches[i] = false
		}
		first = first && !matches[i]
	}
}

// answer is what flaws make of what was done.
func (s *flawedStore) answer(writes []store.LockWrite, done []bool) {
	n, clash := 0, false
	for i, w := range writes {
		if done[i] {
			n++
			s.past[fmt.Sprint(w.Name, w.Expect, w.Version, string(w.Queue))] = true
		}
		clash = clash || w.Expect == 0 && !done[i]
	}
	if s.has("write: answers by name") {
		byName := map[string]bool{}
		var names []string
		for i, w := range writes {
			byName[w.Name] = done[i]
			names = append(names, w.Name)
		}
		slices.Sort(names)
		for i, name := range names {
			done[i] = byName[name]
		}
		return
	}
	for i, w := range writes {
		one := s.rows[s.name(w.Name)]
		switch {
		case s.has("write: answers all"):
			done[i] = true
		case s.has("write: answers none"):
			done[i] = false
		case s.has("write: answers the first n"):
			done[i] = i < n
		case s.has("write: answers by the version") && n > 0:
			done[i] = one != nil && one.Version == w.Version
		case s.has("write: answers by a version that is as high") && n > 0:
			done[i] = one != nil && one.Version >= w.Version
		case s.has("write: only when all new rows are new, but says so of none") && clash && w.Expect == 0:
			done[i] = false
		case s.has("write: only when all new rows are new, but says so of all") && clash && w.Expect == 0:
			done[i] = true
		}
	}
}

// set writes a row.
func (s *flawedStore) set(w store.LockWrite, writes []store.LockWrite) {
	one := s.rows[s.name(w.Name)]
	now, _ := s.instant()
	if one == nil {
		one = &lockRow{LockRow: store.LockRow{Name: w.Name}, first: now}
		s.rows[s.name(w.Name)] = one
	}
	if s.has("write: several as the first") && len(writes) > 1 && w.Expect > 0 {
		w.Queue = writes[0].Queue
	}
	switch {
	case s.has("write: leaves the queue") && one.Version > 0:
	case s.has("write: leaves the old queue for an empty one") && len(w.Queue) == 0:
	case s.has("write: keeps the caller's bytes"):
		one.Queue = w.Queue
	default:
		one.Queue = s.bytes(slices.Clone(w.Queue), len(writes))
	}
	switch {
	case s.has("write: leaves the version") && one.Version > 0:
	case s.has("write: counts the version up"):
		one.Version++
	case s.has("write: version in 32 bits"):
		one.Version = uint64(uint32(w.Version))
	case s.has("write: version in 53 bits"):
		one.Version = uint64(float64(w.Version))
	default:
		one.Version = w.Version
	}
	if one.writes == 0 || !s.has("prune: by the first of several") || len(writes) == 1 {
		one.last = now
	}
	one.writes++
	if s.has("write: other rows too") {
		for _, other := range s.rows {
			other.Queue = one.Queue
		}
	}
	if s.has("write: touches the lease") {
		s.leases.Update(w.Name, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
			if l != nil {
				l.Heartbeat++
			}
			return l, f
		})
	}
}

// bytes is what flaws make of a queue.
func (s *flawedStore) bytes(queue []byte, n int) []byte {
	const most = 64 << 10
	switch {
	case s.has("write: queue is text") && !utf8.Valid(queue):
		return bytes.ToValidUTF8(queue, []byte("?"))
	case s.has("write: queue ends at NUL"):
		before, _, _ := bytes.Cut(queue, []byte{0})
		return before
	case s.has("write: queue is trimmed"):
		return bytes.TrimRight(queue, " ")
	case s.has("write: queue without backslashes"):
		return bytes.ReplaceAll(queue, []byte(`\`), nil)
	case s.has("write: queue of 64 KiB") && len(queue) > most, s.has("write: queue of 64 KiB in one call") && n > 2 && len(queue) > most:
		return queue[:most]
	case s.has("write: an empty queue fails") && len(queue) == 0:
		return []byte("null")
	}
	return queue
}
