package page

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// viewer is what one request for a view reads and knows.
type viewer struct {
	page     *Page
	ctx      context.Context
	query    url.Values
	steers   bool
	begun    time.Time // the request
	now      time.Time // the database's
	leader   election.Leadership
	listed   jobs.Names    // where all jobs are concerned
	snapshot jobs.Snapshot // of the jobs that are shown
	roster   jobs.Roster
	// differences are the roster's.
	differences jobs.Differences
	// local are the jobs that the replica which shows the page runs by itself, by name.
	local map[string]jobs.Job
}

func (p *Page) newViewer(r *http.Request) *viewer {
	return &viewer{page: p, begun: time.Now(), ctx: r.Context(), query: r.URL.Query(), steers: userOf(r.Context()).Role == Steer, local: p.everywhere()}
}

// read reads what all views of jobs need, and more beside it.
func (v *viewer) read(more func() error) error {
	return atOnce(func() (err error) {
		v.leader, err = v.page.source.Leader(v.ctx)
		return err
	}, func() (err error) {
		v.roster, err = optional(v.page.source.Roster(v.ctx))
		v.differences = v.roster.Differences()
		return err
	}, more)
}

// atOnce reads at the same time what does not depend on one another: in a large group each
// takes its time.
func atOnce(reads ...func() error) error {
	var all sync.WaitGroup
	errs := make([]error, len(reads))
	for i, read := range reads {
		all.Go(func() {
			_, errs[i] = guarded(context.Background(), func(context.Context) (none struct{}, err error) { return none, read() })
		})
	}
	all.Wait()
	return cmp.Or(errs...) // where the database is away, all of them say so
}

// load reads what is known of some jobs, and of the group.
func (v *viewer) load(names []string) (err error) {
	v.snapshot, err = v.page.source.LoadOf(v.ctx, names)
	v.now = v.snapshot.Now.UTC()
	return err
}

// newRunViewer reads what a view of one run needs, which does not have to know all jobs.
func (p *Page) newRunViewer(r *http.Request) (*viewer, error) {
	v := p.newViewer(r)
	var err error
	if v.leader, err = p.source.Leader(v.ctx); err != nil {
		return nil, err
	}
	changes, err := p.source.Changes(v.ctx)
	v.now = changes.Now.UTC()
	return v, err
}

func (v *viewer) moment(t time.Time) moment { return moment{v.now, t} }

// optional is for what not every store keeps: without it, a view shows less.
func optional[T any](value T, err error) (T, error) {
	if errors.Is(err, errors.ErrUnsupported) {
		var none T
		return none, nil
	}
	return value, err
}

// names are those of all jobs: that the ledger knows, and that only replicas have.
func (v *viewer) names() []string {
	names := slices.Concat(v.listed.All, v.differences.NotLed, slices.Collect(maps.Keys(v.local)))
	slices.Sort(names)
	return slices.Compact(names)
}

// terms are those of a span, the oldest first.
func (v *viewer) terms(s span) ([]term, error) {
	read, err := optional(v.page.source.Terms(v.ctx, jobs.TermFilter{Since: s.from, Until: s.to, Limit: maxTerms}))
	if err != nil {
		return nil, err
	}
	read = slices.Clone(read) // it is shared
	slices.Reverse(read)
	all := make([]term, len(read))
	for i, t := range read {
		all[i] = term{token: t.Token, owner: t.Owner, began: t.Began, ended: t.Ended, why: t.Why, early: t.Early, takeover: i > 0}
		if i > 0 {
			before := &all[i-1]
			if before.ended.IsZero() {
				before.ended = t.Began
			}
			all[i].takeover = t.Owner != before.owner
			all[i].gap = t.Began.Sub(before.ended)
		}
	}
	// The newest one of them goes on as far as it has told, but the lease knows better.
	if n := len(all); n > 0 && all[n-1].ended.IsZero() && all[n-1].token == v.leader.Token && !v.leader.Held() {
		all[n-1].ended = v.now.Add(-v.leader.Age)
		all[n-1].why = "no heartbeat since then"
		if v.leader.Released {
			all[n-1].why = "the lease was released"
		}
	}
	return all, nil
}

// maxTerms is how many terms a timeline shows.
const maxTerms = 400

// schedule is that of a job, as far as it is known.
func (v *viewer) schedule(name string) jobs.Schedule {
	if job, ok := v.local[name]; ok {
		return job.Schedule
	}
	return v.page.parsed.read(v.snapshot.Jobs[name].Schedule)
}

// wordsOf says when a job is due.
func (v *viewer) wordsOf(name string) string {
	known, ok := v.snapshot.Jobs[name]
	if !ok && !v.local[name].Everywhere {
		return "no leader has had it"
	}
	if s := v.schedule(name); s != nil {
		return visible(jobs.InWords(s))
	}
	return oneLine(known.Schedule)
}

// paused reports whether the ticks of a job are skipped.
func (v *viewer) paused(name string) bool {
	return !v.local[name].Everywhere && (v.snapshot.Paused || v.snapshot.Jobs[name].Paused)
}

