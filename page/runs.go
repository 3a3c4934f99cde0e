package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// runsData is what runs.html gets.
type runsData struct {
	Notes  []note
	States []option
	Keep   []pair // of the form, hidden
	// Job, Replica, Since and Until are what the form has.
	Job, Replica, Since, Until string
	Runs                       runTable
}

// runTable is what the template of a list of runs gets: that of all jobs, and that of one.
type runTable struct {
	Rows []runRow
	// Jobs: each row names its job.
	Jobs  bool
	None  string
	Pager pager
}

// runQuery says which runs a list shows.
type runQuery struct {
	job    string // empty: of all
	states []jobs.State
	// replica is a part of the owner's name; empty: of all.
	replica      string
	since, until time.Time
	behind       jobs.Key
}

const (
	perHistory = 25
	perRuns    = 50
	// maxLooked is how many runs are looked at for those of a replica, which no store finds by itself.
	maxLooked = 1000
	// trouble is the state that means all those that an operator should look at.
	trouble = "trouble"
)

// readStates reads a state of a query: none, one, or trouble.
func readStates(wanted string) ([]jobs.State, error) {
	switch wanted {
	case "":
		return nil, nil
	case trouble:
		return troubled, nil
	}
	state, err := jobs.ParseState(wanted)
	if err != nil {
		return nil, fmt.Errorf("%w: there is no such state", errUnfit)
	}
	return []jobs.State{state}, nil
}

// stateOptions are the links to the states of a list.
func stateOptions(wanted string, to func(state string) string, states ...jobs.State) []option {
	all := []option{{Text: "all", Href: to(""), Current: wanted == ""}, {Text: trouble, Words: "failed, timed out, panicked or interrupted", Href: to(trouble), Current: wanted == trouble}}
	for _, s := range states {
		all = append(all, option{Text: s.String(), Href: to(s.String()), Current: wanted == s.String()})
	}
	return all
}

// readRuns reads the newest runs of a query, at most limit. more is the key behind which there may be others;
// zero: there are none.
func (v *viewer) readRuns(q runQuery, limit int) (list []jobs.Record, more jobs.Key, err error) {
	states := q.states
	if states == nil {
		states = []jobs.State{0}
	}
	for looked := 0; ; {
		var part []jobs.Record
		for _, state := range states {
			records, err := v.page.source.Runs(v.ctx, jobs.Filter{Job: q.job, State: state, Since: q.since, Until: q.until, Behind: q.behind, Limit: limit + 1})
			if err != nil {
				return nil, more, err
			}
			part = append(part, records...)
		}
		slices.SortFunc(part, func(a, b jobs.Record) int {
			return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Job, a.Job), cmp.Compare(b.Trigger, a.Trigger))
		})
		more := len(part) > limit
		part = part[:min(len(part), limit)]
		for _, r := range part {
			q.behind = r.Key
			if strings.Contains(r.Owner, q.replica) {
				if list = append(list, r); len(list) == limit {
					if !more && r.Key == part[len(part)-1].Key {
						return list, jobs.Key{}, nil
					}
					return list, r.Key, nil
				}
			}
		}
		if looked += len(part); !more {
			return list, jobs.Key{}, nil
		} else if looked >= maxLooked {
			return list, q.behind, nil
		}
	}
}

// table is a page of a list. to is the link to the part behind a run, and to the newest for none.
func (v *viewer) table(q runQuery, limit int, to func(behind *jobs.Key) string) (t runTable, err error) {
	records, more, err := v.readRuns(q, limit)
	if err != nil {
		return t, err
	}
	for _, r := range records {
		t.Rows = append(t.Rows, v.runRow(r))
	}
	t.None = "There are no such runs."
	if q.behind != (jobs.Key{}) {
		t.Pager.Newer, t.Pager.NewerText = to(nil), "Newest"
	}
	if more != (jobs.Key{}) {
		t.Pager.Older, t.Pager.OlderText = to(&more), "Older"
		if len(records) < limit {
			t.None = "There are none among the newest that were looked at."
		}
	}
	return t, nil
}

// behindOf reads behind which run a list goes on; zero: none.
func behindOf(query url.Values, job string) (jobs.Key, error) {
	if query.Get("tick") == "" {
		return jobs.Key{}, nil
	}
	return keyOf(url.Values{"job": {job}, "tick": {query.Get("tick")}, "trigger": {query.Get("trigger")}})
}

// runs shows the runs of all jobs.
func (p *Page) runs(r *http.Request) (shown, error) {
	v, err := p.newRunViewer(r)
	if err != nil {
		return shown{}, err
	}
	field := func(name string) string { return strings.TrimSpace(v.query.Get(name)) }
	wanted := field("state")
	data := runsData{Job: field("job"), Replica: field("replica"), Since: field("since"), Until: field("until")}
	q := runQuery{job: data.Job, replica: data.Replica}
	if q.states, err = readStates(wanted); err != nil {
		return shown{}, err
	}
	for name, into := range map[string]*time.Time{"since": &q.since, "until": &q.until} {
		if field(name) == "" {
			continue
		}
		if *into, err = instantOf(v.query, name); err != nil {
			return shown{}, err
		}
	}
	if q.behind, err = behindOf(v.query, field("of")); err != nil {
		return shown{}, err
	}
	to := func(state string, behind *jobs.Key) string {
		values := url.Values{}
		for _, keep := range []string{"job", "replica", "since", "until"} {
			if text := field(keep); text != "" {
				values.Set(keep, text)
			}
		}
		if state != "" {
			values.Set("state", state)
		}
		if behind != nil {
			key := keyValues(*behind)
			values["tick"], values["trigger"], values["of"] = key["tick"], key["trigger"], key["job"]
		}
		return "runs?" + values.Encode()
	}
	data.States = stateOptions(wanted, func(state string) string { return to(state, nil) }, jobs.Running, jobs.Waiting, jobs.Succeeded, jobs.Failed,
		jobs.TimedOut, jobs.Panicked, jobs.Interrupted, jobs.Cancelled, jobs.Skipped)
	if wanted != "" {
		data.Keep = []pair{{"state", wanted}}
	}
	if data.Runs, err = v.table(q, perRuns, func(behind *jobs.Key) string { return to(wanted, behind) }); err != nil {
		return shown{}, err
	}
	data.Runs.Jobs = true
	return shown{title: "Runs", template: "runs.html", data: data, now: v.now}, nil
}
