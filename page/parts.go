package page

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// note is what an operator should read first.
type note struct {
	// Kind is bad, warn or info, and Mark the glyph.
	Kind, Mark, Text string
	// Href and Link are a link behind it; both empty: none.
	Href, Link string
}

func badNote(text string) note  { return note{Kind: "bad", Mark: "alert", Text: text} }
func warnNote(text string) note { return note{Kind: "warn", Mark: "alert", Text: text} }
func infoNote(text string) note { return note{Kind: "info", Mark: "info", Text: text} }

// fact is one of a strip of them.
type fact struct {
	Name, Text, Small string
	// Class colours the text, Mark is a glyph before it, Title the text in full. All may be empty.
	Class, Mark, Title string
	// Wide: it needs more room than others.
	Wide bool
}

// pair is a name and a text.
type pair struct{ Name, Text string }

// button leads to the page that asks whether an action is meant.
type button struct {
	Text, Href string
	Danger     bool
}

// ask is the button of an action.
func ask(text, action string, values url.Values, danger bool) button {
	query := url.Values{"action": {action}}
	for key, of := range values {
		query[key] = of
	}
	return button{text, "confirm?" + query.Encode(), danger}
}

// option is a link that is one of several.
type option struct {
	Text, Words, Href string
	Current           bool
}

// pager leads to the pages beside this one.
type pager struct {
	Newer, NewerText, Older, OlderText, Text string
}

// timeline is what the templates show of one.
type timeline struct {
	Zooms                   []option
	Earlier, Later, Present string
	Follows                 bool
	// Words say which time it shows.
	Words     string
	Axis      template.HTML
	Terms     template.HTML
	TermWords string
	Rows      []laneRow
	Search    string
	Only      []option
	Keep      []pair
	Shown     string
	Empty     string
	Pager     pager
}

// laneRow is a job of a timeline.
type laneRow struct {
	Name, Href, Words string
	Tags              []string
	Lane              template.HTML
	Last              *mark
	LastHref          string
	Next              moment
}

// runRow is a run in a list.
type runRow struct {
	Href           string
	Job, JobHref   string
	Tick           moment
	Tags           []string
	State          mark
	Started, Ended moment
	Late           string
	IsLate         bool
	Took, Attempt  string
	Owner, Short   string
	Error          string
}

func (v *viewer) runRow(r jobs.Record) runRow {
	row := runRow{
		Href: runURL(r.Key), Job: visible(r.Job), JobHref: jobURL(r.Job), Tick: v.moment(r.Tick), Tags: tagsOf(r), State: markOf(r.State),
		Started: v.moment(r.Started), Ended: v.moment(r.Finished), Owner: visible(r.Owner), Short: visible(shortOwner(r.Owner)),
		Error: oneLine(r.Error),
	}
	if late, is := lateBy(r); is {
		row.Late, row.IsLate = took(late), true
	}
	if r.State != jobs.Skipped {
		row.Took, row.Attempt = tookBy(v, r), strconv.Itoa(r.Attempt)
	}
	return row
}

// tookBy is how long a run took, or has taken until now.
func tookBy(v *viewer, r jobs.Record) string {
	switch {
	case r.Started.IsZero():
		return ""
	case !r.Finished.IsZero():
		return took(r.Finished.Sub(r.Started))
	case r.State == jobs.Running:
		return took(max(v.now.Sub(r.Started), 0))
	}
	return ""
}

// shards says which part of a run of its job a run is; nothing for others.
func shards(r jobs.Record) string {
	i, n := triggers.ShardOf(r.Trigger)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("shard %d of %d", i, n)
}

// tagsOf say what is particular about a run.
func tagsOf(r jobs.Record) []string {
	var tags []string
	switch {
	case r.Trigger == 0:
	case triggers.IsAfter(r.Trigger):
		tags = append(tags, "after")
	case triggers.IsNotice(r.Trigger):
		tags = append(tags, "notice")
	case triggers.IsBackfill(r.Trigger):
		tags = append(tags, "backfill")
	case shards(r) != "":
		tags = append(tags, shards(r))
	default:
		tags = append(tags, "triggered")
	}
	if r.HasArgs {
		tags = append(tags, "arguments")
	}
	if r.Missed > 0 {
		what := " missed"
		if r.State == jobs.Skipped {
			what = " more"
		}
		tags = append(tags, count(r.Missed)+what)
	}
	if r.CancelAsked && !r.State.Over() {
		tags = append(tags, "cancel asked")
	}
	return tags
}
