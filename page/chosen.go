package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cronlease/cronlease/jobs"
)

// perPage is how many jobs a timeline shows at a time.
const perPage = 50

// chosen is which jobs a timeline shows.
type chosen struct {
	search, only  string
	all, found    int // jobs, and those among them that the search finds
	number, pages int
	first         int // the place of the first one among those
	names         []string
}

// onlyJobs are the filters of the list of jobs, beside its search.
var onlyJobs = map[string]func(jobs.Known) bool{
	"failing": func(k jobs.Known) bool { return k.Failing && k.Gone.IsZero() },
	"paused":  func(k jobs.Known) bool { return k.Paused },
}

// chosen reads which jobs the request asks for.
func (v *viewer) chosen() (chosen, error) {
	names := v.names()
	c := chosen{search: strings.TrimSpace(v.query.Get("q")), only: v.query.Get("only"), all: len(names)}
	if is, ok := onlyJobs[c.only]; ok { // which takes reading all of them
		all, err := v.page.source.Load(v.ctx)
		if err != nil {
			return c, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !is(all.Jobs[name]) })
	} else {
		c.only = ""
	}
	names = matching(names, c.search)
	c.found = len(names)
	c.pages = max((c.found+perPage-1)/perPage, 1)
	number, _ := strconv.Atoi(v.query.Get("page"))
	c.number = min(max(number, 1), c.pages)
	c.first = (c.number - 1) * perPage
	c.names = names[c.first:min(c.first+perPage, c.found)]
	return c, nil
}

// matching are the names that have the text in them, in any case.
func matching(names []string, text string) []string {
	if text == "" {
		return names
	}
	text = strings.ToLower(text)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.Contains(strings.ToLower(name), text) })
}

// pages leads to the pages beside a numbered one.
func (v *viewer) pages(number, of int) pager {
	to := func(n int) string {
		values := url.Values{}
		for key, value := range v.query {
			values[key] = value
		}
		values.Del("done")
		values.Set("page", strconv.Itoa(n))
		return "?" + values.Encode()
	}
	var p pager
	if of > 1 {
		p.Text = "Page " + count(number) + " of " + count(of)
	}
	if number > 1 {
		p.Newer, p.NewerText = to(number-1), "Back"
	}
	if number < of {
		p.Older, p.OlderText = to(number+1), "On"
	}
	return p
}
