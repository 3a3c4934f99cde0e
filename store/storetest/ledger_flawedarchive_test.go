package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func TestSoundArchivePasses(t *testing.T) {
	t.Parallel()
	archiveSuite.run(t, func(testing.TB) Harness { return flawedArchive("") })
}

func TestEachArchiveFlawFailsACase(t *testing.T) {
	t.Parallel()
	archiveProof.eachFlawFailsACase(t)
}

func TestEachArchiveCaseFindsAFlaw(t *testing.T) {
	t.Parallel()
	archiveProof.eachCaseFindsAFlaw(t)
}

var archiveProof = proof[*ledgerEnv]{
	suite: archiveSuite, flaws: archiveFlaws,
	about: func(name string) string { return name[:strings.IndexAny(name, ":/")] },
	harness: func(flaw string) Harness {
		h := flawedArchive(flaw)
		h.Patience = 5 * time.Second
		return h
	},
}

// archiveFlaws are those of [store.Archive].
var archiveFlaws = []string{
	"audit: no pauses",
	"audit: no resumes",
	"audit: no resumes that skip",
	"audit: no triggers",
	"audit: no backfills",
	"audit: no cancels",
	"audit: no resigns",
	"audit: no forgets",
	"audit: a backfill is a trigger",
	"audit: no names",
	"audit: no ways",
	"audit: no jobs",
	"audit: no ticks",
	"audit: no numbers",
	"audit: no notes",
	"audit: At in the future",
	"audit: the oldest first",
	"audit: IDs are those of the list",
	"audit: of all groups",
	"audit: what changes nothing is done",
	"audit: what changes nothing is left out",
	"audit: what is refused is left out",
	"audit: what is refused is unchanged",
	"audit: records what holders do",
	"audit: ignores the job",
	"audit: ignores Before",
	"audit: from Before on",
	"audit: ignores the limit",
	"audit: no default limit",
	"audit: whole names of jobs",

	"terms: does nothing",
	"terms: the last begin counts",
	"terms: the last word about being early counts",
	"terms: never early",
	"terms: no owner",
	"terms: Began is now",
	"terms: Ended is now",
	"terms: never over",
	"terms: the first end counts",
	"terms: no end but in a note of its own",
	"terms: a begin undoes the end",
	"terms: no Why",
	"terms: long Why",
	"terms: ignores Before",
	"terms: Before ends later ones",
	"terms: Before ends those that had told",
	"terms: Before ends the last one only",
	"terms: Before ends terms before they began",
	"terms: Before ends those of all groups",
	"terms: an end that others told stays",
	"terms: of all groups",
	"terms: the oldest first",
	"terms: ignores Since",
	"terms: later than Since",
	"terms: Since is of the begin",
	"terms: ignores Until",
	"terms: until Until",
	"terms: ignores the limit",
	"terms: no default limit",

	"attempts: only the last",
	"attempts: without the last",
	"attempts: no interrupted ones",
	"attempts: all have failed",
	"attempts: the error as the run has it",
	"attempts: of the present owner",
	"attempts: of the present token",
	"attempts: no start",
	"attempts: the start of the last",
	"attempts: no end",
	"attempts: an interrupted one ends",
	"attempts: the outcome replaces the last",
	"attempts: no output",
	"attempts: no output of the last",
	"attempts: the beginning of the output",
	"attempts: all of the output",
	"attempts: output up to a zero byte",
	"attempts: of refused moves",
	"attempts: of repeated moves",
	"attempts: of replaced holders",
	"attempts: at most 50",
	"attempts: all",
	"attempts: one where there is none",
	"attempts: none where there is no run",
	"attempts: of all groups",
	"attempts: of any number",
	"attempts: those of the run before",

	"names: of all groups",
	"names: not in order",
	"names: with the group's",
	"names: the group's pause counts",
	"names: all are paused",
	"names: none is paused",
	"load of: all jobs",
	"load of: no Failing",
	"load of: the first job only",
	"load of: the pauses of all",
	"load of: no pause of the group",
	"load of: their open runs only",
	"load of: the open runs of no job",
	"load of: any number of jobs",
	"load of: another clock",
	"newest: one of each only",
	"newest: ignores Over",
	"newest: Over looks at the newest only",
	"newest: ignores Since",
	"newest: Since in whole microseconds",
	"newest: ignores Until",
	"newest: until Until",
	"newest: the oldest first",
	"newest: of all groups",
	"newest: names without runs",
	"newest: no manual runs",
	"newest: at most 100 jobs",
	"newest: any number of jobs",

	"counts: ignores the jobs",
	"counts: ignores Since",
	"counts: ignores Until",
	"counts: until Until",
	"counts: buckets of the epoch",
	"counts: one bucket",
	"counts: no states",
	"counts: zeros",
	"counts: of all groups",
	"counts: without end",
	"counts: cut without a word",
	"counts: cut one run early",
	"counts: any filter",
	"counts: in any order",

	"archive prune: nothing",
	"archive prune: all groups",
	"archive prune: ignores the batch",
	"archive prune: keeps the audit",
	"archive prune: counts too few",
	"archive prune: counts too many",
}

