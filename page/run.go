package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// runData is what run.html gets.
type runData struct {
	Job, JobHref    string
	Headline, Story string
	Tags            []string
	State           mark
	Actions         []button
	Notes           []note
	Axis            template.HTML
	Terms           template.HTML
	Course          template.HTML
	CourseWords     string
	Attempts        []attemptRow
	Error           string
	Output          string
	OutputWords     string
	NoOutput        string
	HasArgs         bool
	Args            string
	Row             []pair
}

// attemptRow is an attempt at a run.
type attemptRow struct {
	Number         int
	State          mark
	Started, Ended moment
	Took           string
	Owner, Short   string
	Token          uint64
	Error          string
}

// run shows one run.
func (p *Page) run(r *http.Request) (shown, error) {
	v, err := p.newRunViewer(r)
	if err != nil {
		return shown{}, err
	}
	key, err := keyOf(v.query)
	if err != nil {
		return shown{}, err
	}
	record, err := p.source.Run(v.ctx, key)
	if err != nil {
		return shown{}, err
	}
	attempts, err := optional(p.source.Attempts(v.ctx, key))
	if err != nil {
		return shown{}, err
	}
	data := runData{
		Job: visible(key.Job), JobHref: jobURL(key.Job), Headline: visible(key.Job) + ", " + instant(v.now, key.Tick), Tags: tagsOf(record),
		State: markOf(record.State), Story: v.story(record), HasArgs: record.HasArgs, Error: visible(record.Error), Row: v.ledgerRow(record),
	}
	if v.steers && record.State.Over() {
		text := "Run again"
		if record.HasArgs {
			text = "Run again with these arguments"
		}
		data.Actions = append(data.Actions, ask(text, "again", keyValues(key), false))
	}
	if v.steers && !record.State.Over() && !record.CancelAsked {
		data.Actions = append(data.Actions, ask("Cancel the run", "cancel", keyValues(key), true))
	}
	if record.CancelAsked && !record.State.Over() {
		data.Notes = append(data.Notes, infoNote("It was asked to stop, and has not stopped yet."))
	}
	v.addAttempts(&data, record, attempts)
	data.NoOutput = noOutput(record, attempts)
	if record.HasArgs {
		if data.Args, err = v.args(key); err != nil {
			return shown{}, err
		}
	}
	if err := v.addCourse(&data, record, attempts); err != nil {
		return shown{}, err
	}
	return shown{title: data.Headline, template: "run.html", data: data, now: v.now}, nil
}

// story tells a run in a line.
func (v *viewer) story(r jobs.Record) string {
	text := ""
	switch {
	case r.State == jobs.Running && !r.Started.IsZero():
		text = "for " + took(max(v.now.Sub(r.Started), 0))
	case r.State == jobs.Waiting && r.Due.After(v.now):
		text = "until " + instant(v.now, r.Due)
	case r.State == jobs.Waiting:
		text = "its time has come"
	case r.State != jobs.Skipped && !r.Finished.IsZero() && !r.Started.IsZero():
		text = "took " + took(r.Finished.Sub(r.Started)) + ", ended " + ago(v.now, r.Finished)
	case !r.Finished.IsZero():
		text = "ended " + ago(v.now, r.Finished)
	}
	if late, is := lateBy(r); is {
		text += ", began " + took(late) + " late"
	}
	return text
}

func (v *viewer) addAttempts(data *runData, r jobs.Record, attempts []jobs.Attempt) {
	if len(attempts) == 0 && r.Attempt > 0 { // the store keeps none
		state := r.State
		if state == jobs.Waiting {
			state = jobs.ParsePrevious(r.Error).State
		}
		attempts = []jobs.Attempt{{Number: r.Attempt, State: state, Owner: r.Owner, Token: r.RunToken(), Started: r.Started, Finished: r.Finished, Error: r.Error}}
	}
	for _, a := range attempts {
		row := attemptRow{
			Number: a.Number, State: markOf(a.State), Started: v.moment(a.Started), Ended: v.moment(a.Finished),
			Owner: visible(a.Owner), Short: visible(shortOwner(a.Owner)), Token: a.Token, Error: oneLine(a.Error),
		}
		switch {
		case a.Started.IsZero():
		case !a.Finished.IsZero():
			row.Took = took(a.Finished.Sub(a.Started))
		case a.State == jobs.Running:
			row.Took = took(max(v.now.Sub(a.Started), 0))
		}
		data.Attempts = append(data.Attempts, row)
		if len(a.Output) > 0 {
			data.Output = visible(string(a.Output))
			data.OutputWords = "of attempt " + strconv.Itoa(a.Number)
			if len(a.Output) >= jobs.MaxOutput {
				data.OutputWords = "the last 4 KiB " + data.OutputWords
			}
		}
	}
}

// noOutput says why there is no output of a run. Only an attempt that has told its end is known to have
// printed nothing.
func noOutput(r jobs.Record, attempts []jobs.Attempt) string {
	state := r.State
	if n := len(attempts); n > 0 {
		state = attempts[n-1].State
	}
	switch {
	case r.Attempt == 0:
		return "It has not been started."
	case state == jobs.Running:
		return "It is running. What it prints is shown when this attempt has ended."
	case len(attempts) == 0:
		return "Nothing is known of what it printed: the database does not keep that, or no more."
	case state == jobs.Interrupted:
		return "Nothing is known of what it printed: it was cut off before it could tell."
	}
	return "It has printed nothing."
}

