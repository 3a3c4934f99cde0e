package page

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// jobData is what job.html gets.
type jobData struct {
	Name, Words   string
	Tags          []string
	Actions       []button
	Notes         []note
	Facts         []fact
	Timeline      timeline
	Durations     template.HTML
	DurationWords string
	Next          []nextRow
	NoNext, Zone  string
	Output        string
	OutputOf      string
	OutputTick    moment
	NoOutput      string
	States        []option
	Runs          runTable
	Schedule      string
	More          []pair
	Settings      []pair
}

// nextRow is a tick to come.
type nextRow struct {
	When  moment
	Local string
}

const (
	maxMeasured = 200 // runs in the chart of durations
	nextTicks   = 5
)

// job shows one job.
func (p *Page) job(r *http.Request) (shown, error) {
	v := p.newViewer(r)
	name := v.query.Get("name")
	if err := v.read(func() error { return v.load([]string{name}) }); err != nil {
		return shown{}, err
	}
	known, ok := v.snapshot.Jobs[name]
	local := v.local[name].Everywhere
	if !ok && !local && !slices.Contains(v.differences.NotLed, name) {
		return shown{}, fmt.Errorf("%w: %.150q", jobs.ErrNoJob, visible(name))
	}
	data := jobData{Name: visible(name), Words: v.wordsOf(name), Tags: v.tags(name), Schedule: visible(known.Schedule), Notes: v.jobNotes(name)}
	data.Settings = v.settings(name)
	if local {
		data.Schedule = visible(v.local[name].Schedule.String())
	}
	if v.steers && ok {
		data.Actions = v.jobActions(name, known)
	}
	var err error
	if data.Timeline, err = v.jobTimeline(name); err != nil {
		return shown{}, err
	}
	newest, err := optional(p.source.Newest(v.ctx, jobs.Newest{Jobs: []string{name}, Limit: maxMeasured}))
	if err != nil {
		return shown{}, err
	}
	data.Durations, data.DurationWords = v.durations(newest[name])
	data.Facts = v.jobFacts(name, newest[name])
	if err := v.addOutput(&data, name, newest[name]); err != nil {
		return shown{}, err
	}
	v.addNext(&data, name)
	if err := v.addHistory(&data, name); err != nil {
		return shown{}, err
	}
	if !ok {
		return shown{title: visible(name), template: "job.html", data: data, now: v.now}, nil
	}
	data.More = []pair{{"Known since", exact(known.Since)}, {"Schedule since", exact(known.ScheduleSince)}, {"Newest tick claimed", exact(known.Cursor)}}
	for _, pause := range slices.Backward(v.snapshot.Pauses[name]) {
		if len(data.More) > 12 {
			break
		}
		until := "now"
		if !pause.Ended.IsZero() {
			until = exact(pause.Ended)
		}
		data.More = append(data.More, pair{"Paused", exact(pause.Began) + " to " + until})
	}
	return shown{title: visible(name), template: "job.html", data: data, now: v.now}, nil
}

func (v *viewer) jobActions(name string, known jobs.Known) []button {
	of := url.Values{"job": {name}}
	var all []button
	if manual, ok := v.schedule(name).(jobs.ManualSchedule); ok && manual.ShardsOf() != "" && !known.Paused {
		return nil // the job whose shards they are has them
	}
	if known.Gone.IsZero() {
		all = append(all, ask("Run now", "trigger", of, false))
	}
	if known.Paused {
		all = append(all, ask("Resume", "resume", of, false))
	} else {
		all = append(all, ask("Pause", "pause", of, false))
	}
	switch jobs.Base(v.schedule(name)).(type) {
	case nil, jobs.AfterSchedule, jobs.NotifySchedule, jobs.ManualSchedule, jobs.FixedDelaySchedule:
	default:
		all = append(all, ask("Backfill", "backfill", of, false))
	}
	for _, r := range v.snapshot.Open {
		if r.Job == name && slices.Contains(tagsOf(r), "backfill") {
			all = append(all, ask("End backfills", "cancel-backfills", of, true))
			break
		}
	}
	if !known.Gone.IsZero() {
		all = append(all, ask("Forget", "forget", of, true))
	}
	return all
}

