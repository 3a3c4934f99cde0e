package page

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cronlease/cronlease/jobs"
)

// auditData is what audit.html gets.
type auditData struct {
	Search  string
	Notes   []note
	Actions []auditRow
	Empty   string
	Pager   pager
}

// auditRow is an action that was asked for.
type auditRow struct {
	When         moment
	Who, Via     string
	What         string
	Job, JobHref string
	Tick         moment
	RunHref      string
	Result, Note string
	Refused      bool
}

const perAudit = 100

// audit shows what was asked of the group, and by whom.
func (p *Page) audit(r *http.Request) (shown, error) {
	query := r.URL.Query()
	filter := jobs.AuditFilter{Job: strings.TrimSpace(query.Get("q")), Limit: perAudit + 1}
	if text := query.Get("before"); text != "" {
		before, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return shown{}, errUnfit
		}
		filter.Before = before
	}
	entries, err := optional(p.source.Audit(r.Context(), filter))
	if err != nil {
		return shown{}, err
	}
	changes, err := p.source.Changes(r.Context())
	if err != nil {
		return shown{}, err
	}
	now := changes.Now.UTC()
	data := auditData{Search: filter.Job, Empty: "Nothing was asked for yet."}
	if filter.Job != "" || filter.Before > 0 {
		data.Empty = "There is nothing about that."
	}
	for _, e := range entries[:min(len(entries), perAudit)] {
		row := auditRow{
			When: moment{now, e.At}, Who: visible(e.Name), Via: visible(string(e.Via)), What: visible(string(e.Action)), Job: visible(e.Job),
			Result: visible(string(e.Result)), Note: visible(e.Note), Refused: e.Result == jobs.Refused,
		}
		if e.Name == "" {
			row.Who = "not told"
		}
		if e.Job != "" {
			row.JobHref = jobURL(e.Job)
		}
		if !e.Tick.IsZero() {
			row.RunHref, row.Tick = runURL(e.Key), moment{now, e.Tick}
		}
		data.Actions = append(data.Actions, row)
	}
	link := func(before uint64) string {
		values := url.Values{}
		if filter.Job != "" {
			values.Set("q", filter.Job)
		}
		if before > 0 {
			values.Set("before", strconv.FormatUint(before, 10))
		}
		return "audit?" + values.Encode()
	}
	if filter.Before > 0 {
		data.Pager.Newer, data.Pager.NewerText = link(0), "Newest"
	}
	if len(entries) > perAudit {
		data.Pager.Older, data.Pager.OlderText = link(entries[perAudit-1].ID), "Older"
	}
	return shown{title: "Audit", template: "audit.html", data: data, now: now}, nil
}
