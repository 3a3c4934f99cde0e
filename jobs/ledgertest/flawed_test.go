package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

// database is a ledger in memory with one of the flaws, or none.
type database struct {
	flaw   string
	leases *memstore.Store

	mu      sync.Mutex
	busy    int
	offset  time.Duration
	changes map[string]uint64
	calls   map[store.ClaimID]int // of how many claims each was first
	asked   int                   // how many the present one has
	paused  map[string]bool
	opened  map[string]jobs.Opened
	pauses  map[jobKey][]jobs.Pause
	jobs    map[jobKey]*jobs.Known
	runs    []*row          // by group, tick, trigger and job
	claims  int             // how many rows were ever claimed
	counted map[string]bool // jobs whose start the present Move has written
}

type jobKey struct{ group, job string }

type row struct {
	jobs.Record
	group string
	id    store.ClaimID
	asked int // its place among all that were claimed
}

func newDatabase(flaw string) *database {
	return &database{
		flaw: flaw, leases: memstore.New(), changes: map[string]uint64{}, calls: map[store.ClaimID]int{}, paused: map[string]bool{}, opened: map[string]jobs.Opened{},
		pauses: map[jobKey][]jobs.Pause{}, jobs: map[jobKey]*jobs.Known{},
	}
}

func (d *database) quickHarness() Harness {
	h := d.harness()
	h.quick, h.Patience = true, 5*time.Second
	return h
}

func (d *database) harness() Harness {
	return Harness{
		Open: func(testing.TB) Store { return &replica{Leases: d.leases, database: d} },
		StepClock: func(_ testing.TB, by time.Duration) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.offset += by
			d.leases.StepClock(by)
		},
	}
}

// replica is a store of the database: the leases of a sound one, and a ledger.
type replica struct {
	store.Leases
	*database
}

// identity is that of the server, which never changes.
func (s *replica) identity() string {
	readings, _ := s.Leases.Read(context.Background(), "any")
	return readings[0].Server
}

// Acquire is atomic beside the statements of the ledger.
func (s *replica) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Leases.Acquire(ctx, a)
}

func (d *database) has(flaw string) bool { return d.flaw == flaw }

// elsewhere lets others in, in the middle of what should be one statement.
func (d *database) elsewhere() {
	d.mu.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	<-time.After(50 * time.Microsecond)
	d.mu.Lock()
}