func (v *viewer) jobNotes(name string) []note {
	var notes []note
	known, ok := v.snapshot.Jobs[name]
	if v.local[name].Everywhere {
		text := "Each replica runs this job by itself, leader or not. " + notRecorded
		if here := v.runningHere(name); here != "" {
			text += " " + here
		}
		notes = append(notes, infoNote(text))
	}
	switch {
	case v.local[name].Everywhere:
	case !ok:
		notes = append(notes, warnNote("Replicas have this job, and the leader does not: it does not run while that one leads."))
	case !known.Gone.IsZero():
		notes = append(notes, warnNote("The leader does not have this job since "+instant(v.now, known.Gone)+": it was removed, or is of another release."))
	case known.Paused:
		text := "Paused"
		if pauses := v.snapshot.Pauses[name]; len(pauses) > 0 && !pauses[len(pauses)-1].Began.IsZero() {
			text += " since " + instant(v.now, pauses[len(pauses)-1].Began)
		}
		notes = append(notes, warnNote(text+": its ticks are skipped."))
	case v.snapshot.Paused:
		notes = append(notes, warnNote("The whole group is paused: its ticks are skipped."))
	}
	if slices.Contains(v.differences.Rescheduled, name) {
		notes = append(notes, infoNote("Some replica has it with another schedule than the leader."))
	}
	if late := v.late(); late.Jobs > 0 {
		notes = append(notes, badNote("Its tick is due since "+took(late.by)+", and no leader has claimed it."))
	}
	return notes
}

// jobFacts say in short how a job does, by its newest runs.
func (v *viewer) jobFacts(name string, newest []jobs.Record) []fact {
	var last, good *jobs.Record
	ended, succeeded, inARow := 0, 0, 0
	counting := true
	var durations []time.Duration
	for i, r := range newest {
		if !r.State.Over() || r.State == jobs.Skipped {
			continue
		}
		if last == nil {
			last = &newest[i]
		}
		ended++
		if r.State == jobs.Succeeded {
			succeeded++
			counting = false
			if good == nil {
				good = &newest[i]
			}
			if !r.Started.IsZero() && !r.Finished.Before(r.Started) {
				durations = append(durations, r.Finished.Sub(r.Started))
			}
		} else if counting {
			inARow++
		}
	}
	lastRun := fact{Name: "Last run", Text: "none yet"}
	if last != nil {
		m := markOf(last.State)
		lastRun = fact{Name: "Last run", Text: m.Text, Mark: m.Mark, Small: ago(v.now, last.Finished), Class: "s-" + m.Mark}
		if inARow > 1 {
			lastRun.Small += ", " + counted(inARow, "", "in a row")
		}
	}
	next := fact{Name: "Next", Text: "–"}
	if v.paused(name) {
		next = fact{Name: "Next", Text: "paused", Small: "its ticks are skipped"}
	}
	if ticks := v.next(name, 1); len(ticks) > 0 {
		next = fact{Name: "Next", Text: ago(v.now, ticks[0]), Small: instant(v.now, ticks[0]), Title: exact(ticks[0])}
	}
	success := fact{Name: "Succeeded", Text: "–"}
	if ended > 0 {
		share := strings.TrimSuffix(strconv.FormatFloat(100*float64(succeeded)/float64(ended), 'f', 1, 64), ".0")
		if succeeded < ended && share == "100" {
			share = "99.9"
		}
		success = fact{Name: "Succeeded", Text: share + " %", Small: "of the last " + counted(ended, "run", "runs")}
	}
	usual := fact{Name: "Usual duration", Text: "–"}
	if n := len(durations); n > 0 {
		slices.Sort(durations)
		usual = fact{Name: "Usual duration", Text: took(durations[n/2]), Small: "95 % within " + took(durations[min(n*95/100, n-1)])}
	}
	open := fact{Name: "Now", Text: "idle"}
	running, waiting := 0, 0
	for _, r := range v.snapshot.Open {
		if r.Job == name && r.State == jobs.Running {
			running++
		} else if r.Job == name {
			waiting++
		}
	}
	if running+waiting > 0 {
		open.Text, open.Small = count(running)+" running", count(waiting)+" waiting"
	}
	return []fact{lastRun, next, success, usual, open}
}