func flawedArchive(flaw string) Harness {
	s := &archiveFlawed{Store: memdb.New(), flaw: flaw, extra: map[jobs.Key][]jobs.Attempt{}, terms: map[uint64]jobs.Term{}}
	return Harness{
		Open:      func(testing.TB) store.Leases { return s },
		StepClock: func(_ testing.TB, by time.Duration) { s.StepClock(by) },
	}
}

// archiveFlawed is a sound store that falsifies what it is told or answers.
type archiveFlawed struct {
	*memdb.Store
	flaw    string
	extra   map[jobs.Key][]jobs.Attempt
	terms   map[uint64]jobs.Term // as they were first, by token
	holders []jobs.AuditEntry    // that should not be there
}

func (s *archiveFlawed) has(flaw string) bool { return s.flaw == flaw }

func (s *archiveFlawed) Audit(ctx context.Context, group string, f jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	if s.has("audit: of all groups") && group == otherOne {
		group = "billing"
	}
	limit := f.Limit
	if s.has("audit: ignores the limit") && f.Limit > 0 || s.has("audit: no default limit") && f.Limit == 0 {
		limit = 1000
	} else if limit == 0 {
		limit = 100
	}
	f.Limit = 1000
	if s.has("audit: ignores the job") {
		f.Job = ""
	}
	switch {
	case s.has("audit: ignores Before"):
		f.Before = 0
	case s.has("audit: from Before on") && f.Before > 0:
		f.Before++
	}
	all, err := s.Store.Audit(ctx, group, f)
	left := map[string]jobs.Action{
		"audit: no pauses": jobs.ActionPause, "audit: no resumes": jobs.ActionResume, "audit: no resumes that skip": jobs.ActionSkipping,
		"audit: no triggers": jobs.ActionTrigger, "audit: no backfills": jobs.ActionBackfill, "audit: no cancels": jobs.ActionCancel,
		"audit: no resigns": jobs.ActionResign, "audit: no forgets": jobs.ActionForget,
	}[s.flaw]
	all = slices.DeleteFunc(all, func(e jobs.AuditEntry) bool {
		return e.Action == left || e.Result == jobs.Unchanged && s.has("audit: what changes nothing is left out") ||
			e.Result == jobs.Refused && s.has("audit: what is refused is left out")
	})
	all = append(s.holders, all...)
	all = all[:min(limit, len(all))]
	for i := range all {
		e := &all[i]
		switch s.flaw {
		case "audit: a backfill is a trigger":
			if e.Action == jobs.ActionBackfill {
				e.Action = jobs.ActionTrigger
			}
		case "audit: no names":
			e.Name = ""
		case "audit: no ways":
			e.Via = ""
		case "audit: no jobs":
			e.Job = ""
		case "audit: no ticks":
			e.Tick = time.Time{}
		case "audit: no numbers":
			e.Trigger = 0
		case "audit: no notes":
			e.Note = ""
		case "audit: At in the future":
			e.At = e.At.Add(time.Hour)
		case "audit: IDs are those of the list":
			e.ID = uint64(len(all) - i)
		case "audit: what changes nothing is done":
			if e.Result == jobs.Unchanged {
				e.Result = jobs.Done
			}
		case "audit: what is refused is unchanged":
			if e.Result == jobs.Refused {
				e.Result = jobs.Unchanged
			}
		case "audit: whole names of jobs":
			if len(e.Job) == store.MaxName {
				e.Job += "..."
			}
		}
	}
	if s.has("audit: the oldest first") {
		slices.Reverse(all)
	}
	return all, err
}

