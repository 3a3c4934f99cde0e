package page

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/jobs"
)

// overviewData is what overview.html gets.
type overviewData struct {
	Headline, Subline string
	Actions           []button
	Notes             []note
	Facts             []fact
	Timeline          timeline
	Replicas          []replicaRow
	Spread            bool
	Trouble           troubles
}

// overview shows who leads, which replicas there are, and what the jobs do.
func (p *Page) overview(r *http.Request) (shown, error) {
	v := p.newViewer(r)
	err := v.read(func() (err error) {
		v.listed, err = p.source.Names(v.ctx)
		return err
	})
	if err != nil {
		return shown{}, err
	}
	of, err := v.chosen()
	if err != nil {
		return shown{}, err
	}
	if err := v.load(of.names); err != nil {
		return shown{}, err
	}
	var data overviewData
	var wrong []troubleRow
	err = atOnce(func() (err error) {
		wrong, err = v.trouble()
		return err
	}, func() (err error) {
		data.Timeline, err = v.jobsTimeline(of)
		return err
	})
	if err != nil {
		return shown{}, err
	}
	// Not before: in a large group they take the database and the processor from the view, which
	// is shown without them if they take long.
	p.late.begin(v.ctx, p.readLate)
	p.day.begin(v.ctx, p.readDay)
	data.Notes, data.Replicas, data.Spread = v.groupNotes(), v.replicaRows(), v.snapshot.Opened.Spread
	data.Headline, data.Subline = v.headline()
	if v.steers {
		if v.snapshot.Paused {
			data.Actions = append(data.Actions, ask("Resume the group", "resume", nil, false))
		} else {
			data.Actions = append(data.Actions, ask("Pause the group", "pause", nil, false))
		}
		if v.leader.Held() && !v.leader.ResignAsked {
			data.Actions = append(data.Actions, ask("Hand over", "resign", nil, true))
		}
	}
	data.Trouble = v.troubles(wrong)
	data.Facts = v.facts()
	return shown{title: "Overview", template: "overview.html", data: data, now: v.now}, nil
}

// headline says who leads.
func (v *viewer) headline() (head, sub string) {
	switch l := v.leader; {
	case l.Owner == "":
		return "Nobody leads", "No replica has led this group yet."
	case l.Released:
		return "Nobody leads", "The lease is released. " + visible(l.Owner) + " led last."
	case !l.Held():
		return "Nobody leads", "The lease has expired: " + visible(l.Owner) + " led last, and its last heartbeat is " + took(l.Age) + " old."
	case l.ResignAsked:
		return visible(shortOwner(l.Owner)) + " leaves", "It starts nothing new, and steps down once its runs have ended or are cancelled."
	default:
		return visible(shortOwner(l.Owner)) + " leads", visible(l.Owner)
	}
}

