package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// books is what the ledger should have, kept beside it and checked with each
// statement:
//
//   - a key is claimed once, by the holder of the moment, and a row is moved by
//     the holder of the moment, from what the move says it is;
//   - the ticks of a job are claimed in order, and each since the job is known
//     has a row or is counted by the one after it;
//   - no tick is claimed before its time where the clocks have a limit, and the
//     database's is wrong by less than half of that, or by much more;
//   - each end of a run that is a failure, and each claim that stands for missed ticks,
//     brings one notice, and no other end does: see notices_test.go;
//   - the ledger never forgets where a job's ticks are, or since when its
//     schedule rules.
type books struct {
	rows      map[jobs.Key]entry
	jobs      map[string]jobs.Known // Cursor as it should be
	attempts  map[string]bool       // that were started
	schedules map[string]jobs.Schedule
	declared  map[string]jobs.Job // by the release of the last term
	excused   map[jobs.Key]bool   // rows that were forgotten, or went back
	refused   map[jobs.Key]bool   // claims that were refused, and may come late once more
	fencing   map[string]begun    // the newest token of each job, of a run that has begun
}

// begun is what the run with the newest token of its job has begun with.
type begun struct {
	token  uint64
	beside bool // others may run beside it, as its leader had the job
}

type entry struct {
	id      store.ClaimID
	state   jobs.State
	attempt int
	owner   string
	token   uint64
	of      string    // the lease that it runs under, or the leader's
	job     jobs.Job  // as the leader has it that claimed or assigned it, or divided its run
	only    string    // of a shard that one replica alone may have: its session, as owner=token
	changed time.Time // by the bubble's clock
}

func newBooks() *books {
	return &books{
		rows: map[jobs.Key]entry{}, jobs: map[string]jobs.Known{}, attempts: map[string]bool{},
		schedules: map[string]jobs.Schedule{}, declared: map[string]jobs.Job{}, excused: map[jobs.Key]bool{}, refused: map[jobs.Key]bool{},
		fencing: map[string]begun{},
	}
}

// clone copies what a backup has.
func (b *books) clone() *books {
	return &books{rows: maps.Clone(b.rows), jobs: maps.Clone(b.jobs), fencing: maps.Clone(b.fencing)}
}

// forget goes back to older books, and returns how many rows that changes.
func (b *books) forget(old *books) (n int) {
	for key, row := range b.rows {
		if before, ok := old.rows[key]; !ok || before.attempt != row.attempt || before.state != row.state {
			b.excused[key] = true
			n++
		}
	}
	b.rows, b.jobs, b.fencing = old.rows, old.jobs, old.fencing
	return n
}

// countsAgainst reports whether the loss of what has come since is one that replicas notice which have
// seen it: the newest tick of a job is lost, and was dealt with more than a minute ago.
func (b *books) countsAgainst(before *books) bool {
	newest := map[string]jobs.Key{}
	for key := range b.rows {
		if key.Trigger == 0 && !key.Tick.Before(newest[key.Job].Tick) {
			newest[key.Job] = key
		}
	}
	for _, key := range newest {
		row := b.rows[key]
		if _, kept := before.rows[key]; !kept && row.state.Over() && row.state != jobs.Skipped && time.Since(row.changed) > 75*time.Second {
			return true
		}
	}
	return false
}

// Declare implements [store.Ledger].
func (w *world) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	w.enter()
	defer w.mu.Unlock()
	err := w.Store.Declare(ctx, h, declared)
	if err != nil {
		w.refused("declare", h, err)
		return err
	}
	w.note("%s declares %d jobs under %d, spread: %v", by(h.Owner), len(declared), h.Token, h.Assigns)
	w.mustHold("declares", h)
	b := w.rows
	for _, d := range declared {
		known, ok := b.jobs[d.Name]
		switch {
		case !ok:
			known = jobs.Known{Since: w.now(), ScheduleSince: w.now()}
		case known.ScheduleSince.After(w.now()): // the clock was set back
			w.counts["ruled from the future"]++
			if known.ScheduleSince = d.From; d.From.IsZero() {
				known.ScheduleSince = w.now()
			}
		case known.Schedule != d.Schedule:
			w.counts["schedule changed"]++
			// From the end of the term before on, or from now on where a job comes back
			// after a long absence, but never back.
			if d.From.IsZero() {
				d.From = w.now()
			}
			if d.From.After(known.ScheduleSince) {
				known.ScheduleSince = d.From
			}
		}
		if known.ScheduleSince.After(w.now()) {
			known.ScheduleSince = w.now()
		}
		known.Schedule = d.Schedule
		b.jobs[d.Name] = known
		if b.schedules[d.Schedule] == nil {
			w.failf("%q: no replica declares that", d.Schedule)
		}
	}
	if r := w.replicas[h.Owner]; r != nil {
		if h.Assigns {
			w.lent(r)
		}
		for _, j := range r.release.jobs {
			b.declared[j.Name] = j.Complete()
		}
	}
	return nil
}

