package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// database is a ledger in memory with one of the flaws, or none.
type ledgerDatabase struct {
	flaw   string
	leases *memdb.Store

	mu       sync.Mutex
	busy     int
	offset   time.Duration
	changes  map[string]uint64
	told     uint64                // of changes, by a flawed heartbeat
	calls    map[store.ClaimID]int // of how many claims each was first
	asked    int                   // how many the present one has
	paused   map[string]bool
	opened   map[string]jobs.Opened
	pauses   map[jobKey][]jobs.Pause
	jobs     map[jobKey]*jobs.Known
	runs     []*ledgerRow // by group, tick, trigger and job
	claims   int          // how many rows were ever claimed
	replicas []enlisted
	counted  map[string]bool // jobs whose start the present Move has written

	stillFailing map[jobKey]bool // of jobs that were forgotten
}

type jobKey struct{ group, job string }

type ledgerRow struct {
	jobs.Record
	group string
	id    store.ClaimID
	args  json.RawMessage
	asked int // its place among all that were claimed
}

func newLedgerDatabase(flaw string) *ledgerDatabase {
	return &ledgerDatabase{
		flaw: flaw, leases: memdb.New(), changes: map[string]uint64{}, calls: map[store.ClaimID]int{}, paused: map[string]bool{}, opened: map[string]jobs.Opened{},
		pauses: map[jobKey][]jobs.Pause{}, jobs: map[jobKey]*jobs.Known{}, stillFailing: map[jobKey]bool{},
	}
}

func (d *ledgerDatabase) quickHarness() Harness {
	h := d.harness()
	h.quick, h.Patience = 5, 5*time.Second
	return h
}

func (d *ledgerDatabase) harness() Harness {
	return Harness{
		Open: func(testing.TB) store.Leases { return &ledgerReplica{Leases: d.leases, ledgerDatabase: d} },
		StepClock: func(_ testing.TB, by time.Duration) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.offset += by
			d.leases.StepClock(by)
		},
	}
}

// replica is a store of the database: the leases of a sound one, and a ledger.
type ledgerReplica struct {
	store.Leases
	*ledgerDatabase
}

// identity is that of the server, which never changes.
func (s *ledgerReplica) identity() string {
	readings, _ := s.Read(context.Background(), "any")
	return readings[0].Server
}

// Acquire is atomic beside the statements of the ledger.
func (s *ledgerReplica) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Leases.Acquire(ctx, a)
}

func (d *ledgerDatabase) has(flaw string) bool { return d.flaw == flaw }

// elsewhere lets others in, in the middle of what should be one statement.
func (d *ledgerDatabase) elsewhere() {
	d.mu.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	<-time.After(50 * time.Microsecond)
	d.mu.Lock()
}