// groupNotes are what an operator should know of the whole group.
func (v *viewer) groupNotes() []note {
	var notes []note
	l := v.leader
	switch {
	case l.Owner != "" && !l.Held():
		notes = append(notes, badNote("No replica leads: no job is started until one does."))
	case l.Owner == "":
		notes = append(notes, warnNote("No replica has led this group yet: start one."))
	case l.Age > l.TTL/2:
		notes = append(notes, warnNote("The leader's last heartbeat is "+took(l.Age)+" old. After "+took(l.TTL)+" another replica takes over."))
	}
	if v.page.health != nil {
		if err := v.page.health().Database; err != nil {
			notes = append(notes, badNote("The replica that shows this page cannot use the database, or must not: "+visible(strings.Join(strings.Fields(err.Error()), " "))+"."))
		}
	}
	if v.snapshot.Paused {
		since := ""
		if pauses := v.snapshot.Pauses[""]; len(pauses) > 0 && !pauses[len(pauses)-1].Began.IsZero() {
			since = " since " + instant(v.now, pauses[len(pauses)-1].Began)
		}
		if by, err := v.page.source.PausedBy(v.ctx); err == nil && by.Via == jobs.ViaScheduler {
			notes = append(notes, badNote("The group has paused itself"+since+", because its ledger has gone back, as after a backup was restored or a failover that lost commits: no tick runs until you resume it. "+visible(by.Name)+" noticed."))
		} else {
			notes = append(notes, warnNote("The whole group is paused"+since+": ticks are skipped."))
		}
	}
	switch late, ok := v.page.late.get(v.ctx, v.begun.Add(slowWait)); {
	case !ok:
		notes = append(notes, infoNote("Whether ticks are late is not known yet: all jobs are being read for that."))
	case late.value.Jobs > 0:
		of := late.value
		what := counted(of.Jobs, "job has a tick", "jobs have ticks") + " that no leader has claimed. The oldest, of " + visible(of.Job) + ", is " + took(of.by) + " late" + asOf(late.age()) + "."
		notes = append(notes, note{Kind: "bad", Mark: "alert", Text: what, Href: jobURL(of.Job), Link: "See the job"})
	}
	if n := len(v.snapshot.Unassigned()); n > 0 {
		notes = append(notes, warnNote(counted(n, "run waits", "runs wait")+" for a replica that has the job, all labels that it wants, and room for a run, or for the job's pool."))
	}
	old := 0
	for _, r := range v.snapshot.Open {
		if v.snapshot.IsOfEarlierTerm(r, l.Token) && !slices.Contains(v.differences.NotLed, r.Job) {
			old++
		}
	}
	if old > 0 {
		notes = append(notes, infoNote(counted(old, "run is", "runs are")+" of an earlier term: the leader deals with them once that has ended for sure."))
	}
	if d := v.differences; d.Any() {
		if n := len(d.NotLed); n > 0 {
			notes = append(notes, warnNote(counted(n, "job of a replica does", "jobs of replicas do")+" not run, because the leader does not have "+oneOrMore(n, "it", "them")+": "+someNames(d.NotLed)+"."))
		}
		if n := len(d.Rescheduled); n > 0 {
			notes = append(notes, infoNote(counted(n, "job has", "jobs have")+" another schedule on some replica than on the leader: "+someNames(d.Rescheduled)+"."))
		}
	}
	return notes
}