func (s *archiveFlawed) NoteTerm(ctx context.Context, n store.TermNote) error {
	switch s.flaw {
	case "terms: does nothing":
		return nil
	case "terms: never early":
		n.Early = false
	case "terms: no owner":
		n.Owner = ""
	case "terms: Began is now":
		n.Began = 0
	case "terms: Ended is now":
		n.Ended = 0
	case "terms: never over":
		n.Over = false
	case "terms: no Why":
		n.Why = ""
	case "terms: ignores Before":
		n.Before = time.Time{}
	}
	was, err := s.Store.Terms(ctx, n.Group, jobs.TermFilter{Limit: 1000})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(was, func(t jobs.Term) bool { return t.Token == n.Token })
	switch {
	case i >= 0 && n.Over && !was[i].Ended.IsZero() && (s.has("terms: the first end counts") || s.has("terms: an end that others told stays") && was[i].Why == store.WhyUntold):
		n.Over = false
	case i < 0 && s.has("terms: no end but in a note of its own"):
		n.Over = false
	}
	if err := s.Store.NoteTerm(ctx, n); err != nil || n.Group == otherOne {
		return err
	}
	return s.falsify(ctx, n, was, i)
}

// falsify keeps how a term is to be shown.
func (s *archiveFlawed) falsify(ctx context.Context, n store.TermNote, was []jobs.Term, i int) error {
	is, err := s.Store.Terms(ctx, n.Group, jobs.TermFilter{Limit: 1000})
	if err != nil {
		return err
	}
	for _, t := range is {
		before := slices.IndexFunc(was, func(o jobs.Term) bool { return o.Token == t.Token })
		own := t.Token == n.Token
		switch {
		case own && i >= 0 && s.has("terms: the last begin counts"):
			t.Began = t.Began.Add(-n.Began)
		case own && i >= 0 && s.has("terms: the last word about being early counts"):
			t.Early = n.Early
		case own && i >= 0 && !n.Over && s.has("terms: a begin undoes the end"):
			t.Ended, t.Why = time.Time{}, ""
		case own && s.has("terms: long Why") && n.Over:
			t.Why = n.Why
		case n.Before.IsZero() || own:
			continue
		case t.Token > n.Token && s.has("terms: Before ends later ones"),
			t.Token < n.Token && s.has("terms: Before ends those that had told"):
			t.Ended, t.Why = n.Before, store.WhyUntold
		case t.Token+1 < n.Token && before >= 0 && was[before].Ended.IsZero() && s.has("terms: Before ends the last one only"):
			t.Ended, t.Why = time.Time{}, ""
		case t.Ended.Equal(t.Began) && s.has("terms: Before ends terms before they began"):
			t.Ended = n.Before
		default:
			continue
		}
		s.terms[t.Token] = t
	}
	if !n.Before.IsZero() && s.has("terms: Before ends those of all groups") {
		return s.Store.NoteTerm(ctx, store.TermNote{Holder: store.Holder{Group: otherOne, Token: 2}, Over: true})
	}
	return nil
}