// alone says that another statement is under way, if that is the flaw.
func (d *ledgerDatabase) alone(flaw string) (func(), error) {
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

func (d *ledgerDatabase) ended(ctx context.Context, what string) error {
	switch {
	case d.has("context: "+what) || ctx.Err() == nil:
		return nil
	case d.has("context: ErrReplaced"):
		return store.ErrReplaced
	case d.has("context: ErrNoJob"):
		return jobs.ErrNoJob
	}
	return ctx.Err()
}

func (d *ledgerDatabase) now(what string) time.Time {
	now := time.Now()
	if !d.has("clock: machine's for " + what) {
		now = now.Add(d.offset)
	}
	now = now.UTC().Round(time.Microsecond)
	if d.has("clock: whole seconds") {
		now = now.Truncate(time.Second)
	}
	if d.has("trigger: one in an instant of the clock") {
		now = now.Truncate(time.Millisecond) // so that two come in one
	}
	return now
}

func (d *ledgerDatabase) name(name string) string {
	switch {
	case d.has("names: case"):
		return strings.ToLower(name)
	case d.has("names: trailing"):
		return strings.TrimRight(name, "-. ")
	case d.has("names: numbers"):
		return strings.TrimSuffix(strings.TrimPrefix(name, "0"), ".0")
	case d.has("names: truncated") && len(name) > store.MaxName:
		return name[:store.MaxName]
	}
	return name
}

func (d *ledgerDatabase) tick(at time.Time) time.Time {
	switch {
	case d.has("ticks: from 1970") && at.Unix() < 0:
		return time.Unix(0, 0).UTC()
	case d.has("ticks: in 32 bits") && at.Unix() > math.MaxInt32:
		return time.Unix(math.MaxInt32, 0).UTC()
	case d.has("ticks: in nanoseconds"):
		return time.Unix(0, at.UnixNano()).UTC()
	case d.has("ticks: in milliseconds"):
		return at.Truncate(time.Millisecond)
	case d.has("ticks: in seconds"):
		return at.Truncate(time.Second)
	case d.has("ticks: local"):
		return at.In(time.FixedZone("CET", 3600))
	}
	return at
}

func (d *ledgerDatabase) errorText(text, by string) (string, error) {
	switch {
	case d.has("errors: odd bytes fail") && !utf8.ValidString(text), d.has("errors: NUL fails") && strings.Contains(text, "\x00"):
		return "", errors.New("incorrect string value")
	case d.has("errors: whole"), d.has("errors: whole by " + by):
		return text, nil
	case d.has("errors: end at NUL"):
		text, _, _ = strings.Cut(text, "\x00")
	case d.has("errors: trimmed"):
		text = strings.TrimSpace(text)
	case d.has("errors: backslashes"):
		text = strings.ReplaceAll(text, `\`, "")
	case d.has("errors: quotes"):
		text = strings.ReplaceAll(text, `'`, `''`)
	case d.has("errors: ASCII"):
		text = strings.Map(func(r rune) rune {
			if r > 0xffff {
				return '?'
			}
			return r
		}, text)
	}
	most := store.MaxError
	if d.has("errors: cut at 255") {
		most = 255
	}
	if len(text) <= most {
		return text, nil
	}
	if d.has("errors: cut too short") {
		most -= 100
	}
	cut := text[:most]
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(text[len(cut)]) || d.has("errors: cut in a character") ||
			d.has("errors: cut in a character of odd bytes") && !utf8.ValidString(text) {
			break
		}
		cut = cut[:len(cut)-1]
	}
	return cut, nil
}

// same compares two numbers, unless the flaw is to ignore a difference.
func (d *ledgerDatabase) same(got, want uint64, statement, what string) bool {
	switch {
	case d.has(statement + ": ignores the " + what):
		return true
	case want < got && (d.has(statement + ": ignores an older " + what)):
		return true
	case want > got && (d.has(statement + ": ignores a newer " + what)):
		return true
	}
	return got == want
}

// sameOwner compares two owners, unless the flaw is to ignore a difference.
func (d *ledgerDatabase) sameOwner(got, want, statement, what string) bool {
	switch {
	case d.has(statement + ": ignores the " + what):
		return true
	case d.has(statement + ": ignores the " + what + "'s case"):
		return strings.EqualFold(got, want)
	case d.has(statement + ": ignores the " + what + "'s end"):
		return strings.TrimRight(got, "-") == strings.TrimRight(want, "-")
	case d.has(statement+": ignores an empty "+what) && want == "":
		return true
	}
	return got == want
}

// current reports whether h is the group's holder.
func (d *ledgerDatabase) current(h store.Holder, statement string) bool {
	of := ""
	if statement == "move" {
		of = "holder's "
	}
	matches := func(group string) bool {
		f := d.fence(group)
		if f == nil {
			return d.has(statement + ": ignores that there is no term")
		}
		return d.sameOwner(f.Owner, h.Owner, statement, of+"owner") && d.same(f.Token, h.Token, statement, of+"token")
	}
	return d.has(statement+": ignores the fence") || matches(h.Group) ||
		d.has(statement+": ignores the "+of+"group") && (matches(group) || matches(otherOne))
}

func (d *ledgerDatabase) fence(group string) *store.Fence {
	rs, err := d.leases.Read(context.Background(), group)
	if err != nil {
		return nil
	}
	return rs[0].Fence
}

func (d *ledgerDatabase) changed(group, how string) {
	if d.has("changes: not with "+how) || d.has("changes: not twice") && d.changes[group] > 0 {
		return
	}
	if d.has("changes: not with a Pause that is the first") && how == "Pause of the group" && len(d.jobs) == 0 {
		return
	}
	if d.changes[group]++; d.has("changes: of all groups") {
		d.changes[otherOne] += 3
	}
}

func compareRows(a, b *ledgerRow) int {
	return cmp.Or(cmp.Compare(a.group, b.group), a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.Job, b.Job))
}

func (d *ledgerDatabase) place(group string, k jobs.Key) (int, bool) {
	return slices.BinarySearchFunc(d.runs, &ledgerRow{group: group, Record: jobs.Record{Key: k}}, compareRows)
}

// key is a key as the table has it.
func (d *ledgerDatabase) key(k jobs.Key, statement string) jobs.Key {
	k.Job, k.Tick = d.name(k.Job), d.tick(k.Tick)
	if d.has(statement + ": ignores the trigger") {
		k.Trigger = 0
	}
	return k
}

func (d *ledgerDatabase) find(group string, k jobs.Key, statement string) *ledgerRow {
	k = d.key(k, statement)
	if i, ok := d.place(group, k); ok {
		return d.runs[i]
	}
	if !strings.HasPrefix(d.flaw, statement+": ignores the ") {
		return nil
	}
	for _, r := range d.runs {
		if r.group == group && (r.Job == k.Job || d.has(statement+": ignores the job")) &&
			(r.Tick.Equal(k.Tick) || d.has(statement+": ignores the tick's fraction") && r.Tick.Truncate(time.Second).Equal(k.Tick.Truncate(time.Second))) &&
			(r.Trigger == k.Trigger || d.has(statement+": ignores the trigger")) {
			return r
		}
	}
	return nil
}

func (d *ledgerDatabase) insert(r *ledgerRow) {
	d.claims++
	r.asked = d.claims
	i, there := d.place(r.group, r.Key)
	if there {
		d.runs[i] = r
		return
	}
	d.runs = slices.Insert(d.runs, i, r)
}