// lent keeps how other replicas declare the jobs that a leader lacks, which it plans as the one does that began last.
func (w *world) lent(leader *replica) {
	all := slices.SortedFunc(maps.Values(w.replicas), func(a, b *replica) int { return a.began.Compare(b.began) })
	for _, r := range all {
		if r.mode && !r.dead {
			for _, j := range r.release.jobs {
				if w.rows.declared[j.Name].Name == "" || !slices.ContainsFunc(leader.release.jobs, func(own jobs.Job) bool { return own.Name == j.Name }) {
					w.rows.declared[j.Name] = j.Complete()
				}
			}
		}
	}
}

// plannedAs is how a leader plans a job. It is not sure where runs are spread, some replicas lack the job, and others
// declare it in several ways: which of these a leader goes by that lacks it may change at any time. Then its runs may go
// on beside each other.
func (w *world) plannedAs(h store.Holder, job string) (j jobs.Job, sure bool) {
	j, sure = w.rows.declared[job], true
	isLacked := false
	for _, r := range w.replicas {
		has := false
		for _, other := range r.release.jobs {
			if other.Name == job {
				has = true
				sure = sure && other.Misfire == j.Misfire && other.CatchUp == j.CatchUp && other.Overlap == j.Overlap && other.Limit == j.Limit
			}
		}
		isLacked = isLacked || !has
	}
	if sure = sure || !isLacked || !h.Assigns; !sure {
		j.Overlap, j.Limit = jobs.OverlapAllow, 0
	}
	return j, sure
}

// Load implements [store.Ledger].
func (w *world) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	w.enter()
	defer w.mu.Unlock()
	s, err := w.Store.Load(ctx, group)
	if err != nil {
		return s, err
	}
	for name, known := range w.rows.jobs {
		got := s.Jobs[name]
		if !got.Cursor.Equal(known.Cursor) || got.Schedule != known.Schedule || !got.ScheduleSince.Equal(known.ScheduleSince) || !got.Since.Equal(known.Since) {
			w.failf("%s: the ledger knows %+v, want %+v", name, got, known)
		}
	}
	return s, nil
}

// Claim implements [store.Ledger].
func (w *world) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	w.enter()
	defer w.mu.Unlock()
	result, err := w.Store.Claim(ctx, h, id, claims)
	if err != nil {
		w.refused("claim", h, err)
		return result, err
	}
	batch := map[string]int{} // claims of each job
	for _, c := range claims {
		batch[c.Job]++
	}
	for i, c := range claims {
		r, row := result[i], w.rows.rows[c.Key]
		_, had := w.rows.rows[c.Key]
		switch {
		case r.Mine && had && row.id != id:
			w.failf("%v is claimed twice, under %d and %d", c.Key, row.token, h.Token)
		case r.Mine && had:
			w.counts["claim repeated"]++
		case r.Refused() && !had:
			w.refusedClaim(ctx, h, c)
		case !r.Mine && !had:
			w.failf("%v is not there and not to be claimed: %+v", c.Key, r.Record)
		case !r.Mine && h.Token == w.terms(group).holder.Token && !w.rows.refused[c.Key]:
			w.failf("%v is claimed again under %d, it was under %d", c.Key, h.Token, row.token)
		case !r.Mine:
			w.counts["claimed before"]++
		default:
			w.claimed(h, id, c, r.Record, batch)
			w.told(h, c.Key, c.Then, toldMissed(c)...)
		}
	}
	return result, nil
}

// refusedClaim checks a claim that was refused: its job is paused, has later ticks, or
// has lost some.
func (w *world) refusedClaim(ctx context.Context, h store.Holder, c store.Claim) {
	snapshot, err := w.Store.Load(ctx, h.Group)
	paused := c.State != jobs.Skipped && (snapshot.Paused || snapshot.Jobs[c.Job].Paused)
	if cursor := w.rows.jobs[c.Job].Cursor; err == nil && !paused && c.Tick.After(cursor) && !c.After.After(cursor) {
		w.failf("%s: %v after %v is refused, the cursor is %v", c.Job, c.Tick, c.After, cursor)
	}
	w.rows.refused[c.Key] = true
	w.counts["tick refused"]++
}