func (s *archiveFlawed) Terms(ctx context.Context, group string, f jobs.TermFilter) ([]jobs.Term, error) {
	if s.has("terms: of all groups") && group == otherOne {
		group = "billing"
	}
	limit := f.Limit
	if s.has("terms: ignores the limit") && f.Limit > 0 || s.has("terms: no default limit") && f.Limit == 0 {
		limit = 1000
	} else if limit == 0 {
		limit = 100
	}
	f.Limit = 1000
	since := f.Since
	switch s.flaw {
	case "terms: ignores Since", "terms: Since is of the begin":
		f.Since = time.Time{}
	case "terms: later than Since":
		if !f.Since.IsZero() {
			f.Since = f.Since.Add(time.Microsecond)
		}
	case "terms: ignores Until":
		f.Until = time.Time{}
	case "terms: until Until":
		if !f.Until.IsZero() {
			f.Until = f.Until.Add(time.Microsecond)
		}
	}
	all, err := s.Store.Terms(ctx, group, f)
	for i, t := range all {
		if shown, ok := s.terms[t.Token]; ok && group != otherOne {
			all[i] = shown
		}
	}
	if s.has("terms: Since is of the begin") {
		all = slices.DeleteFunc(all, func(t jobs.Term) bool { return t.Began.Before(since) })
	}
	if s.has("terms: the oldest first") {
		slices.Reverse(all)
	}
	return all[:min(limit, len(all))], err
}

func (s *archiveFlawed) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	if s.has("audit: records what holders do") {
		s.holders = append(s.holders, jobs.AuditEntry{Action: "move"})
	}
	moves = slices.Clone(moves)
	before := map[jobs.Key]jobs.Record{}
	for i := range moves {
		m := &moves[i]
		switch {
		case s.has("attempts: no output"), s.has("attempts: no output of the last") && m.To.Over():
			m.Output = nil
		case s.has("attempts: the beginning of the output"):
			m.Output = m.Output[:min(len(m.Output), jobs.MaxOutput)]
		case s.has("attempts: output up to a zero byte"):
			m.Output = []byte(strings.SplitN(string(m.Output), "\x00", 2)[0])
		}
		rs, err := s.Runs(ctx, h.Group, jobs.Filter{Job: m.Job, Since: m.Tick, Until: m.Tick.Add(time.Microsecond)})
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			before[r.Key] = r
		}
	}
	done, err := s.Store.Move(ctx, h, moves)
	for i, m := range moves {
		r := before[m.Key]
		as := r.State == m.From && r.Attempt == m.Attempt && r.Owner == m.Owner && r.Token == m.Token
		if err != nil && s.has("attempts: of replaced holders") || err == nil && !done[i] && s.has("attempts: of refused moves") ||
			err == nil && done[i] && !as && s.has("attempts: of repeated moves") {
			if a, ok := store.AttemptOf(m); ok {
				s.extra[m.Key] = []jobs.Attempt{a}
			}
		}
	}
	return done, err
}

func (s *archiveFlawed) Attempts(ctx context.Context, group string, k jobs.Key) ([]jobs.Attempt, error) {
	switch {
	case s.has("attempts: of all groups"):
		group = "billing"
	case s.has("attempts: of any number") && k.Trigger == 5:
		k.Trigger = 0
	}
	all, err := s.Store.Attempts(ctx, group, k)
	if err != nil {
		if s.has("attempts: none where there is no run") {
			return nil, nil
		}
		return all, err
	}
	all = append(all, s.extra[k]...)
	if s.has("attempts: those of the run before") {
		if len(all) > 2 {
			s.extra[k] = slices.Clone(all)
		}
		if len(all) == 0 && k.Trigger == 7 {
			return []jobs.Attempt{{Number: 1}}, nil
		}
	}
	n := len(all)
	if n == 0 {
		if s.has("attempts: one where there is none") {
			return []jobs.Attempt{{Number: 1}}, nil
		}
		return nil, nil
	}
	last := all[n-1]
	switch s.flaw {
	case "attempts: only the last":
		return all[n-1:], nil
	case "attempts: without the last":
		return all[:n-1], nil
	case "attempts: no interrupted ones":
		return slices.DeleteFunc(all, func(a jobs.Attempt) bool { return a.State == jobs.Interrupted }), nil
	case "attempts: at most 50":
		return all[max(0, n-50):], nil
	case "attempts: all":
		if n > 100 {
			return append([]jobs.Attempt{{Number: 2}}, all...), nil
		}
	}
	for i := range all {
		a := &all[i]
		switch s.flaw {
		case "attempts: all have failed":
			if a.State.Over() {
				a.State = jobs.Failed
			}
		case "attempts: the error as the run has it":
			if a.State == jobs.TimedOut {
				a.Error = jobs.Previous{State: a.State, Error: a.Error}.String()
			}
		case "attempts: of the present owner":
			a.Owner = last.Owner
		case "attempts: of the present token":
			a.Token = last.Token
		case "attempts: no start":
			a.Started = time.Time{}
		case "attempts: the start of the last":
			a.Started = last.Started
		case "attempts: no end":
			a.Finished = time.Time{}
		case "attempts: an interrupted one ends":
			if a.State == jobs.Interrupted {
				a.Finished = a.Started
			}
		case "attempts: the outcome replaces the last":
			if r, err := s.Runs(ctx, group, jobs.Filter{Job: k.Job, Since: k.Tick}); err == nil && i == n-1 && r[len(r)-1].State.Over() {
				a.State = r[len(r)-1].State
			}
		case "attempts: all of the output":
			if len(a.Output) == jobs.MaxOutput {
				a.Output = append(a.Output, '.')
			}
		}
	}
	return all, nil
}

