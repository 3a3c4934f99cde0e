package memdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Ledger = (*Store)(nil)

// ledger is a group's jobs and runs.
type ledger struct {
	changes uint64
	paused  bool
	opened  jobs.Opened
	jobs    map[string]*jobs.Known
	pauses  map[string][]jobs.Pause // by job; the group's own under ""
	runs    map[string][]*run       // by job, in the order of their keys
	archive
}

// run is a record with the claim that wrote it, and its arguments, which never change.
type run struct {
	jobs.Record
	id       store.ClaimID
	args     json.RawMessage
	attempts []jobs.Attempt // as store.Archive says, but for the last one
	number   uint64         // see [Run]
}

func newLedger() *ledger {
	return &ledger{jobs: map[string]*jobs.Known{}, pauses: map[string][]jobs.Pause{}, runs: map[string][]*run{}}
}

func cloneLedgers(ledgers map[string]*ledger) map[string]*ledger {
	clones := make(map[string]*ledger, len(ledgers))
	for group, l := range ledgers {
		clone := newLedger()
		clone.changes, clone.paused, clone.opened, clone.archive = l.changes, l.paused, l.opened, l.clone()
		for name, pauses := range l.pauses {
			clone.pauses[name] = slices.Clone(pauses)
		}
		for name, known := range l.jobs {
			k := *known
			clone.jobs[name] = &k
		}
		for name, runs := range l.runs {
			for _, r := range runs {
				c := *r
				c.attempts = slices.Clone(r.attempts)
				clone.runs[name] = append(clone.runs[name], &c)
			}
		}
		clones[group] = clone
	}
	return clones
}

// compare orders the runs of a job.
func compare(a, b jobs.Key) int {
	return cmp.Or(a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger))
}

// find returns where the run of the key is, or belongs.
func (l *ledger) find(key jobs.Key) (int, bool) {
	return slices.BinarySearchFunc(l.runs[key.Job], key, func(r *run, k jobs.Key) int { return compare(r.Key, k) })
}

func (l *ledger) get(key jobs.Key) *run {
	if i, ok := l.find(key); ok {
		return l.runs[key.Job][i]
	}
	return nil
}

// newest is the job's newest scheduled tick; zero when there is none.
func (l *ledger) newest(job string) time.Time {
	for _, r := range slices.Backward(l.runs[job]) {
		if r.Trigger == 0 {
			return r.Tick
		}
	}
	return time.Time{}
}

// refuses reports whether a claim of a row that is not there is refused. newest
// are the newest ticks before the call.
func (l *ledger) refuses(c store.Claim, newest map[string]time.Time) bool {
	if c.Trigger != 0 {
		return false
	}
	if at := newest[c.Job]; !at.IsZero() && !c.Tick.After(at) {
		return true
	}
	known := l.jobs[c.Job]
	return c.State != jobs.Skipped && (l.paused || known != nil && known.Paused)
}

// extend gives a row of skipped ticks one more, or returns nil: see [store.Claim].
func (l *ledger) extend(h store.Holder, id store.ClaimID, c store.Claim, newest, now time.Time) *run {
	if !ledgerrows.Extends(c) || !c.Extends.Equal(newest) {
		return nil
	}
	i, ok := l.find(jobs.Key{Job: c.Job, Tick: c.Extends})
	if !ok {
		return nil
	}
	r := l.runs[c.Job][i]
	if r.State != jobs.Skipped || r.Owner != h.Owner || r.Token != h.Token || r.Error != ledgerrows.CutError(c.Error) {
		return nil
	}
	l.runs[c.Job] = slices.Delete(l.runs[c.Job], i, i+1)
	r.Tick, r.id, r.Finished = c.Tick, id, now
	r.Missed += 1 + c.Missed
	l.insert(r)
	return r
}

func (l *ledger) insert(r *run) {
	i, _ := l.find(r.Key)
	l.runs[r.Job] = slices.Insert(l.runs[r.Job], i, r)
}

// ledger returns the group's ledger; called with mu held.
func (s *Store) ledger(group string) *ledger {
	l, ok := s.ledgers[group]
	if !ok {
		l = newLedger()
		s.ledgers[group] = l
	}
	return l
}

