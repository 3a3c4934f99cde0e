package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func (s *ledgerReplica) Pause(ctx context.Context, group, job string) error {
	if err := s.ended(ctx, "Pause"); err != nil {
		return err
	}
	return s.setPaused("pause", "Pause", group, job, true)
}

func (s *ledgerReplica) Resume(ctx context.Context, group, job string) error {
	if err := s.ended(ctx, "Resume"); err != nil {
		return err
	}
	return s.setPaused("resume", "Resume", group, job, false)
}

func (s *ledgerReplica) ResumeSkipping(ctx context.Context, group, job string) error {
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
func (s *ledgerReplica) openPauses(group string) map[jobKey]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := map[jobKey]bool{}
	for k, pauses := range s.pauses {
		open[k] = k.group == s.name(group) && len(pauses) > 0 && pauses[len(pauses)-1].Ended.IsZero()
	}
	return open
}

func (s *ledgerReplica) setPaused(statement, how, group, job string, paused bool) error {
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
func (s *ledgerReplica) pause(k jobKey, was, paused bool) {
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

func (s *ledgerReplica) Trigger(ctx context.Context, group, job string, ask jobs.Request) (jobs.Key, error) {
	if err := s.ended(ctx, "Trigger"); err != nil {
		return jobs.Key{}, err
	}
	if err := s.checkArgs(ask.Args); err != nil {
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
	if !ask.Tick.IsZero() && !s.has("trigger: the present tick") {
		key.Tick = ask.Tick
	}
	if ask.Trigger != 0 && !s.has("trigger: a number of its own") {
		key.Trigger = ask.Trigger
		if there := s.find(group, key, "trigger"); there != nil {
			switch {
			case s.has("trigger: again fails"):
				return jobs.Key{}, errors.New("duplicate key")
			case s.has("trigger: again overwrites"):
				there.args, there.Backfill = ask.Args, ask.Backfill
			case s.has("trigger: again counts"):
				s.changed(group, "Trigger")
			}
			return key, nil
		}
	}
	if s.tooMany(group, job) {
		return jobs.Key{}, jobs.ErrManyOpen
	}
	for s.find(group, key, "trigger") != nil && !s.has("trigger: one in an instant of the clock") {
		key.Trigger++
	}
	r := &ledgerRow{group: group, Record: jobs.Record{Key: key, State: jobs.Waiting, Claimed: s.now("Claimed"), Due: s.now("Due"), Backfill: ask.Backfill}}
	s.setArgs(r, ask.Args)
	switch {
	case s.has("trigger: no backfill"):
		r.Backfill = ""
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

// tooMany reports whether a job has as many open runs as one may have.
func (s *ledgerReplica) tooMany(group, job string) bool {
	n := 0
	for _, r := range s.runs {
		if (r.group == group || s.has("trigger: counts runs of all groups")) && (r.Job == job || s.has("trigger: counts runs of all jobs")) &&
			(!r.State.Over() || s.has("trigger: counts runs that are over")) && (r.State != jobs.Running || !s.has("trigger: counts those that wait")) {
			n++
		}
	}
	return !s.has("trigger: any number") && (n >= jobs.MaxOpen || s.has("trigger: one too few") && n == jobs.MaxOpen-1)
}

func (s *ledgerReplica) checkArgs(args json.RawMessage) error {
	err := jobs.CheckArgs(args)
	switch {
	case args == nil || err == nil:
		return nil
	case s.has("args: of any text") && len(args) <= jobs.MaxArgs, s.has("args: of any size") && len(args) > jobs.MaxArgs:
		return nil
	case s.has("args: shown in errors"):
		return fmt.Errorf("%w: %.40q", err, args)
	}
	return err
}

// setArgs gives a row its arguments.
func (s *ledgerReplica) setArgs(r *ledgerRow, args json.RawMessage) {
	r.args, r.HasArgs = slices.Clone(args), args != nil
	switch {
	case s.has("args: none"):
		r.args, r.HasArgs = nil, false
	case s.has("args: not in the record"):
		r.HasArgs = false
	case s.has("args: in each record"):
		r.HasArgs = true
	case s.has("args: in 65,535 bytes"):
		r.args = r.args[:min(len(r.args), 1<<16-1)]
	case s.has("args: trimmed"):
		r.args = bytes.TrimSpace(r.args)
	case s.has("args: as numbers") && args != nil:
		r.args = bytes.ReplaceAll(r.args, []byte("2.50"), []byte("2.5")) // what a column of JSON may do
	}
}

func (s *ledgerReplica) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if err := s.ended(ctx, "Args"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group = s.name(group)
	r := s.find(group, key, "args")
	for _, other := range s.runs {
		if s.has("args: of the tick") && other.group == group && other.Job == key.Job && other.Tick.Equal(key.Tick) ||
			s.has("args: of all groups") && other.Key == key {
			r = other
		}
	}
	if r == nil && !s.has("args: none of what there is not") {
		return nil, fmt.Errorf("%w: %v", jobs.ErrNoRun, key)
	} else if r == nil {
		return nil, nil
	}
	return slices.Clone(r.args), nil
}

func (s *ledgerReplica) Cancel(ctx context.Context, group string, key jobs.Key) error {
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

func (s *ledgerReplica) Runs(ctx context.Context, group string, f jobs.Filter) ([]jobs.Record, error) {
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
	newestFirst := func(a, b jobs.Key) int {
		if s.has("runs: by number before the job") {
			return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Trigger, a.Trigger), cmp.Compare(b.Job, a.Job))
		}
		return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Job, a.Job), cmp.Compare(b.Trigger, a.Trigger))
	}
	all := slices.SortedStableFunc(slices.Values(s.runs), func(a, b *ledgerRow) int { return newestFirst(a.Key, b.Key) })
	behind := func(k jobs.Key) bool {
		switch order := newestFirst(f.Behind, k); {
		case f.Behind == jobs.Key{}, s.has("runs: ignores Behind"):
			return true
		case s.has("runs: Behind is among them"):
			return order <= 0
		case s.has("runs: Behind leaves out its tick"):
			return k.Tick.Before(f.Behind.Tick)
		default:
			return order < 0
		}
	}
	for _, r := range all {
		if !behind(r.Key) || !f.Until.IsZero() && !s.has("runs: ignores Until") && !r.Tick.Before(f.Until) && (!s.has("runs: until Until") || !r.Tick.Equal(f.Until)) {
			continue
		}
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

func (s *ledgerReplica) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
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
	of := func(r *ledgerRow) bool {
		return (r.group == group || s.has("prune: all groups")) && (r.Job == job || s.has("prune: all jobs"))
	}
	total, newest := 0, (*ledgerRow)(nil)
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
	var gone []*ledgerRow
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
	s.runs = slices.DeleteFunc(s.runs, func(r *ledgerRow) bool { return slices.Contains(gone, r) })
	if known := s.jobs[jobKey{group, job}]; known != nil && len(gone) > 0 && s.has("prune: clears Finished") {
		known.Finished = time.Time{}
	}
	if known := s.jobs[jobKey{group, job}]; known != nil && len(gone) > 0 && s.has("prune: clears Failing") {
		known.Failing = false
	}
	switch {
	case s.has("prune: counts one more"):
		return len(gone) + 1, nil
	case s.has("prune: counts nothing"):
		return 0, nil
	}
	return len(gone), nil
}