func (s *archiveFlawed) Names(ctx context.Context, group string) (jobs.Names, error) {
	names, err := s.Store.Names(ctx, group)
	switch s.flaw {
	case "names: of all groups":
		others, _ := s.Store.Names(ctx, otherOne)
		names.All = append(names.All, others.All...)
	case "names: not in order":
		slices.Reverse(names.All)
	case "names: with the group's":
		names.All = append([]string{""}, names.All...)
	case "names: the group's pause counts":
		if snapshot, _ := s.Load(ctx, group); snapshot.Paused {
			names.Paused++
		}
	case "names: all are paused":
		names.Paused = len(names.All)
	case "names: none is paused":
		names.Paused = 0
	}
	return names, err
}

func (s *archiveFlawed) LoadOf(ctx context.Context, group string, names []string) (jobs.Snapshot, error) {
	switch {
	case s.has("load of: any number of jobs"):
		names = names[:min(len(names), jobs.MaxOf)]
	case s.has("load of: the first job only"):
		names = names[:min(len(names), 1)]
	}
	snapshot, err := s.Store.LoadOf(ctx, group, names)
	if err != nil {
		return snapshot, err
	}
	all, err := s.Load(ctx, group)
	switch s.flaw {
	case "load of: all jobs":
		snapshot.Jobs = all.Jobs
	case "load of: no Failing":
		for name, known := range snapshot.Jobs {
			known.Failing = false
			snapshot.Jobs[name] = known
		}
	case "load of: the pauses of all":
		snapshot.Pauses = all.Pauses
	case "load of: no pause of the group":
		delete(snapshot.Pauses, "")
	case "load of: their open runs only":
		snapshot.Open = slices.DeleteFunc(snapshot.Open, func(r jobs.Record) bool { return !slices.Contains(names, r.Job) })
	case "load of: the open runs of no job":
		snapshot.Open = nil
	case "load of: another clock":
		snapshot.Now = snapshot.Now.Add(time.Hour)
	}
	return snapshot, err
}