// current reports whether h is the group's holder; called with mu held.
func (s *Store) current(h store.Holder) bool {
	f, ok := s.fences[h.Group]
	return ok && f.Owner == h.Owner && f.Token == h.Token
}

// Declare implements [store.Ledger].
func (s *Store) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current(h) {
		return store.ErrReplaced
	}
	l, now := s.ledger(h.Group), s.now()
	for _, d := range declared {
		known, ok := l.jobs[d.Name]
		switch {
		case !ok:
			l.jobs[d.Name] = &jobs.Known{Schedule: d.Schedule, Since: now, ScheduleSince: now}
		case known.Schedule != d.Schedule, known.ScheduleSince.After(now):
			from := now
			if !d.From.IsZero() && d.From.Before(now) {
				from = d.From
			}
			known.Schedule = d.Schedule
			if from.After(known.ScheduleSince) || known.ScheduleSince.After(now) {
				known.ScheduleSince = from
			}
		}
		l.jobs[d.Name].Gone = time.Time{}
	}
	if l.opened.Token != h.Token {
		l.opened = jobs.Opened{Token: h.Token, At: now}
	}
	return nil
}

// Load implements [store.Ledger].
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return jobs.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(group, func(string) bool { return true }), nil
}

// load loads those jobs whose names has is true for. It is called with mu held.
func (s *Store) load(group string, has func(name string) bool) jobs.Snapshot {
	l := s.ledger(group)
	snapshot := jobs.Snapshot{
		Now: s.now(), Server: s.identity(), Changes: l.changes, Paused: l.paused, Opened: l.opened,
		Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{},
	}
	for name, pauses := range l.pauses {
		if name == "" || has(name) {
			snapshot.Pauses[name] = slices.Clone(pauses)
		}
	}
	for name, known := range l.jobs {
		if has(name) {
			k := *known
			k.Cursor = l.newest(name)
			snapshot.Jobs[name] = k
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.runs)) {
		for _, r := range l.runs[name] {
			if !r.State.Over() {
				snapshot.Open = append(snapshot.Open, r.Record)
			}
		}
	}
	slices.SortStableFunc(snapshot.Open, func(a, b jobs.Record) int { return a.Tick.Compare(b.Tick) })
	ledgerrows.CountStarts(snapshot)
	return snapshot
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (store.Changes, error) {
	if err := ctx.Err(); err != nil {
		return store.Changes{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Changes{Number: s.ledger(group).changes, Now: s.now(), Server: s.identity()}, nil
}

// Claim implements [store.Ledger].
func (s *Store) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, c := range claims {
		if c.State != jobs.Running && c.State != jobs.Waiting && c.State != jobs.Skipped {
			return nil, fmt.Errorf("memstore: claim of job %q: state %v: must be running, waiting or skipped", c.Job, c.State)
		}
		if err := ledgerrows.CheckFollowers("memstore: claim", c.Key, c.Then); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now, current := s.ledger(h.Group), s.now(), s.current(h)
	result, newest := make([]store.Claimed, len(claims)), map[string]time.Time{}
	for _, c := range claims {
		if _, ok := newest[c.Job]; !ok {
			newest[c.Job] = l.newest(c.Job)
		}
	}
	for i, c := range claims {
		r := l.get(c.Key)
		if r == nil {
			if !current {
				return nil, store.ErrReplaced
			}
			if l.refuses(c, newest) {
				result[i].Key = c.Key
				continue
			}
			if r = l.extend(h, id, c, newest[c.Job], now); r != nil {
				result[i] = store.Claimed{Mine: true, Record: r.Record}
				continue
			}
			r = &run{id: id, Record: jobs.Record{
				Key: c.Key, State: c.State, Owner: h.Owner, Token: h.Token,
				Claimed: now, Missed: c.Missed, Error: ledgerrows.CutError(c.Error),
			}}
			switch c.State {
			case jobs.Running:
				r.Attempt, r.Started = 1, now
			case jobs.Waiting:
				r.Due = now.Add(c.Delay.Truncate(time.Microsecond))
			default:
				r.Finished = now
			}
			l.insert(r)
			l.follow(r, c.Then, now)
		}
		result[i] = store.Claimed{Mine: r.id == id, Record: r.Record}
	}
	return result, nil
}

// Move implements [store.Ledger].
func (s *Store) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, m := range moves {
		if err := ledgerrows.CheckFollowers("memstore: move", m.Key, m.Then); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now, current := s.ledger(h.Group), s.now(), s.current(h)
	done := make([]bool, len(moves))
	applied := false
	for i, m := range moves {
		r := l.get(m.Key)
		if r == nil {
			continue
		}
		attempt := m.Attempt
		if m.To == jobs.Running {
			attempt++
		}
		if r.State == m.To && r.Attempt == attempt && r.Owner == h.Owner && r.Token == h.Token {
			done[i], applied = true, true // by an earlier repetition
			continue
		}
		if !current || r.State.Over() || r.State != m.From || r.Attempt != m.Attempt || r.Owner != m.Owner || r.Token != m.Token {
			continue
		}
		r.leave(m, now)
		r.State, r.Attempt, r.Owner, r.Token, r.Error = m.To, attempt, h.Owner, h.Token, ledgerrows.CutError(m.Error)
		switch m.To {
		case jobs.Running:
			r.Started = now
		case jobs.Waiting:
			r.Due = now.Add(m.Delay.Truncate(time.Microsecond))
		default:
			r.Finished = now
			if known, ok := l.jobs[m.Job]; ok {
				known.Finished = now
				if m.Verdict != store.NoVerdict {
					known.Failing = m.Verdict == store.JobFails
				}
				if r.Started.After(known.Started) {
					known.Started = r.Started
				}
			}
		}
		done[i], applied = true, true
		l.follow(r, m.Then, now)
	}
	if !applied && !current && len(moves) > 0 {
		return nil, store.ErrReplaced
	}
	return done, nil
}

// follow inserts what follows a run that its holder has just changed.
func (l *ledger) follow(r *run, then []store.Follower, now time.Time) {
	for _, f := range then {
		if l.get(f.Key) != nil || f.Backfill != "" && r.CancelAsked {
			continue
		}
		args := r.args
		if f.Args != nil {
			args = slices.Clone(f.Args)
		}
		l.insert(&run{args: args, Record: jobs.Record{
			Key: f.Key, State: jobs.Waiting, Owner: r.Owner, Token: r.Token, Claimed: now,
			Due: now.Add(f.Delay.Truncate(time.Microsecond)), HasArgs: args != nil, Backfill: f.Backfill,
		}})
	}
}

// PassOver implements [store.Ledger].
func (s *Store) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current(h) {
		return 0, store.ErrReplaced
	}
	passed := 0
	for _, r := range s.ledger(h.Group).runs[job] {
		if r.Trigger == 0 && r.Tick.After(after) && r.Token != h.Token {
			r.Trigger = h.Token
			passed++
		}
	}
	slices.SortFunc(s.ledger(h.Group).runs[job], func(a, b *run) int { return compare(a.Key, b.Key) })
	return passed, nil
}

// Prune implements [store.Ledger].
func (s *Store) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if batch <= 0 {
		batch = 500
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.ledger(group), s.now()
	runs := l.runs[job]
	newest := -1
	for i, r := range runs {
		if r.Trigger == 0 {
			newest = i
		}
	}
	kept, deleted := runs[:0:0], 0
	for i, r := range runs {
		old := history.For > 0 && now.Sub(r.Finished) > history.For
		many := history.Keep > 0 && len(runs)-i > history.Keep
		if (old || many) && deleted < batch && i != newest && r.State.Over() {
			deleted++
			continue
		}
		kept = append(kept, r)
	}
	l.runs[job] = kept
	return deleted, nil
}

// Pause implements [jobs.Control].
func (s *Store) Pause(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, true, false)
}

// Resume implements [jobs.Control].
func (s *Store) Resume(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, false, false)
}