// alone says that another statement is under way, if that is the flaw.
func (d *database) alone(flaw string) (func(), error) {
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

func (d *database) ended(ctx context.Context, what string) error {
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

func (d *database) now(what string) time.Time {
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

func (d *database) name(name string) string {
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

func (d *database) tick(at time.Time) time.Time {
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

func (d *database) errorText(text, by string) (string, error) {
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
func (d *database) same(got, want uint64, statement, what string) bool {
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
func (d *database) sameOwner(got, want, statement, what string) bool {
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
func (d *database) current(h store.Holder, statement string) bool {
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

func (d *database) fence(group string) *store.Fence {
	rs, err := d.leases.Read(context.Background(), group)
	if err != nil {
		return nil
	}
	return rs[0].Fence
}

func (d *database) changed(group, how string) {
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

func compareRows(a, b *row) int {
	return cmp.Or(cmp.Compare(a.group, b.group), a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.Job, b.Job))
}

func (d *database) place(group string, k jobs.Key) (int, bool) {
	return slices.BinarySearchFunc(d.runs, &row{group: group, Record: jobs.Record{Key: k}}, compareRows)
}

// key is a key as the table has it.
func (d *database) key(k jobs.Key, statement string) jobs.Key {
	k.Job, k.Tick = d.name(k.Job), d.tick(k.Tick)
	if d.has(statement + ": ignores the trigger") {
		k.Trigger = 0
	}
	return k
}

func (d *database) find(group string, k jobs.Key, statement string) *row {
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

func (d *database) insert(r *row) {
	d.claims++
	r.asked = d.claims
	i, there := d.place(r.group, r.Key)
	if there {
		d.runs[i] = r
		return
	}
	d.runs = slices.Insert(d.runs, i, r)
}

func (s *replica) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	if err := s.ended(ctx, "Declare"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Group = s.name(h.Group)
	if !s.current(h, "declare") {
		return store.ErrReplaced
	}
	if s.has("declare: checks the fence, then writes") {
		s.elsewhere()
	}
	if len(declared) == 0 && s.has("declare: fails with none") {
		return errors.New("syntax error near ')'")
	}
	now, seen := s.now("Since"), map[string]bool{}
	for i, job := range declared {
		if i >= 50 && s.has("declare: at most 50 jobs") {
			break
		}
		if s.has("declare: cuts the schedule") && len(job.Schedule) > 255 {
			job.Schedule = job.Schedule[:255]
		}
		k := jobKey{h.Group, s.name(job.Name)}
		seen[k.job] = true
		known, ok := s.jobs[k]
		if !ok {
			s.jobs[k] = &jobs.Known{Schedule: job.Schedule, Since: now, ScheduleSince: now}
			if s.has("declare: no Since") {
				s.jobs[k].Since = time.Time{}
			}
			if s.has("declare: no ScheduleSince") {
				s.jobs[k].ScheduleSince = time.Time{}
			}
			if s.has("declare: From of a new job") && !job.From.IsZero() {
				s.jobs[k].ScheduleSince = job.From
			}
			continue
		}
		if s.has("declare: resumes") {
			known.Paused = false
		}
		if s.has("declare: clears Finished") {
			known.Finished = time.Time{}
		}
		same := known.Schedule == job.Schedule || s.has("declare: ignores the schedule's case") && strings.EqualFold(known.Schedule, job.Schedule) ||
			s.has("declare: ignores the schedule's end") && strings.TrimSpace(known.Schedule) == strings.TrimSpace(job.Schedule)
		if same {
			if s.has("declare: moves ScheduleSince") {
				known.ScheduleSince = now
			}
			if s.has("declare: From of an unchanged schedule") && !job.From.IsZero() {
				known.ScheduleSince = job.From
			}
			if known.ScheduleSince.After(now) && !s.has("declare: leaves ScheduleSince in the future") {
				known.ScheduleSince = s.ruledFrom(known.ScheduleSince, job.From, now)
			}
			continue
		}
		if !s.has("declare: leaves ScheduleSince") {
			known.ScheduleSince = s.ruledFrom(known.ScheduleSince, job.From, now)
		}
		if s.has("declare: moves Since") {
			known.Since = now
		}
		if !s.has("declare: leaves the schedule") {
			known.Schedule = job.Schedule
		}
	}
	if s.has("declare: clears pauses") {
		clear(s.pauses)
	}
	if s.has("declare: forgets what is not declared") {
		for k := range s.jobs {
			if k.group == h.Group && !seen[k.job] {
				delete(s.jobs, k)
			}
		}
	}
	for _, r := range s.runs {
		if r.group == h.Group && r.State == jobs.Running && s.has("declare: ends the runs") {
			r.State = jobs.Interrupted
		}
	}
	if s.has("changes: with Declare") {
		s.changes[h.Group]++
	}
	if was := s.opened[h.Group]; !s.has("declare: no Opened") &&
		(was.Token != h.Token || s.has("declare: Opened by each call")) &&
		(was.Token == 0 || !s.has("declare: Opened by the first term")) {
		s.opened[h.Group] = jobs.Opened{Token: h.Token, At: now}
	}
	return nil
}

// ruledFrom is when a changed schedule came into force.
func (d *database) ruledFrom(before, from, now time.Time) time.Time {
	switch {
	case from.IsZero(), d.has("declare: ignores From"),
		from.After(now) && !d.has("declare: From in the future"):
		from = now
	}
	future := before.After(now) // which does not count
	if future && d.has("declare: ScheduleSince of the future becomes now") {
		return now
	}
	if from.Before(before) && (!future || d.has("declare: leaves a new ScheduleSince in the future")) && !d.has("declare: From before the schedule before") {
		from = before
	}
	if from.After(now) && !d.has("declare: From in the future") && !d.has("declare: leaves a new ScheduleSince in the future") {
		from = now
	}
	return from
}

func (s *replica) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	if err := s.ended(ctx, "Load"); err != nil {
		return jobs.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group = s.name(group)
	snapshot := jobs.Snapshot{Now: s.now("Now"), Server: s.identity(), Changes: s.changes[group], Paused: s.paused[group], Opened: s.opened[group], Jobs: map[string]jobs.Known{}}
	if s.has("declare: Opened of all groups") {
		for _, opened := range s.opened {
			if opened.Token > snapshot.Opened.Token {
				snapshot.Opened = opened
			}
		}
	}
	if s.has("load: Now in local time") {
		snapshot.Now = snapshot.Now.In(time.FixedZone("CET", 3600))
	}
	if s.has("load: no Server") {
		snapshot.Server = ""
	}
	if s.has("load: no Changes") {
		snapshot.Changes = 0
	}
	snapshot.Pauses = map[string][]jobs.Pause{}
	for k, pauses := range s.pauses {
		if k.group == group || s.has("load: pauses of all groups") {
			snapshot.Pauses[k.job] = slices.Clone(pauses)
		}
	}
	f := s.fence(group)
	for k, known := range s.jobs {
		if k.group == group || s.has("load: jobs of all groups") {
			with := *known
			with.Cursor, with.Started = s.cursor(k, f), s.started(k, known.Started)
			snapshot.Jobs[k.job] = with
		}
	}
	var open []*row
	for _, r := range s.runs {
		switch {
		case r.group != group && !s.has("load: open runs of all groups"),
			r.State.Over() && !s.has("load: runs that are over"),
			r.State == jobs.Waiting && s.has("load: no waiting runs"),
			r.Due.After(s.now("Now")) && s.has("load: no runs that wait for their time"),
			f != nil && r.Token != f.Token && s.has("load: only the term's open runs"),
			r.Job != cleanup && r.Job != "a" && s.has("load: only open runs of one job"),
			len(open) >= 500 && s.has("load: at most 500 runs"):
			continue
		}
		open = append(open, r)
	}
	switch {
	case s.has("load: by job"):
		slices.SortStableFunc(open, func(a, b *row) int { return cmp.Compare(a.Job, b.Job) })
	case s.has("load: as claimed"):
		slices.SortFunc(open, func(a, b *row) int { return a.asked - b.asked })
	}
	for _, r := range open {
		snapshot.Open = append(snapshot.Open, r.Record)
	}
	return snapshot, nil
}

func (d *database) cursor(k jobKey, f *store.Fence) time.Time {
	var cursor time.Time
	last := 0
	for _, r := range d.runs {
		switch {
		case r.group != k.group, r.Job != k.job && !d.has("load: cursor is the group's"),
			r.Trigger != 0 && !d.has("load: cursor counts manual runs"),
			r.State.Over() && d.has("load: cursor is of open runs"),
			!r.State.Over() && d.has("load: cursor is of runs that are over"),
			r.State == jobs.Skipped && d.has("load: cursor leaves out skipped ticks"),
			r.State == jobs.Waiting && d.has("load: cursor leaves out waiting ticks"),
			f != nil && r.Token != f.Token && d.has("load: cursor is the term's"):
			continue
		}
		if d.has("load: cursor is the last that was claimed") && r.asked < last {
			continue
		}
		cursor, last = r.Tick, r.asked
	}
	return cursor
}

// started is when a run of the job was last started, and over that of the runs
// that are over.
func (d *database) started(k jobKey, over time.Time) time.Time {
	switch {
	case d.has("load: no Started"):
		return time.Time{}
	case d.has("load: Started of runs that are over only"):
		return over
	case d.has("load: Started of open runs only"), d.has("load: Started of what is kept"):
		over = time.Time{}
	}
	for _, r := range d.runs {
		at := r.Started
		if d.has("load: Started goes back with the clock") && r.group == k.group && r.Job == k.job && !r.State.Over() && !at.IsZero() {
			over = at
		}
		if d.has("load: Started at the claim") {
			at = r.Claimed
		}
		switch {
		case r.group != k.group, r.Job != k.job && !d.has("load: Started of all jobs"),
			r.State.Over() && !d.has("load: Started of what is kept"),
			r.Trigger != 0 && d.has("load: Started not of manual runs"):
		case at.After(over), d.has("load: Started of the newest tick") && !at.IsZero():
			over = at
		}
	}
	return over
}

func (s *replica) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	if err := s.ended(ctx, "PassOver"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Group, job = s.name(h.Group), s.name(job)
	f := s.fence(h.Group)
	if current := f != nil && f.Owner == h.Owner && f.Token == h.Token; !current && !s.has("pass over: ignores the fence") {
		if s.has("pass over: the replaced get an answer") {
			return 0, nil
		}
		return 0, store.ErrReplaced
	}
	passed := 0
	for _, r := range slices.Clone(s.runs) {
		switch {
		case r.group != h.Group && !s.has("pass over: all groups"),
			r.Job != job && !s.has("pass over: all jobs"),
			r.Trigger != 0 && !s.has("pass over: manual runs"),
			r.Token == h.Token && !s.has("pass over: the holder's own"),
			r.Tick.Before(after) && !s.has("pass over: all ticks"),
			r.Tick.Equal(after) && !s.has("pass over: all ticks") && !s.has("pass over: from the instant on"),
			r.State.Over() && s.has("pass over: what is open only"),
			!r.State.Over() && s.has("pass over: what is over only"):
			continue
		}
		passed++
		switch {
		case s.has("pass over: deletes"):
			s.runs = slices.DeleteFunc(s.runs, func(other *row) bool { return other == r })
		case s.has("pass over: another trigger"):
			r.Trigger = 1
		default:
			r.Trigger = h.Token
		}
		if s.has("pass over: ends the run") {
			r.State = jobs.Interrupted
		}
	}
	return passed, nil
}

func (s *replica) Changes(ctx context.Context, group string) (store.Changes, error) {
	if err := s.ended(ctx, "Changes"); err != nil {
		return store.Changes{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group = s.name(group)
	if s.has("changes: with Changes") {
		s.changes[group]++
	}
	now := s.now("Now")
	if s.has("changes: Now in local time") {
		now = now.In(time.FixedZone("CET", 3600))
	}
	changes := store.Changes{Number: s.changes[group], Now: now, Server: s.identity()}
	if s.has("changes: no Server") {
		changes.Server = ""
	}
	return changes, nil
}

func (s *replica) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	if err := s.ended(ctx, "Claim"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, flaw := range []string{"store: not for two at once", "store: Prune and Claim not at once"} {
		done, err := s.alone(flaw)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	h.Group = s.name(h.Group)
	for _, c := range claims {
		if c.State != jobs.Running && c.State != jobs.Waiting && c.State != jobs.Skipped && !s.has("claim: as any state") {
			return nil, fmt.Errorf("state %v: must be running, waiting or skipped", c.State)
		}
	}
	if len(claims) == 0 && s.has("claim: fails with none") {
		return nil, errors.New("syntax error near ')'")
	}
	current := s.current(h, "claim")
	if s.has("claim: checks the fence, then writes") {
		s.elsewhere()
	}
	if !current && s.has("claim: the replaced get nothing of what is there") {
		return nil, store.ErrReplaced
	}
	s.asked = len(claims)
	if _, ok := s.calls[id]; !ok {
		s.calls[id] = len(claims)
	}
	there := 0
	for _, c := range claims {
		if s.find(h.Group, c.Key, "claim") != nil {
			there++
		}
	}
	if there > 0 && there < len(claims) && s.has("claim: fails beside what is there") {
		return nil, errors.New("duplicate key")
	}
	if there < len(claims) && !current &&
		(there == 0 || !s.has("claim: the replaced get what is there")) &&
		(claims[0].State == jobs.Running || !s.has("claim: checks the fence for running only")) {
		return nil, store.ErrReplaced
	}
	claimed, newest := make([]store.Claimed, len(claims)), map[string]time.Time{}
	for _, c := range claims {
		if _, ok := newest[c.Job]; !ok {
			newest[c.Job] = s.newest(jobKey{h.Group, c.Job})
		}
	}
	for i, c := range claims {
		if s.has("claim: in the order of the call") {
			newest[c.Job] = s.newest(jobKey{h.Group, c.Job})
		}
		r := s.find(h.Group, c.Key, "claim")
		if s.has("claim: looks, then inserts") {
			s.elsewhere()
		}
		if r != nil && (s.has("claim: overwrites") || s.has("claim: overwrites what is over") && r.State.Over()) && r.id != id {
			r = nil
		}
		skip := i >= 500 && s.has("claim: at most 500") || there > 0 && s.has("claim: all or none") ||
			!current && s.has("claim: the replaced get what is there")
		if r == nil && !skip && s.refuses(h.Group, c, newest) {
			claimed[i].Key = c.Key
			if s.has("claim: a refusal has a state") {
				claimed[i].State = c.State
			}
			continue
		}
		isNew := r == nil && !skip
		if isNew {
			var err error
			if r, err = s.newRow(h, id, c); err != nil {
				return nil, err
			}
			s.insert(r)
			if k := s.jobs[jobKey{h.Group, c.Job}]; k != nil && c.State == jobs.Skipped && s.has("claim: the job's Finished when skipped") {
				k.Finished = r.Finished
			}
			if c.Trigger != 0 && s.has("changes: with a manual claim") {
				s.changes[h.Group]++
			}
		}
		if r == nil {
			continue
		}
		claimed[i] = s.answer(h, id, c, r, isNew)
		if s.has("claim: one row after the other") && i < len(claims)-1 {
			if s.elsewhere(); !s.current(h, "claim") {
				return nil, store.ErrReplaced
			}
		}
	}
	if s.has("claim: answers in the order of keys") {
		slices.SortFunc(claimed, func(a, b store.Claimed) int { return a.Tick.Compare(b.Tick) })
	}
	if s.has("changes: with Claim") {
		s.changes[h.Group]++
	}
	return claimed, nil
}

// newest is the job's newest scheduled tick, which claims compare.
func (d *database) newest(k jobKey) time.Time {
	var newest time.Time
	for _, r := range d.runs {
		if r.group == k.group && (r.Job == k.job || d.has("claim: compares the newest of all jobs")) &&
			(r.Trigger == 0 || d.has("claim: compares the newest manual run")) &&
			(!r.State.Over() || !d.has("claim: compares the newest that is not over")) {
			newest = r.Tick
		}
	}
	return newest
}

// refuses reports whether a claim of a row that is not there is refused.
func (d *database) refuses(group string, c store.Claim, newest map[string]time.Time) bool {
	at := newest[c.Job]
	late := !at.IsZero() && !c.Tick.After(at) && !d.has("claim: before the newest tick") &&
		(c.State != jobs.Skipped || !d.has("claim: skipped before the newest tick"))
	if c.Trigger != 0 {
		late = late && d.has("claim: no manual run before the newest tick")
	}
	known := d.jobs[jobKey{group, c.Job}]
	paused := d.paused[group] && !d.has("claim: ignores that the group is paused") ||
		known != nil && known.Paused && !d.has("claim: ignores that the job is paused") ||
		d.has("claim: ignores whose pause it is") && (d.paused["billing"] || known != nil && d.jobs[jobKey{"billing", c.Job}].Paused)
	switch {
	case c.Trigger != 0:
		paused = paused && d.has("claim: no manual run while it is paused")
	case c.State == jobs.Skipped:
		paused = paused && d.has("claim: not skipped while it is paused")
	case c.State == jobs.Waiting:
		paused = paused && !d.has("claim: waiting while it is paused")
	}
	return late || paused
}

// answer is what a claim is told of its row.
func (s *replica) answer(h store.Holder, id store.ClaimID, c store.Claim, r *row, isNew bool) store.Claimed {
	answer := store.Claimed{Mine: r.id == id, Record: r.Record}
	switch {
	case s.has("claim: repeats whole calls only") && s.calls[id] != s.asked:
		answer.Mine = false
	case s.has("claim: mine by the token"):
		answer.Mine = r.Token == h.Token
	case s.has("claim: mine by the id and the token"):
		answer.Mine = r.id == id && r.Token == h.Token
	case s.has("claim: mine once"):
		answer.Mine = isNew
	case s.has("claim: mine while it is as claimed"):
		answer.Mine = r.id == id && r.State == c.State
	case s.has("claim: an empty id is mine"):
		answer.Mine = r.id == id || id == store.ClaimID{}
	case s.has("claim: answers what was asked for"):
		answer.State, answer.Missed = c.State, c.Missed
	case s.has("claim: answers nothing of others'") && !answer.Mine:
		answer.Record = jobs.Record{Key: c.Key}
	case s.has("claim: answers another instant") && isNew:
		answer.Claimed = answer.Claimed.Add(-time.Microsecond)
	}
	return answer
}

func (s *replica) newRow(h store.Holder, id store.ClaimID, c store.Claim) (*row, error) {
	text, err := s.errorText(c.Error, "Claim")
	if err != nil {
		return nil, err
	}
	r := &row{group: h.Group, id: id, Record: jobs.Record{
		Key: s.key(c.Key, "claim"), State: c.State, Owner: h.Owner, Token: h.Token, Claimed: s.now("Claimed"), Missed: c.Missed, Error: text,
	}}
	switch c.State {
	case jobs.Running:
		r.Attempt, r.Started = 1, s.now("Started")
	case jobs.Waiting:
		r.Due = s.now("Due").Add(c.Delay.Truncate(time.Microsecond))
		switch {
		case s.has("claim: Due without the delay"):
			r.Due = s.now("Due")
		case s.has("claim: Due in whole seconds"):
			r.Due = s.now("Due").Add(c.Delay.Truncate(time.Second))
		case s.has("claim: Due in nanoseconds"):
			r.Due = s.now("Due").Add(c.Delay)
		case s.has("claim: Due after the tick"):
			r.Due = c.Tick.Add(c.Delay)
		}
	default:
		r.Finished = s.now("Finished")
	}
	switch {
	case s.has("claim: no Claimed"):
		r.Claimed = time.Time{}
	case s.has("claim: no Started"):
		r.Started = time.Time{}
	case s.has("claim: Started unless skipped") && c.State != jobs.Skipped:
		r.Started = s.now("Started")
	case s.has("claim: no Finished"):
		r.Finished = time.Time{}
	case s.has("claim: attempt 0"):
		r.Attempt = 0
	case s.has("claim: attempt 1 unless skipped") && c.State != jobs.Skipped:
		r.Attempt = 1
	case s.has("claim: no Missed"):
		r.Missed = 0
	case s.has("claim: Missed in a byte"):
		r.Missed = min(r.Missed, 255)
	case s.has("claim: no error"):
		r.Error = ""
	case s.has("claim: no token"):
		r.Token = 0
	}
	return r, nil
}

func (s *replica) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	if err := s.ended(ctx, "Move"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Group = s.name(h.Group)
	if len(moves) == 0 && s.has("move: fails with none") {
		return nil, errors.New("syntax error near ')'")
	}
	current := s.current(h, "move")
	if s.has("move: checks the fence, then writes") {
		s.elsewhere()
	}
	moved := make([]bool, len(moves))
	if s.has("move: all or none") {
		for _, m := range moves {
			if r := s.find(h.Group, m.Key, "move"); r == nil || !s.expected(h, m, r) {
				return moved, nil
			}
		}
	}
	s.counted = map[string]bool{}
	some := false
	for i, m := range moves {
		if i >= 200 && s.has("move: at most 200") {
			break
		}
		is, err := s.move(h, m, current || m.To != jobs.Running && s.has("move: checks the fence for starts only"))
		if err != nil {
			return nil, err
		}
		moved[i] = is
		some = some || is
		if s.has("move: one row after the other") && i < len(moves)-1 {
			s.elsewhere()
			current = s.current(h, "move")
		}
	}
	if !some && len(moves) > 0 && (!current && !s.has("move: the replaced get false") || s.has("move: ErrReplaced when nothing was moved")) ||
		!current && s.has("move: the replaced cannot repeat beside others") && slices.Contains(moved, false) {
		return nil, store.ErrReplaced
	}
	if s.has("changes: with Move") {
		s.changes[h.Group]++
	}
	if s.has("move: answers in the order of keys") {
		order := make([]int, len(moves))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return moves[a].Tick.Compare(moves[b].Tick) })
		sorted := make([]bool, len(moves))
		for i, at := range order {
			sorted[i] = moved[at]
		}
		return sorted, nil
	}
	return moved, nil
}

// expected reports whether the run is as the move has it.
func (s *replica) expected(h store.Holder, m store.Move, r *row) bool {
	return (r.State == m.From || s.has("move: ignores the state") && !r.State.Over()) &&
		(!r.State.Over() || s.has("move: from an end")) &&
		s.same(uint64(r.Attempt), uint64(m.Attempt), "move", "attempt") &&
		s.sameOwner(r.Owner, m.Owner, "move", "owner") && s.same(r.Token, m.Token, "move", "token") &&
		(!s.has("move: only runs of its own") || r.Owner == h.Owner && r.Token == h.Token || r.Owner == "") &&
		(!s.has("move: only rows with an owner") || r.Owner != "") &&
		(!s.has("move: not from waiting to an end") || r.State != jobs.Waiting || !m.To.Over())
}

func (s *replica) move(h store.Holder, m store.Move, current bool) (bool, error) {
	text, err := s.errorText(m.Error, "Move")
	if err != nil {
		return false, err
	}
	r := s.find(h.Group, m.Key, "move")
	if r == nil {
		if current && s.has("move: inserts") {
			s.insert(&row{group: h.Group, Record: jobs.Record{Key: m.Key, State: m.To, Owner: h.Owner, Token: h.Token}})
		}
		return false, nil
	}
	attempt := m.Attempt
	if m.To == jobs.Running {
		attempt++
	}
	again := r.State == m.To && r.Attempt == attempt && r.Owner == h.Owner && r.Token == h.Token
	switch {
	case s.has("move: waits anew") && m.From == jobs.Waiting && m.To == jobs.Waiting:
		again = false
	case s.has("move: again whatever the attempt") && r.State == m.To && r.Owner == h.Owner && r.Token == h.Token:
		again = true
	case s.has("move: a rerun not again") && m.From == jobs.Running && m.To == jobs.Running:
		again = false
	case s.has("move: not again"), !current && s.has("move: the replaced cannot repeat"):
		again = false
	case s.has("move: again by the state alone") && r.State == m.To:
		again = true
	case s.has("move: again by the attempt") && r.Attempt == attempt && r.Owner == h.Owner && r.Token == h.Token && r.State != m.From:
		again = true
	}
	known := s.jobs[jobKey{h.Group, r.Job}]
	if again {
		if s.has("move: again in full") {
			s.write(h, m, r, attempt, text)
		}
		if s.has("move: the job's Finished again") && known != nil && m.To.Over() {
			known.Finished = s.now("Finished")
		}
		return true, nil
	}
	expected := s.expected(h, m, r)
	if s.has("move: looks, then writes") {
		s.elsewhere()
	}
	if !current || !expected {
		return false, nil
	}
	s.write(h, m, r, attempt, text)
	if m.To == jobs.Waiting && m.Trigger != 0 && s.has("changes: with the retry of a manual run") {
		s.changes[h.Group]++
	}
	if known != nil && (m.To.Over() || s.has("move: the job's Finished with each move")) {
		s.finish(h, r, known)
	}
	return true, nil
}

func (s *replica) finish(h store.Holder, r *row, known *jobs.Known) {
	if s.has("move: leaves the job's Finished") ||
		s.has("move: the job's Finished for the newest tick") && s.cursor(jobKey{h.Group, r.Job}, nil).After(r.Tick) ||
		s.has("move: the job's Finished only once") && !known.Finished.IsZero() ||
		s.has("move: the job's Finished not for manual runs") && r.Trigger != 0 {
		return
	}
	known.Finished = s.now("the job's Finished")
	if s.has("load: Started of the last that ended") && !r.Started.IsZero() ||
		r.Started.After(known.Started) && (!s.counted[r.Job] || !s.has("load: Started of the first that ends")) {
		known.Started, s.counted[r.Job] = r.Started, true
	}
	if !s.has("clock: machine's for the job's Finished") && !r.Finished.IsZero() {
		known.Finished = r.Finished // of the same statement
	}
	for k, other := range s.jobs {
		if k.group == h.Group && s.has("move: the Finished of all jobs") || k.job == r.Job && s.has("move: the Finished of all groups") {
			other.Finished = known.Finished
		}
	}
}

func (s *replica) write(h store.Holder, m store.Move, r *row, attempt int, text string) {
	was := r.Record
	r.State, r.Attempt, r.Owner, r.Token, r.Error = m.To, attempt, h.Owner, h.Token, text
	switch m.To {
	case jobs.Running:
		r.Started = s.now("Started")
	case jobs.Waiting:
		r.Due = s.now("the next attempt's Due").Add(m.Delay.Truncate(time.Microsecond))
		if s.has("move: Due without the delay") {
			r.Due = s.now("Due")
		}
	default:
		r.Finished = s.now("Finished")
	}
	switch {
	case s.has("move: leaves the attempt"):
		r.Attempt = was.Attempt
	case s.has("move: counts every attempt"):
		r.Attempt = was.Attempt + 1
	case s.has("move: no Started"):
		r.Started = was.Started
	case s.has("move: Started always"):
		r.Started = s.now("Started")
	case s.has("move: no Finished"):
		r.Finished = was.Finished
	case s.has("move: Finished always"):
		r.Finished = s.now("Finished")
	case s.has("move: clears Claimed"):
		r.Claimed = time.Time{}
	case s.has("move: clears Missed"):
		r.Missed = 0
	case s.has("move: leaves the error"):
		r.Error = was.Error
	case s.has("move: leaves the owner"):
		r.Owner = was.Owner
	case s.has("move: leaves the token"):
		r.Token = was.Token
	case s.has("move: clears CancelAsked at a start") && m.To == jobs.Running:
		r.CancelAsked = false
	case s.has("move: clears CancelAsked"), s.has("move: clears CancelAsked at the end") && m.To.Over():
		r.CancelAsked = false
	}
}

func (s *replica) Pause(ctx context.Context, group, job string) error {
	if err := s.ended(ctx, "Pause"); err != nil {
		return err
	}
	return s.setPaused("pause", "Pause", group, job, true)
}

func (s *replica) Resume(ctx context.Context, group, job string) error {
	if err := s.ended(ctx, "Resume"); err != nil {
		return err
	}
	return s.setPaused("resume", "Resume", group, job, false)
}

func (s *replica) ResumeSkipping(ctx context.Context, group, job string) error {
	if s.has("resume skipping: like Resume") {
		return s.Resume(ctx, group, job)
	}
	was := s.openPauses(group)
	err := s.Resume(ctx, group, job)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := jobKey{s.name(group), s.name(job)}
	if pauses := s.pauses[k]; err == nil && len(pauses) > 0 && (was[k] || s.has("resume skipping: what is not paused")) {
		pauses[len(pauses)-1].Began = time.Time{}
		if s.has("resume skipping: all pauses") {
			for i := range pauses {
				pauses[i].Began = time.Time{}
			}
		}
	}
	return err
}

// openPauses are those of the group that go on.
func (s *replica) openPauses(group string) map[jobKey]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := map[jobKey]bool{}
	for k, pauses := range s.pauses {
		open[k] = k.group == s.name(group) && len(pauses) > 0 && pauses[len(pauses)-1].Ended.IsZero()
	}
	return open
}

func (s *replica) setPaused(statement, how, group, job string, paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	group, job = s.name(group), s.name(job)
	known := s.jobs[jobKey{group, job}]
	if job != "" && known == nil {
		for k := range s.jobs {
			if k.job == job && s.has(statement+": jobs of other groups") {
				return nil
			}
		}
		if s.has(statement + ": makes jobs") {
			s.jobs[jobKey{group, job}] = &jobs.Known{Paused: true}
			return jobs.ErrNoJob
		}
		if s.has(statement + ": jobs that there are not") {
			return nil
		}
		return fmt.Errorf("%w: %q", jobs.ErrNoJob, job)
	}
	if s.has(statement + ": does nothing") {
		s.changed(group, how)
		return nil
	}
	was := s.paused[group]
	if job != "" {
		was = known.Paused
	}
	if job != "" && was == paused && s.has(statement+": only once") {
		return jobs.ErrNoJob
	}
	if job == "" {
		how += " of the group"
	}
	if was != paused || s.has("changes: with the second "+how) {
		s.changed(group, how)
	}
	s.pause(jobKey{group, job}, was, paused)
	if job != "" {
		if known.Paused = paused; s.has("pause: toggles") && paused {
			known.Paused = known.Since != known.ScheduleSince
			known.ScheduleSince = known.Since
		}
		if s.has(statement + ": the group with a job") {
			s.paused[group] = paused
		}
	} else {
		s.paused[group] = paused && !s.has("pause: not the group")
	}
	for k, other := range s.jobs {
		if k.group == group && (s.has(statement+": all jobs") || job == "" && s.has(statement+": jobs with the group")) ||
			k.job == job && s.has(statement+": all groups") {
			other.Paused = paused
		}
	}
	if job == "" && s.has(statement+": all groups") {
		for _, name := range []string{"billing", otherOne} {
			s.paused[name] = paused
		}
	}
	return nil
}

// pause keeps when a pause began and ended.
func (s *replica) pause(k jobKey, was, paused bool) {
	pauses := s.pauses[k]
	switch {
	case paused && (!was || s.has("pause: begins again")):
		if was {
			pauses = pauses[:len(pauses)-1]
		}
		if s.has("pause: only the last is kept") {
			pauses = nil
		}
		pauses = append(pauses, jobs.Pause{Began: s.now("Pause")})
	case !paused && len(pauses) > 0 && (was || s.has("resume: ends again")):
		pauses[len(pauses)-1].Ended = s.now("Resume")
	}
	switch {
	case s.has("pause: no beginning") && paused && len(pauses) > 0:
		pauses[len(pauses)-1].Began = time.Time{}
	case s.has("resume: no end") && len(pauses) > 0:
		pauses[len(pauses)-1].Ended = time.Time{}
	case s.has("pause: forgets it after Resume") && !paused:
		pauses = nil
	case s.has("pause: the oldest are kept") && len(pauses) > store.MaxPauses:
		pauses = pauses[:store.MaxPauses]
	case s.has("pause: any number is kept"):
	default:
		pauses = pauses[max(0, len(pauses)-store.MaxPauses):]
	}
	s.pauses[k] = pauses
}

func (s *replica) Trigger(ctx context.Context, group, job string) (jobs.Key, error) {
	if err := s.ended(ctx, "Trigger"); err != nil {
		return jobs.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has("trigger: one at a time") {
		s.busy++
		defer func() { s.busy-- }()
		if s.elsewhere(); s.busy > 1 {
			return jobs.Key{}, errors.New("duplicate key")
		}
	}
	group, job = s.name(group), s.name(job)
	known := s.jobs[jobKey{group, job}]
	if known == nil {
		elsewhere := false
		for k := range s.jobs {
			elsewhere = elsewhere || k.job == job
		}
		allowed := elsewhere && s.has("trigger: jobs of other groups") || job == "" && s.has("trigger: the group") || s.has("trigger: jobs that there are not")
		if !allowed {
			return jobs.Key{}, fmt.Errorf("%w: %q", jobs.ErrNoJob, job)
		}
		known = &jobs.Known{}
	}
	if known.Paused && s.has("trigger: not when paused") {
		return jobs.Key{}, jobs.ErrNoJob
	}
	now := s.now("Trigger")
	key := jobs.Key{Job: job, Tick: now, Trigger: 1}
	if s.has("trigger: whole seconds") {
		key.Tick = now.Truncate(time.Second)
	}
	if s.has("trigger: no trigger") {
		key.Trigger = 0
	}
	for s.find(group, key, "trigger") != nil && !s.has("trigger: one in an instant of the clock") {
		key.Trigger++
	}
	r := &row{group: group, Record: jobs.Record{Key: key, State: jobs.Waiting, Claimed: s.now("Claimed"), Due: s.now("Due")}}
	switch {
	case s.has("trigger: running"):
		r.State = jobs.Running
	case s.has("trigger: of the holder"):
		if f := s.fence(group); f != nil {
			r.Owner, r.Token = f.Owner, f.Token
		}
	case s.has("trigger: attempt 1"):
		r.Attempt = 1
	case s.has("trigger: due later"):
		r.Due = now.Add(time.Minute)
	case s.has("trigger: no Claimed"):
		r.Claimed = time.Time{}
	}
	if !s.has("trigger: no run") {
		s.insert(r)
	}
	if s.has("trigger: all groups") {
		twin := *r
		twin.group = otherOne
		s.insert(&twin)
	}
	if s.changed(group, "Trigger"); s.has("trigger: answers another key") {
		key.Trigger++
	}
	return key, nil
}

func (s *replica) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if err := s.ended(ctx, "Cancel"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group = s.name(group)
	r := s.find(group, key, "cancel")
	switch {
	case r == nil && s.has("cancel: what there is not"), s.has("cancel: does nothing") && r != nil && !r.State.Over():
		s.changed(group, "Cancel")
		return nil
	case r == nil && s.has("cancel: all groups"):
		r = s.find("billing", key, "cancel")
	}
	if r == nil || r.State.Over() && !s.has("cancel: what is over") && (r.State != jobs.Skipped || !s.has("cancel: what was skipped")) ||
		r.State == jobs.Waiting && s.has("cancel: only running") || r.Owner == "" && s.has("cancel: only rows with an owner") ||
		r.CancelAsked && s.has("cancel: only once") {
		return fmt.Errorf("%w: %v", jobs.ErrNoRun, key)
	}
	asked := r.CancelAsked
	r.CancelAsked = true
	if s.has("cancel: ends the run") {
		r.State, r.Finished = jobs.Cancelled, s.now("Finished")
	}
	for _, other := range s.runs {
		if s.has("cancel: all of the job") && other.group == r.group && other.Job == r.Job {
			other.CancelAsked = true
		}
	}
	if !asked || s.has("changes: with each Cancel") {
		s.changed(group, "Cancel")
	}
	return nil
}

func (s *replica) Runs(ctx context.Context, group string, f jobs.Filter) ([]jobs.Record, error) {
	if err := s.ended(ctx, "Runs"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group, f.Job = s.name(group), s.name(f.Job)
	limit := cmp.Or(f.Limit, 100)
	switch {
	case f.Limit == 0 && s.has("runs: no default limit"), s.has("runs: ignores the limit"):
		limit = math.MaxInt
	case f.Limit == 0 && s.has("runs: default limit of 50"):
		limit = 50
	case s.has("runs: at most 100"):
		limit = min(limit, 100)
	}
	if s.has("runs: Since in whole microseconds") {
		f.Since = f.Since.Truncate(time.Microsecond)
	}
	var rs []jobs.Record
	looked := 0
	for _, r := range slices.Backward(s.runs) {
		if r.group != group && !s.has("runs: of all groups") {
			continue
		}
		if looked++; looked > limit && s.has("runs: limit before the filter") {
			break
		}
		if (f.Job == "" || r.Job == f.Job || s.has("runs: ignores the job") || s.has("names: patterns") && matches(f.Job, r.Job)) &&
			(f.State == 0 || r.State == f.State || s.has("runs: ignores the state")) &&
			(!r.Tick.Before(f.Since) || s.has("runs: ignores Since")) &&
			(f.Since.IsZero() || !r.Tick.Equal(f.Since) || !s.has("runs: later than Since")) {
			rs = append(rs, r.Record)
		}
	}
	switch {
	case s.has("runs: the oldest first"):
		rs = rs[:min(limit, len(rs))]
		slices.Reverse(rs)
	case s.has("runs: by job"):
		slices.SortStableFunc(rs, func(a, b jobs.Record) int { return cmp.Compare(a.Job, b.Job) })
	case s.has("runs: limit of the oldest"):
		return rs[max(0, len(rs)-limit):], nil
	}
	return rs[:min(limit, len(rs))], nil
}

// matches is LIKE.
func matches(pattern, name string) bool {
	if len(pattern) != len(name) {
		return false
	}
	for i := range len(name) {
		if pattern[i] != name[i] && pattern[i] != '_' {
			return false
		}
	}
	return true
}

func (s *replica) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if err := s.ended(ctx, "Prune"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done, err := s.alone("store: Prune and Claim not at once")
	if err != nil {
		return 0, err
	}
	defer done()
	group, job = s.name(group), s.name(job)
	switch {
	case s.has("prune: ignores the batch"), batch == 0 && s.has("prune: no default batch"):
		batch = math.MaxInt
	case batch == 0 && s.has("prune: default batch of 100"):
		batch = 100
	case batch == 0:
		batch = 500
	}
	keep, age := history.Keep, history.For
	switch {
	case keep > 0 && s.has("prune: keeps one more"):
		keep++
	case keep > 0 && s.has("prune: keeps one less"):
		keep--
	case s.has("prune: ignores Keep"):
		keep = 0
	case s.has("prune: ignores For"):
		age = 0
	case s.has("prune: For in hours"):
		age = age.Truncate(time.Hour)
	}
	of := func(r *row) bool {
		return (r.group == group || s.has("prune: all groups")) && (r.Job == job || s.has("prune: all jobs"))
	}
	total, newest := 0, (*row)(nil)
	for _, r := range s.runs {
		if of(r) || r.group == group && s.has("prune: keeps so many of all jobs") {
			total++
		}
		if of(r) && (r.Trigger == 0 || s.has("prune: the newest tick beside manual runs")) {
			newest = r
		}
	}
	now := s.now("Now")
	if s.has("prune: by the machine's clock") {
		now = time.Now()
	}
	var gone []*row
	place, looked := total, 0
	runs := slices.Clone(s.runs)
	if s.has("prune: the newest first") {
		slices.Reverse(runs)
		place = 1
	}
	for _, r := range runs {
		if !of(r) {
			continue
		}
		end := r.Finished
		if s.has("prune: For since the claim") {
			end = r.Claimed
		}
		old := age > 0 && (now.Sub(end) > age || s.has("prune: ignores that they are young"))
		many := history.Keep > 0 && place > keep && !s.has("prune: ignores Keep")
		if place--; s.has("prune: the newest first") {
			place += 2
		}
		wanted := old || many
		switch {
		case s.has("prune: needs both bounds"):
			wanted = (old || age == 0) && (many || keep == 0) && (age > 0 || keep > 0)
		case s.has("prune: all without a bound") && history == (jobs.History{}):
			wanted = true
		}
		if !wanted || len(gone) >= batch {
			continue
		}
		if looked++; looked > batch && s.has("prune: batch of what is looked at") {
			break
		}
		if r.State == jobs.Running && !s.has("prune: running") || r.State == jobs.Waiting && !s.has("prune: waiting") ||
			r == newest && !s.has("prune: the newest tick") || r.Trigger != 0 && s.has("prune: not manual runs") {
			continue
		}
		gone = append(gone, r)
	}
	s.runs = slices.DeleteFunc(s.runs, func(r *row) bool { return slices.Contains(gone, r) })
	if known := s.jobs[jobKey{group, job}]; known != nil && len(gone) > 0 && s.has("prune: clears Finished") {
		known.Finished = time.Time{}
	}
	switch {
	case s.has("prune: counts one more"):
		return len(gone) + 1, nil
	case s.has("prune: counts nothing"):
		return 0, nil
	}
	return len(gone), nil
}