// jobTimeline is the timeline of one job.
func (v *viewer) jobTimeline(name string) (timeline, error) {
	s := readSpan(v.query, v.now)
	t := v.frameOf(s, "job")
	terms, err := v.addTerms(&t, s)
	if err != nil {
		return t, err
	}
	lanes, err := v.lanes(s, []string{name})
	if err != nil {
		return t, err
	}
	t.Rows = []laneRow{{Name: visible(name), Lane: lanes[0].draw(s, v.now, terms, runURL, v.into("job", s))}}
	return t, nil
}

// addOutput adds what the newest run printed that has printed something.
func (v *viewer) addOutput(data *jobData, name string, newest []jobs.Record) error {
	const most = 3
	looked := 0
	if data.NoOutput = "It has not run yet."; v.local[name].Everywhere {
		data.NoOutput = notRecorded
	}
	for _, r := range newest {
		if r.Attempt == 0 || looked == most {
			continue
		}
		looked++
		attempts, err := optional(v.page.source.Attempts(v.ctx, r.Key))
		if errors.Is(err, jobs.ErrNoRun) {
			continue // pruned meanwhile
		}
		if err != nil {
			return err
		}
		if looked == 1 {
			data.NoOutput = "The newest run: " + noOutput(r, attempts)
		}
		for _, a := range slices.Backward(attempts) {
			if len(a.Output) > 0 {
				data.Output, data.OutputOf, data.OutputTick = visible(string(a.Output)), runURL(r.Key), v.moment(r.Tick)
				return nil
			}
		}
	}
	return nil
}

func (v *viewer) addNext(data *jobData, name string) {
	s := v.schedule(name)
	var zone *time.Location
	if z, ok := s.(interface{ Zone() string }); ok && z.Zone() != "UTC" && z.Zone() != "" {
		if location, err := time.LoadLocation(z.Zone()); err == nil {
			zone, data.Zone = location, z.Zone()
		}
	}
	for _, tick := range v.next(name, nextTicks) {
		row := nextRow{When: v.moment(tick)}
		if zone != nil {
			row.Local = tick.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
		}
		data.Next = append(data.Next, row)
	}
	switch base := jobs.Base(s).(type) {
	case jobs.AfterSchedule:
		data.NoNext = "It is due when " + visible(base.Job()) + " has succeeded."
	case jobs.NotifySchedule:
		data.NoNext = "It runs " + visible(jobs.InWords(base)) + "."
	case jobs.ManualSchedule:
		data.NoNext = "It runs only when it is triggered."
		if base.ShardsOf() != "" {
			data.NoNext = "It runs " + visible(jobs.InWords(base)) + "."
		}
	case jobs.FixedDelaySchedule:
		data.NoNext = "It is due so long after the end of the run that it has now."
	default:
		data.NoNext = "There is none that is known."
	}
	if v.paused(name) {
		data.NoNext = "It is paused: its ticks are skipped until it is resumed."
	}
}

// addHistory adds a page of the runs.
func (v *viewer) addHistory(data *jobData, name string) error {
	wanted := v.query.Get("state")
	states, err := readStates(wanted)
	if err != nil {
		return err
	}
	behind, err := behindOf(v.query, name)
	if err != nil {
		return err
	}
	to := func(state string, behind *jobs.Key) string {
		values := url.Values{"name": {name}}
		for _, keep := range []string{"zoom", "end"} {
			if value := v.query.Get(keep); value != "" {
				values.Set(keep, value)
			}
		}
		if state != "" {
			values.Set("state", state)
		}
		if behind != nil {
			for _, part := range []string{"tick", "trigger"} {
				values[part] = keyValues(*behind)[part]
			}
		}
		return "job?" + values.Encode() + "#h-history"
	}
	data.States = stateOptions(wanted, func(state string) string { return to(state, nil) }, jobs.Succeeded, jobs.Failed, jobs.TimedOut, jobs.Panicked,
		jobs.Interrupted, jobs.Cancelled, jobs.Skipped)
	data.Runs, err = v.table(runQuery{job: name, states: states, behind: behind}, perHistory, func(behind *jobs.Key) string { return to(wanted, behind) })
	if wanted == "" && behind == (jobs.Key{}) {
		if data.Runs.None = "It has not run yet."; v.local[name].Everywhere {
			data.Runs.None = notRecorded
		}
	}
	return err
}