// ResumeSkipping implements [jobs.Control].
func (s *Store) ResumeSkipping(ctx context.Context, group, job string) error {
	return s.setPaused(ctx, group, job, false, true)
}

func (s *Store) setPaused(ctx context.Context, group, job string, paused, skipping bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(group)
	action := jobs.ActionPause
	switch {
	case skipping:
		action = jobs.ActionSkipping
	case !paused:
		action = jobs.ActionResume
	}
	flag := &l.paused
	if job != "" {
		known, ok := l.jobs[job]
		if !ok {
			s.note(ctx, group, jobs.Refused, action, jobs.Key{Job: job}, "")
			return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
		}
		flag = &known.Paused
	}
	if *flag == paused {
		s.note(ctx, group, jobs.Unchanged, action, jobs.Key{Job: job}, "")
		return nil
	}
	s.note(ctx, group, jobs.Done, action, jobs.Key{Job: job}, "")
	*flag = paused
	l.changes++
	s.ask(group)
	pauses := l.pauses[job]
	if paused {
		pauses = append(pauses, jobs.Pause{Began: s.now()})
	} else {
		last := &pauses[len(pauses)-1]
		last.Ended = s.now()
		if skipping {
			last.Began = time.Time{}
		}
	}
	l.pauses[job] = pauses[max(0, len(pauses)-store.MaxPauses):]
	return nil
}