// args are the arguments of a run, as people read JSON.
func (v *viewer) args(key jobs.Key) (string, error) {
	raw, err := v.page.source.Args(v.ctx, key)
	if errors.Is(err, jobs.ErrNoRun) {
		return "", nil // pruned meanwhile
	}
	if err != nil {
		return "", err
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, raw, "", "  ") == nil {
		raw = pretty.Bytes()
	}
	return visible(string(raw)), nil
}

// addCourse draws the run from its tick to its end.
func (v *viewer) addCourse(data *runData, r jobs.Record, attempts []jobs.Attempt) error {
	from, to := r.Tick, startOf(r)
	for _, t := range []time.Time{r.Claimed, r.Started, r.Finished, r.Due} {
		if !t.IsZero() {
			to = max2(to, t)
		}
	}
	for _, a := range attempts {
		if !a.Started.IsZero() && a.Started.Before(from) {
			from = a.Started
		}
		to = max2(max2(to, a.Started), a.Finished)
	}
	if !r.State.Over() {
		to = max2(to, v.now)
	}
	is := max(to.Sub(from), 100*time.Millisecond)
	s := span{from: from.Add(-is / 20), to: from.Add(is).Add(is / 20), zoom: len(zooms)}
	s.step, s.layout = stepOf(s.to.Sub(s.from))
	data.CourseWords = took(to.Sub(from)) + " from the tick to the end"
	if !r.State.Over() {
		data.CourseWords = took(to.Sub(from)) + " since the tick"
	}
	data.Axis = axis(s, v.now)
	terms, err := v.terms(s)
	if err != nil {
		return err
	}
	data.Terms = drawTerms(s, v.now, terms)
	p := picture{span: s, now: v.now}
	p.background(terms, nil)
	p.line("tick", r.Tick)
	if r.Claimed.After(r.Tick) {
		p.add(`<line class="whisker" x1="%.3f%%" x2="%.3f%%" y1="%d" y2="%d"/>`, s.at(r.Tick), s.at(r.Claimed), laneMiddle, laneMiddle)
	}
	if len(attempts) == 0 {
		p.runs([]jobs.Record{r}, runURL)
	}
	last := r.Claimed
	for i, a := range attempts {
		end := a.Finished
		if end.IsZero() {
			end = v.now
			if i+1 < len(attempts) {
				end = attempts[i+1].Started
			}
		}
		if !last.IsZero() && a.Started.After(last) { // it waited
			x := s.at(last)
			p.add(`<line class="s-wait" stroke="currentColor" stroke-dasharray="3 3" x1="%.3f%%" x2="%.3f%%" y1="%d" y2="%d"/>`, x, s.at(a.Started), laneMiddle, laneMiddle)
		}
		m := markOf(a.State)
		x, width := s.at(a.Started), s.at(end)-s.at(a.Started)
		p.add(`<g>`)
		p.title("attempt "+strconv.Itoa(a.Number), m.Text+", "+took(end.Sub(a.Started)), oneLine(a.Error))
		p.add(`<rect class="bar s-%s" x="%.3f%%" width="%.3f%%" y="%d" height="%d"/>`, m.Mark, x, max(width, 0.05), laneMiddle-barHeight/2, barHeight)
		if a.State != jobs.Running {
			p.glyph(m.Mark, x+max(width, 0), 0, laneMiddle)
		}
		p.add(`</g>`)
		last = end
	}
	data.Course = p.end()
	return nil
}

// stepOf is the distance of the lines of an axis that is no zoom's.
func stepOf(is time.Duration) (time.Duration, string) {
	for _, step := range []time.Duration{
		20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 5 * 24 * time.Hour,
	} {
		if is/step > 7 {
			continue
		}
		switch {
		case step < time.Second:
			return step, "15:04:05.00"
		case step < time.Minute:
			return step, "15:04:05"
		case step < 24*time.Hour:
			return step, "15:04"
		}
		return step, "Jan 2"
	}
	return 30 * 24 * time.Hour, "Jan 2"
}

func (v *viewer) ledgerRow(r jobs.Record) []pair {
	kind := "a tick of the schedule"
	if r.Trigger != 0 {
		kind = "beside the schedule"
		if tags := tagsOf(r); len(tags) > 0 {
			kind += ": " + tags[0]
		}
		kind += ", number " + strconv.FormatUint(r.Trigger, 10)
	}
	row := []pair{{"Tick", exact(r.Tick)}, {"Kind", kind}, {"Claimed", exact(r.Claimed)}}
	if !r.Due.IsZero() {
		row = append(row, pair{"Due", exact(r.Due)})
	}
	row = append(row, pair{"Started", exact(r.Started)}, pair{"Ended", exact(r.Finished)})
	if r.Owner != "" {
		row = append(row, pair{"Replica", visible(r.Owner)}, pair{"Token", strconv.FormatUint(r.RunToken(), 10)})
	}
	if r.Missed > 0 {
		what := "Ticks missed before it"
		if r.State == jobs.Skipped {
			what = "Ticks skipped before it"
		}
		text := count(r.Missed)
		if r.Missed >= 10_000 {
			text = "at least " + text
		}
		row = append(row, pair{what, text})
	}
	if tick, every, ok := r.NextOfBackfill(); ok {
		text := "next tick " + exact(tick)
		if every > 0 {
			text += ", not more often than every " + took(every)
		}
		row = append(row, pair{"Backfill", text})
	}
	return row
}