func (s *archiveFlawed) Newest(ctx context.Context, group string, of jobs.Newest) (map[string][]jobs.Record, error) {
	limit := of.Limit
	switch s.flaw {
	case "newest: one of each only":
		of.Limit = 1
	case "newest: ignores Over":
		of.Over = false
	case "newest: Over looks at the newest only":
		if of.Over {
			of.Over = false
			all, err := s.Store.Newest(ctx, group, of)
			for job, rs := range all {
				if !rs[0].State.Over() {
					delete(all, job)
				}
			}
			return all, err
		}
	case "newest: ignores Since":
		of.Since = time.Time{}
	case "newest: Since in whole microseconds":
		of.Since = of.Since.Truncate(time.Microsecond)
	case "newest: ignores Until":
		of.Until = time.Time{}
	case "newest: until Until":
		if !of.Until.IsZero() {
			of.Until = of.Until.Add(time.Microsecond)
		}
	case "newest: at most 100 jobs":
		of.Jobs = of.Jobs[:min(100, len(of.Jobs))]
	case "newest: any number of jobs":
		of.Jobs = of.Jobs[:min(jobs.MaxOf, len(of.Jobs))]
	case "newest: no manual runs":
		of.Limit = 100
	}
	all, err := s.Store.Newest(ctx, group, of)
	if err != nil {
		return all, err
	}
	if s.has("newest: of all groups") {
		others, _ := s.Store.Newest(ctx, otherOne, of)
		for job, rs := range others {
			all[job] = rs
		}
	}
	for _, job := range of.Jobs {
		switch {
		case s.has("newest: names without runs") && all[job] == nil:
			all[job] = nil
		case s.has("newest: the oldest first"):
			slices.Reverse(all[job])
		case s.has("newest: no manual runs"):
			all[job] = slices.DeleteFunc(all[job], func(r jobs.Record) bool { return r.Trigger > 0 })
			if all[job] = all[job][:min(max(1, limit), len(all[job]))]; len(all[job]) == 0 {
				delete(all, job)
			}
		}
	}
	return all, nil
}

func (s *archiveFlawed) Counts(ctx context.Context, group string, f jobs.CountFilter) (jobs.Counts, error) {
	switch s.flaw {
	case "counts: ignores the jobs":
		f.Jobs = nil
	case "counts: ignores Since":
		f.Since = f.Since.Add(-f.Every)
	case "counts: ignores Until":
		f.Until = f.Until.Add(time.Hour)
	case "counts: until Until":
		f.Until = f.Until.Add(time.Microsecond)
	case "counts: buckets of the epoch":
		f.Since = f.Since.Truncate(f.Every)
	case "counts: any filter":
		f = jobs.CountFilter{Since: tick(0), Until: tick(1), Every: time.Hour}
	case "counts: one bucket":
		if f.Check() == nil {
			f.Every = f.Until.Sub(f.Since).Truncate(time.Microsecond)
		}
	}
	counts, err := s.Store.Counts(ctx, group, f)
	if err != nil {
		return counts, err
	}
	switch s.flaw {
	case "counts: zeros":
		counts.List = append(counts.List, jobs.Count{Job: "zero", From: f.Since})
	case "counts: no states":
		for i := range counts.List {
			counts.List[i].State = 0
		}
	case "counts: of all groups":
		others, _ := s.Store.Counts(ctx, otherOne, f)
		counts.List = append(counts.List, others.List...)
	case "counts: cut without a word":
		clear(counts.Cut)
	case "counts: cut one run early":
		for i := range counts.List {
			counts.List[i].Runs = min(counts.List[i].Runs, jobs.MaxCounted/jobs.MaxOf-1)
		}
	case "counts: without end":
		if len(counts.Cut) > 0 {
			clear(counts.Cut)
			for i := range counts.List {
				counts.List[i].Runs += 20
			}
		}
	case "counts: in any order":
		slices.Reverse(counts.List)
	}
	return counts, nil
}

func (s *archiveFlawed) PruneArchive(ctx context.Context, group string, batch int) (int, error) {
	switch s.flaw {
	case "archive prune: nothing":
		return 0, nil
	case "archive prune: ignores the batch":
		batch = 0
	case "archive prune: all groups":
		if _, err := s.Store.PruneArchive(ctx, otherOne, batch); err != nil {
			return 0, err
		}
	}
	audit, _ := s.Store.Audit(ctx, group, jobs.AuditFilter{Limit: 1000})
	n, err := s.Store.PruneArchive(ctx, group, batch)
	switch s.flaw {
	case "archive prune: keeps the audit":
		s.holders = audit
	case "archive prune: counts too few":
		n = max(0, n-1)
	case "archive prune: counts too many":
		n++
	}
	return n, err
}