func oneOrMore(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// someNames lists names, at most five.
func someNames(list []string) string {
	const most = 5
	shown := make([]string, len(list))
	for i, name := range list {
		shown[i] = visible(name)
	}
	return strings.Join(names.First(shown, most), ", ")
}

// asOf says how old an answer is, if it matters.
func asOf(age time.Duration) string {
	if age < freshFor {
		return ""
	}
	return ", as of " + took(age.Truncate(time.Second)) + " ago"
}

// lastDay is what the runs of the last 24 hours came to.
type lastDay struct {
	heap
	// cut: there are more, too many to count.
	cut bool
}

// readDay counts the runs of the last 24 hours.
func (p *Page) readDay(ctx context.Context) (day lastDay, err error) {
	changes, err := p.source.Changes(ctx)
	if err != nil {
		return day, err
	}
	now := changes.Now
	counts, err := optional(p.source.Counts(ctx, jobs.CountFilter{Since: now.Add(-24 * time.Hour), Until: now.Add(time.Second), Every: 25 * time.Hour}))
	for _, c := range counts.List {
		if int(c.State) < len(day.runs) {
			day.runs[c.State] += c.Runs
		}
	}
	day.cut = len(counts.Cut) > 0
	return day, err
}

func (v *viewer) facts() []fact {
	l := v.leader
	leader := fact{Name: "Leader", Wide: true, Text: "nobody", Class: "bad"}
	if l.Held() {
		leader = fact{Name: "Leader", Wide: true, Text: visible(shortOwner(l.Owner)), Title: visible(l.Owner), Mark: "lead", Small: "token " + strconv.FormatUint(l.Token, 10)}
		if at := v.snapshot.Opened; at.Token == l.Token && !at.At.IsZero() {
			leader.Small = "for " + took(v.now.Sub(at.At)) + ", token " + strconv.FormatUint(l.Token, 10)
		}
	}
	heartbeat := fact{Name: "Heartbeat", Text: took(l.Age) + " ago", Small: "TTL " + took(l.TTL)}
	switch {
	case l.Owner == "":
		heartbeat = fact{Name: "Heartbeat", Text: "–"}
	case !l.Held():
		heartbeat.Class = "bad"
	case l.Age > l.TTL/2:
		heartbeat.Class = "warn"
	}
	roster := v.roster
	if !l.Held() {
		roster = roster.Expired()
	}
	live := roster.Live()
	replicas := fact{Name: "Replicas", Text: count(len(live)), Small: versions(live)}
	switch standby := roster.Standby(); {
	case len(standby) == 0:
		replicas.Small = "nobody could take over"
		replicas.Class = "warn"
	case !slices.ContainsFunc(standby, func(x jobs.Replica) bool { return x.Presence == jobs.Present }):
		// The database cannot tell: what was told last is all that is known.
		last := slices.MaxFunc(standby, func(a, b jobs.Replica) int { return a.Seen.Compare(b.Seen) })
		replicas.Small = "another one told of itself " + took(roster.Now.Sub(last.Seen)) + " ago"
	}
	running, waiting, paused := 0, 0, v.listed.Paused
	for _, r := range v.snapshot.Open {
		if r.State == jobs.Running {
			running++
		} else {
			waiting++
		}
	}
	declared := fact{Name: "Jobs", Text: count(len(v.listed.All)), Small: "none is paused"}
	if paused > 0 {
		declared.Small = counted(paused, "is paused", "are paused")
		if paused == 1 {
			declared.Small = "1 is paused"
		}
	}
	if n := len(v.local); n > 0 {
		declared.Small += ", and " + count(n) + " everywhere"
	}
	now := fact{Name: "Now", Text: count(running) + " running", Small: count(waiting) + " waiting"}
	return []fact{leader, heartbeat, replicas, declared, now, v.dayFact()}
}

// dayFact says what the runs of the last 24 hours came to.
func (v *viewer) dayFact() fact {
	last, ok := v.page.day.get(v.ctx, v.begun.Add(slowWait))
	if !ok {
		return fact{Name: "Last 24 hours", Text: "–", Small: "being counted"}
	}
	day, wrong := last.value, 0
	for _, s := range troubled {
		wrong += day.runs[s]
	}
	f := fact{Name: "Last 24 hours", Text: counted(day.total(), "run", "runs"), Small: "none went wrong"}
	if day.cut {
		f.Text = "over " + f.Text
	}
	if wrong > 0 {
		f.Small = counted(wrong, "went wrong", "went wrong")
		f.Mark = "fail"
	}
	f.Small += asOf(last.age())
	return f
}

// jobsTimeline is the timeline of a page of the jobs.
func (v *viewer) jobsTimeline(of chosen) (timeline, error) {
	s, shown := readSpan(v.query, v.now), of.names
	t := v.frameOf(s, "./")
	t.Search = of.search
	switch {
	case of.all == 0:
		t.Empty = "No leader has had a job yet."
	case of.search != "":
		t.Empty = "No such job's name has that in it."
	default:
		t.Empty = "No job is " + of.only + "."
	}
	for _, only := range []string{"", "failing", "paused"} {
		values := url.Values{}
		for _, keep := range []string{"q", "zoom", "end"} {
			if text := v.query.Get(keep); text != "" {
				values.Set(keep, text)
			}
		}
		if only != "" {
			values.Set("only", only)
		}
		t.Only = append(t.Only, option{Text: cmp.Or(only, "all"), Href: "./?" + values.Encode(), Current: of.only == only})
	}
	switch {
	case of.pages > 1:
		t.Shown = count(of.first+1) + " to " + count(of.first+len(shown)) + " of " + counted(of.found, "job", "jobs")
	case of.search+of.only != "":
		t.Shown = count(of.found) + " of " + counted(of.all, "job", "jobs")
	default:
		t.Shown = counted(of.all, "job", "jobs")
	}
	var terms []term
	var lanes []lane
	var last map[string][]jobs.Record
	err := atOnce(func() (err error) {
		terms, err = v.addTerms(&t, s)
		return err
	}, func() (err error) {
		lanes, err = v.lanes(s, shown)
		return err
	}, func() (err error) {
		last, err = optional(v.page.source.Newest(v.ctx, jobs.Newest{Jobs: shown, Over: true, Limit: 1}))
		return err
	})
	if err != nil {
		return t, err
	}
	into := v.into("./", s)
	for i, name := range shown {
		row := laneRow{Name: visible(name), Href: jobURL(name), Words: v.wordsOf(name), Tags: v.tags(name), Lane: lanes[i].draw(s, v.now, terms, runURL, into)}
		if of := last[name]; len(of) > 0 {
			m := markOf(of[0].State)
			row.Last, row.LastHref = &m, runURL(of[0].Key)
		}
		for _, r := range v.snapshot.Open {
			if r.Job == name && r.State == jobs.Running {
				m := markOf(r.State)
				row.Last, row.LastHref = &m, runURL(r.Key)
			}
		}
		if next := v.next(name, 1); len(next) > 0 {
			row.Next = v.moment(next[0])
		}
		t.Rows = append(t.Rows, row)
	}
	t.Pager = v.pages(of.number, of.pages)
	return t, nil
}

// frameOf is a timeline without rows.
func (v *viewer) frameOf(s span, path string) timeline {
	keep := url.Values{}
	for key, of := range v.query {
		if key != "done" {
			keep[key] = of
		}
	}
	t := timeline{Words: s.words(v.now), Axis: axis(s, v.now), Follows: s.follows}
	for i, z := range zooms {
		end, follows := s.zoomed(i, v.now)
		t.Zooms = append(t.Zooms, option{z.name, z.words, path + s.query(keep, i, end, follows), i == s.zoom})
	}
	half := s.to.Sub(s.from) / 2
	t.Earlier = path + s.query(keep, s.zoom, s.to.Add(-half), false)
	if !s.follows {
		later := s.to.Add(half)
		t.Later = path + s.query(keep, s.zoom, later, later.After(v.now))
	}
	t.Present = path + s.query(keep, s.zoom, s.to, true)
	for _, name := range []string{"zoom", "end", "only"} {
		if value := v.query.Get(name); value != "" {
			t.Keep = append(t.Keep, pair{name, value})
		}
	}
	return t
}

// into is the link to a closer look at a part of a span.
func (v *viewer) into(path string, s span) func(from, to time.Time) string {
	return func(from, to time.Time) string {
		zoom := s.zoom
		for zoom > 0 && zooms[zoom-1].is >= to.Sub(from) {
			zoom--
		}
		middle := from.Add(to.Sub(from) / 2)
		return path + s.query(v.query, zoom, middle.Add(zooms[zoom].is/2), false)
	}
}

// addTerms reads and draws the terms.
func (v *viewer) addTerms(t *timeline, s span) ([]term, error) {
	terms, err := v.terms(s)
	if err != nil {
		return nil, err
	}
	t.Terms = drawTerms(s, v.now, terms)
	takeovers := 0
	for _, x := range terms {
		if x.takeover && x.began.After(s.from) {
			takeovers++
		}
	}
	switch takeovers {
	case 0:
		t.TermWords = "no change"
	default:
		t.TermWords = counted(takeovers, "change", "changes")
	}
	return terms, nil
}