// Trigger implements [jobs.Control].
func (s *Store) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	if err := ctx.Err(); err != nil {
		return jobs.Key{}, err
	}
	if err := ledgerrows.CheckRequest("memstore", job, r); err != nil {
		return jobs.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.ledger(group), s.now()
	action := ledgerrows.ActionOf(r)
	if _, ok := l.jobs[job]; !ok {
		s.note(ctx, group, jobs.Refused, action, jobs.Key{Job: job}, r.Note)
		return jobs.Key{}, fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
	}
	key := jobs.Key{Job: job, Tick: r.Tick.UTC(), Trigger: r.Trigger}
	if r.Tick.IsZero() {
		key.Tick = now
	}
	if key.Trigger == 0 {
		key.Trigger = 1
		for l.get(key) != nil {
			key.Trigger++
		}
	}
	if l.get(key) != nil {
		s.note(ctx, group, jobs.Unchanged, action, key, r.Note)
		return key, nil
	}
	s.note(ctx, group, jobs.Done, action, key, r.Note)
	l.insert(&run{args: slices.Clone(r.Args), Record: jobs.Record{
		Key: key, State: jobs.Waiting, Claimed: now, Due: now, HasArgs: r.Args != nil, Backfill: r.Backfill,
	}})
	l.changes++
	s.ask(group)
	return key, nil
}

// Args implements [jobs.Control].
func (s *Store) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.ledger(group).get(key)
	if r == nil {
		return nil, fmt.Errorf("%w: %s of %q in group %q", jobs.ErrNoRun, key.Tick.Format(time.RFC3339Nano), key.Job, group)
	}
	return slices.Clone(r.args), nil
}

// Cancel implements [jobs.Control].
func (s *Store) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger(group)
	r := l.get(key)
	if r == nil || r.State.Over() {
		s.note(ctx, group, jobs.Refused, jobs.ActionCancel, key, "")
		return fmt.Errorf("%w: %s of %q in group %q", jobs.ErrNoRun, key.Tick.Format(time.RFC3339Nano), key.Job, group)
	}
	if r.CancelAsked {
		s.note(ctx, group, jobs.Unchanged, jobs.ActionCancel, key, "")
		return nil
	}
	s.note(ctx, group, jobs.Done, jobs.ActionCancel, key, "")
	r.CancelAsked = true
	l.changes++
	s.ask(group)
	return nil
}

// Runs implements [jobs.Control].
func (s *Store) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []jobs.Record
	for name, runs := range s.ledger(group).runs {
		for _, r := range runs {
			if (filter.Job == "" || filter.Job == name) && (filter.State == 0 || filter.State == r.State) &&
				within(r.Tick, filter.Since, filter.Until) && (filter.Behind == jobs.Key{} || newestFirst(filter.Behind, r.Key) < 0) {
				records = append(records, r.Record)
			}
		}
	}
	slices.SortFunc(records, func(a, b jobs.Record) int { return newestFirst(a.Key, b.Key) })
	return first(records, filter.Limit), nil
}

// newestFirst is the order of [jobs.Control].Runs.
func newestFirst(a, b jobs.Key) int {
	return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Job, a.Job), cmp.Compare(b.Trigger, a.Trigger))
}
