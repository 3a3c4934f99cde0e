package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func (s *ledgerReplica) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
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
			s.jobs[k] = &jobs.Known{Schedule: job.Schedule, Since: now, ScheduleSince: now, Failing: s.stillFailing[k]}
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
		if s.has("declare: clears Failing") {
			known.Failing = false
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
	s.cameBack(h, declared)
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
func (d *ledgerDatabase) ruledFrom(before, from, now time.Time) time.Time {
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

func (s *ledgerReplica) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
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
	var open []*ledgerRow
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
		slices.SortStableFunc(open, func(a, b *ledgerRow) int { return cmp.Compare(a.Job, b.Job) })
	case s.has("load: as claimed"):
		slices.SortFunc(open, func(a, b *ledgerRow) int { return a.asked - b.asked })
	}
	for _, r := range open {
		snapshot.Open = append(snapshot.Open, r.Record)
	}
	return snapshot, nil
}

func (d *ledgerDatabase) cursor(k jobKey, f *store.Fence) time.Time {
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
func (d *ledgerDatabase) started(k jobKey, over time.Time) time.Time {
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

func (s *ledgerReplica) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
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
			s.runs = slices.DeleteFunc(s.runs, func(other *ledgerRow) bool { return other == r })
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

func (s *ledgerReplica) Changes(ctx context.Context, group string) (store.Changes, error) {
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
