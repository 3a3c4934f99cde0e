package page

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// troubleRow is what went wrong with a job in one way, however often.
type troubleRow struct {
	Job, JobHref string
	State        *mark // nil: it fails, and no more is known
	Count        string
	First, Last  moment
	Error        string
	// Href leads to the newest run, and AllHref to all of them.
	Href, AllHref string
}

// troubles are those of the last 24 hours.
type troubles struct {
	Rows    []troubleRow
	AllHref string
	// More: there are others than these.
	More bool
}

const (
	// maxTrouble is how many rows of trouble the overview has, and maxTroubled how many runs of a state
	// are read for them.
	maxTrouble  = 8
	maxTroubled = 100
)

// troubleKey tells ways in which runs go wrong apart. Numbers in an error do not.
type troubleKey struct {
	job   string
	state jobs.State
	why   string
}

var digits = regexp.MustCompile(`[0-9]+`)

// trouble groups the runs of the last 24 hours that an operator should look at, by job and error.
func (v *viewer) trouble() (all []troubleRow, err error) {
	since := v.now.Add(-24 * time.Hour)
	type group struct {
		newest jobs.Record
		first  time.Time
		runs   int
		cut    bool // there are more than were read
	}
	groups := map[troubleKey]*group{}
	for _, state := range troubled {
		records, err := v.page.source.Runs(v.ctx, jobs.Filter{State: state, Since: since, Limit: maxTroubled})
		if err != nil {
			return nil, err
		}
		for _, r := range records { // the newest first
			key := troubleKey{r.Job, r.State, digits.ReplaceAllString(oneLine(r.Error), "0")}
			g := groups[key]
			if g == nil {
				g = &group{newest: r, cut: len(records) == maxTroubled}
				groups[key] = g
			}
			g.runs, g.first = g.runs+1, ended(r)
		}
	}
	sorted := make([]*group, 0, len(groups))
	for _, g := range groups {
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(a, b *group) int {
		return cmp.Or(ended(b.newest).Compare(ended(a.newest)), cmp.Compare(a.newest.Job, b.newest.Job), cmp.Compare(a.newest.State, b.newest.State), cmp.Compare(a.newest.Error, b.newest.Error))
	})
	for _, g := range sorted {
		row := v.troubleOf(g.newest.Job)
		state := markOf(g.newest.State)
		row.State, row.Count, row.Error, row.Href = &state, count(g.runs), oneLine(g.newest.Error), runURL(g.newest.Key)
		row.First, row.Last = v.moment(g.first), v.moment(ended(g.newest))
		if g.cut {
			row.Count, row.First = row.Count+" or more", moment{}
		}
		all = append(all, row)
	}
	return all, nil
}

// ended is when a run ended, or was due if that is not known.
func ended(r jobs.Record) time.Time {
	if r.Finished.IsZero() {
		return r.Tick
	}
	return r.Finished
}

// troubleOf is a row that leads to all that went wrong with a job in the last 24 hours.
func (v *viewer) troubleOf(job string) troubleRow {
	row := troubleRow{Job: visible(job), JobHref: jobURL(job)}
	row.AllHref = v.troubleURL(job)
	return row
}

func (v *viewer) troubleURL(job string) string {
	values := url.Values{"state": {trouble}, "since": {v.now.Add(-24 * time.Hour).Truncate(time.Second).Format(time.RFC3339)}}
	if job != "" {
		values.Set("job", job)
	}
	return "runs?" + values.Encode()
}

// troubles adds the jobs that fail although none of the rows is theirs: their trouble lies behind that of
// noisier ones, or is older.
func (v *viewer) troubles(rows []troubleRow) troubles {
	t := troubles{AllHref: v.troubleURL("")}
	named := map[string]bool{}
	for _, row := range rows {
		named[row.Job] = true
	}
	if last, ok := v.page.late.get(v.ctx, v.begun.Add(slowWait)); ok {
		var quiet []string
		for job := range last.value.failing {
			if !named[visible(job)] {
				quiet = append(quiet, job)
			}
		}
		slices.Sort(quiet)
		// Up to half of the room is theirs: noise must not hide them.
		at := min(len(rows), maxTrouble-min(len(quiet), maxTrouble/2))
		for i, job := range quiet {
			row := troubleRow{Job: visible(job), JobHref: jobURL(job), AllHref: "runs?" + url.Values{"state": {trouble}, "job": {job}}.Encode(), Count: "all"}
			row.Last = v.moment(last.value.failing[job])
			rows = slices.Insert(rows, at+i, row)
		}
	}
	t.More = len(rows) > maxTrouble
	t.Rows = rows[:min(len(rows), maxTrouble)]
	return t
}