// next are the next ticks of a job that are run. There are none where they depend on the end of a run,
// where no leader has the job, and while it is paused. Of a job that runs everywhere there are those of its
// schedule, unless that counts from when each replica began.
func (v *viewer) next(name string, n int) []time.Time {
	if job, ok := v.local[name]; ok {
		if _, ok := job.Schedule.(jobs.Relative); ok {
			return nil
		}
		return jobs.NextTicks(job.Schedule, jobs.Known{}, v.now, n)
	}
	known, ok := v.snapshot.Jobs[name]
	s := v.schedule(name)
	if v.paused(name) {
		return nil
	}
	if !ok || s == nil || !known.Gone.IsZero() {
		return nil
	}
	if _, ok := jobs.Base(s).(jobs.FixedDelaySchedule); ok {
		if slices.ContainsFunc(v.snapshot.Open, func(r jobs.Record) bool { return r.Job == name }) {
			return nil
		}
	}
	return jobs.NextTicks(s, known, v.now, n)
}

// tags are what is particular about a job.
func (v *viewer) tags(name string) []string {
	known, ok := v.snapshot.Jobs[name]
	switch {
	case v.local[name].Everywhere:
		return []string{"everywhere"}
	case !ok:
		return []string{"not led"}
	case !known.Gone.IsZero():
		return []string{"gone since " + instant(v.now, known.Gone)}
	case known.Paused:
		return []string{"paused"}
	case slices.Contains(v.differences.NotLed, name):
		return []string{"not led"}
	}
	return nil
}

// lanes reads what a timeline shows of jobs.
func (v *viewer) lanes(s span, names []string) ([]lane, error) {
	lanes := make([]lane, len(names))
	if len(names) == 0 {
		return lanes, nil
	}
	most := min(maxBars, maxAllBars/len(names))
	few := names
	var counted map[string]heaps
	// In a long time most jobs may have too many: to count them reads less than to find out.
	if len(names) > 1 && s.to.Sub(s.from) >= 24*time.Hour {
		var err error
		if counted, err = v.heaps(s, names); err != nil {
			return nil, err
		}
		few = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return counted[name].total() > most })
	}
	// A run that began before the span may reach into it.
	since := s.from.Add(-max(s.to.Sub(s.from), 6*time.Hour))
	newest, err := optional(v.page.source.Newest(v.ctx, jobs.Newest{Jobs: few, Since: since, Until: s.to, Limit: most + maxReaching}))
	if err != nil {
		return nil, err
	}
	var many []string
	for i, name := range names {
		lanes[i] = lane{job: name, pauses: append(slices.Clone(v.snapshot.Pauses[name]), v.snapshot.Pauses[""]...)}
		within := 0
		for _, r := range newest[name] {
			if !r.Tick.Before(s.from) {
				within++
			} else if r.State.Over() && r.Finished.Before(s.from) {
				continue
			}
			lanes[i].runs = append(lanes[i].runs, r)
		}
		if within > most {
			many = append(many, name)
		}
		for _, r := range v.snapshot.Open {
			if r.Job == name && !slices.ContainsFunc(lanes[i].runs, func(x jobs.Record) bool { return x.Key == r.Key }) && r.Tick.Before(s.to) {
				lanes[i].runs = append(lanes[i].runs, r)
			}
		}
		if s.to.After(v.now) {
			lanes[i].next = v.next(name, 30)
		}
	}
	if len(many) > 0 && counted == nil {
		if counted, err = v.heaps(s, many); err != nil {
			return nil, err
		}
	}
	for i := range lanes {
		if of := counted[lanes[i].job]; slices.Contains(many, lanes[i].job) || of.total() > most {
			lanes[i].runs, lanes[i].heaps = nil, of
		}
	}
	return lanes, nil
}

const (
	// maxBars is how many runs of a job a timeline shows one by one, and maxAllBars how many
	// of all jobs on it.
	maxBars    = 120
	maxAllBars = 3000
	// maxReaching is how many earlier ones are read at most, which may reach into it.
	maxReaching = 30
)

// heaps counts the runs of jobs.
func (v *viewer) heaps(s span, names []string) (map[string]heaps, error) {
	every := s.bucket()
	from := s.from.Truncate(every)
	counts, err := optional(v.page.source.Counts(v.ctx, jobs.CountFilter{Jobs: names, Since: from, Until: s.to, Every: every}))
	if err != nil {
		return nil, err
	}
	all := map[string]heaps{}
	for _, c := range counts.List {
		of := all[c.Job]
		if n := len(of.all); n == 0 || !of.all[n-1].from.Equal(c.From) {
			of.all = append(of.all, heap{from: c.From, to: c.From.Add(every)})
		}
		if int(c.State) < len(of.all[len(of.all)-1].runs) {
			of.all[len(of.all)-1].runs[c.State] += c.Runs
		}
		of.cut = counts.Cut[c.Job]
		all[c.Job] = of
	}
	return all, nil
}