// claimed checks and keeps a claim that took effect.
func (w *world) claimed(h store.Holder, id store.ClaimID, c store.Claim, r jobs.Record, batch map[string]int) {
	w.note("%s claims %s %v under %d: %v, missed %d, %q", by(h.Owner), c.Job, c.Tick, h.Token, c.State, c.Missed, c.Error)
	w.mustHold("claims", h)
	b := w.rows
	w.counts["claimed as "+c.State.String()]++
	if early := time.Until(c.Tick); w.limit > 0 && early > w.limit/2+time.Millisecond {
		w.failf("%s: %v is claimed %v before its time, and the clocks may differ by %v", c.Job, c.Tick, early, w.limit)
	}
	if c.Error != "" {
		w.counts["skipped: "+c.Error]++
	}
	if c.Missed > 0 {
		w.counts["missed"]++
	}
	if r.Missed > c.Missed { // an earlier row is this one now
		was := jobs.Key{Job: c.Job, Tick: c.Extends}
		if row, had := b.rows[was]; !had || row.state != jobs.Skipped || row.owner != h.Owner || row.token != h.Token || c.State != jobs.Skipped {
			w.failf("%s: %v extends %v, which is %+v", c.Job, c.Tick, c.Extends, row)
		}
		delete(b.rows, was)
		w.counts["row extended"]++
	}
	under := h.Keeps(c.State, c.For)
	j, sure := w.plannedAs(h, c.Job)
	b.rows[c.Key] = entry{id: id, state: c.State, attempt: r.Attempt, owner: under.Owner, token: under.Token, of: h.Fence(), job: j, changed: time.Now()}
	known := b.jobs[c.Job]
	if err := b.follows(known, c); err != nil {
		w.failf("%s: %v is claimed under %d, missed %d, after %v: %v", c.Job, c.Tick, h.Token, c.Missed, known, err)
	}
	if sure && c.Missed > 0 && c.State != jobs.Skipped && j.Misfire.Each() && len(b.open(c.Job))+batch[c.Job] < j.CatchUp.Limit {
		w.failf("%s: %v stands for %d missed ticks, which are to be run", c.Job, c.Tick, c.Missed)
	}
	if sure && w.peace && j.Overlap == jobs.OverlapForbid && !j.Misfire.Each() && c.State != jobs.Skipped {
		for x := range w.works {
			if x.Job == c.Job && (x.of != group || x.term == h.Token) && time.Since(x.began) > 0 {
				w.failf("%s: %v is claimed as %v while %v runs, which forbids it", c.Job, c.Tick, c.State, x.Key())
			}
		}
	}
	if c.Tick.After(known.Cursor) {
		known.Cursor = c.Tick
		b.jobs[c.Job] = known
	}
}

// follows reports whether a claim, with the ticks that it counts, is the next
// after what is known of its job.
func (b *books) follows(known jobs.Known, c store.Claim) error {
	rules := b.schedules[known.Schedule]
	if relative, ok := rules.(jobs.Relative); ok {
		rules = relative.From(known)
	}
	backward, ok := rules.(jobs.Backward)
	switch {
	case rules == nil:
		return errors.New("the job is not known")
	case !ok || isDelay(known.Schedule):
		if !c.Tick.After(known.Cursor) {
			return errors.New("not later")
		}
		return nil
	case c.Missed >= 10_000: // at least
		return nil
	}
	first := c.Tick
	for range c.Missed {
		first = backward.Prev(first)
	}
	if want := b.next(known); !first.Equal(want) {
		return fmt.Errorf("it begins with %v, not %v", first, want)
	}
	return nil
}

// next is the first tick of a job that is not dealt with.
func (b *books) next(known jobs.Known) time.Time {
	rules, after := b.schedules[known.Schedule], known.Cursor
	relative, ok := rules.(jobs.Relative)
	if ok {
		rules = relative.From(known)
	}
	if since := known.ScheduleSince; after.Before(since) {
		after = since
		if ok {
			after = since.Add(-1)
		}
	}
	return rules.Next(after)
}

// Move implements [store.Ledger].
func (w *world) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	w.enter()
	defer w.mu.Unlock()
	done, err := w.Store.Move(ctx, h, moves)
	if err != nil {
		w.refused("move", h, err)
		return done, err
	}
	for i, m := range moves {
		row, ok := w.rows.rows[m.Key]
		attempt := m.Attempt
		if m.To == jobs.Running || h.Assigns && m.To == m.From && m.Owner != "" { // the latter is taken from a replica
			attempt++
		}
		under := h.Keeps(m.To, m.For)
		switch {
		case !done[i]:
			w.counts["row not moved"]++
			continue
		case !ok:
			w.failf("%+v: there is no such row", m)
			continue
		case row.state == m.To && row.attempt == attempt && row.owner == under.Owner && row.token == under.Token:
			w.counts["move repeated"]++
			continue
		case row.state.Over() || row.state != m.From || row.attempt != m.Attempt || row.owner != m.Owner || row.token != m.Token:
			w.failf("%+v: the row is %+v", m, row)
		}
		w.note("%s moves %s %v to %v under %d, attempt %d: %s", by(h.Owner), m.Job, m.Tick, m.To, h.Token, attempt, m.Error)
		w.mustHold("moves", h)
		w.counts["moved to "+m.To.String()]++
		if m.From == jobs.Running && m.Token != h.Token {
			w.counts["recovered"]++
		}
		if _, shards := triggers.ShardOf(m.Trigger); shards == 0 && h.Session == "" {
			row.job, _ = w.plannedAs(h, m.Job)
		}
		w.rows.rows[m.Key] = entry{job: row.job, id: row.id, state: m.To, attempt: attempt, owner: under.Owner, token: under.Token, of: h.Fence(), only: row.only, changed: time.Now()}
		w.abandoned(h, m, row)
		w.divided(h, m)
		w.told(h, m.Key, m.Then, toldEnd(m)...)
	}
	return done, nil
}

// abandoned checks that a shard which one replica alone may have is not skipped while that replica can have it. Under a
// leader that runs everything, it cannot.
func (w *world) abandoned(h store.Holder, m store.Move, row entry) {
	if m.To != jobs.Skipped || row.only == "" {
		return
	}
	if w.counts["shard skipped"]++; !h.Assigns {
		return
	}
	owner, token, _ := strings.Cut(row.only, "=")
	r, leader, session := w.replicas[owner], w.replicas[h.Owner], w.terms(store.SessionGroup(owner)).holder
	if r == nil || leader == nil || r.dead || !r.left.IsZero() || session.Owner != owner || fmt.Sprint(session.Token) != token || r.release != leader.release {
		return
	}
	w.failf("%v is skipped, and %s goes on under session %s", m.Key, by(owner), token)
}

// divided keeps the shards that a run has begun with, and checks that a run that has succeeded has some, and that each has.
func (w *world) divided(h store.Holder, m store.Move) {
	under := h.Keeps(jobs.Waiting, store.Assignee{})
	sessions := strings.Fields(m.Each)
	for _, f := range m.Then {
		if f.Job != jobs.ShardsOf(m.Job) {
			continue
		}
		only := ""
		if i, n := triggers.ShardOf(f.Trigger); n == len(sessions) {
			only = sessions[i]
			w.counts["shard for one replica"]++
		} else if len(sessions) > 0 {
			w.failf("%v begins with %d shards for %d replicas", m.Key, n, len(sessions))
		}
		if row, there := w.rows.rows[f.Key]; there && !w.rows.excused[m.Key] {
			w.failf("%v begins with a shard that it has begun with before: %+v", m.Key, row)
		}
		w.rows.rows[f.Key] = entry{state: jobs.Waiting, owner: under.Owner, token: under.Token, job: w.rows.declared[m.Job], only: only, changed: time.Now()}
		w.counts["shard"]++
	}
	if m.To != jobs.Succeeded || m.Shards == 0 || w.rows.excused[m.Key] {
		return
	}
	for i := range m.Shards {
		shard := jobs.Key{Job: jobs.ShardsOf(m.Job), Tick: m.Tick, Trigger: triggers.Shard(m.Trigger, i, m.Shards)}
		if row := w.rows.rows[shard]; row.state != jobs.Succeeded && (row.state != jobs.Skipped || row.only == "") && !w.rows.excused[shard] {
			w.failf("%v has succeeded, and its shard %d is %+v", m.Key, i, row)
		}
	}
	w.counts["all shards have succeeded"]++
}

// Prune implements [store.Ledger].
func (w *world) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	w.enter()
	defer w.mu.Unlock()
	n, err := w.Store.Prune(ctx, group, job, history, batch)
	w.counts["pruned"] += n
	return n, err
}

// Trigger implements [jobs.Control].
func (w *world) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	w.enter()
	defer w.mu.Unlock()
	key, err := w.Store.Trigger(ctx, group, job, r)
	if err == nil {
		w.rows.rows[key] = entry{state: jobs.Waiting, changed: time.Now()}
	}
	return key, err
}

// mustHold checks that h is the holder; called with mu held, as what follows.
func (w *world) mustHold(does string, h store.Holder) {
	if holder := w.terms(h.Fence()).holder; h.Owner != holder.Owner || h.Token != holder.Token {
		w.failf("%s %s under %d, while %s holds %q under %d", by(h.Owner), does, h.Token, by(holder.Owner), h.Fence(), holder.Token)
	}
}

func (w *world) refused(what string, h store.Holder, err error) {
	if errors.Is(err, store.ErrReplaced) {
		w.counts[what+" refused"]++
		w.note("%s has a %s refused under %d", by(h.Owner), what, h.Token)
	}
}

// open are the rows of a job that are not over, oldest first.
func (b *books) open(job string) (keys []jobs.Key) {
	for key, row := range b.rows {
		if key.Job == job && !row.state.Over() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b jobs.Key) int { return a.Tick.Compare(b.Tick) })
	return keys
}
