package page_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// text is what a view says, without its markup.
func (b *bench) text(path string) string {
	b.Helper()
	body := b.is(b.get(path), http.StatusOK).body
	return strings.Join(strings.Fields(html.UnescapeString(markup.ReplaceAllString(body, " "))), " ")
}

var markup = regexp.MustCompile(`<[^>]*>`)

// failing adds jobs that fail with an error that has a number in it, and triggers runs of them.
func (b *bench) failing(runs map[string]int) {
	b.Helper()
	for name := range runs {
		n := 0
		job := jobs.Job{Name: name, Schedule: jobs.Manual(), Timeout: 90 * time.Second, Misfire: jobs.MisfireAll, Overlap: jobs.OverlapQueue, About: "/usr/local/bin/" + name + " --full",
			Retry: jobs.Retry{Attempts: 1}, Do: func(context.Context, jobs.Run) error { n++; return fmt.Errorf("disk %d is full", n) }}
		if err := b.scheduler.Add(job); err != nil {
			b.Fatal(err)
		}
	}
	for name, n := range runs {
		for range n {
			b.wait("a trigger", func() bool { _, err := b.scheduler.Jobs().Trigger(b.Context(), name); return err == nil })
		}
		b.wait("the ends", func() bool {
			failed, err := b.scheduler.Jobs().Runs(b.Context(), jobs.Filter{Job: name, State: jobs.Failed, Limit: n})
			return err == nil && len(failed) == n
		})
	}
}

// A failed run leads on: to the same again with its arguments, and the overview to all others like it.
func TestFromFailedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.failing(map[string]int{"backup": 3})
	key, err := b.scheduler.Jobs().TriggerWith(t.Context(), "backup", map[string]string{"mode": "canary"})
	if err != nil {
		t.Fatal(err)
	}
	b.wait("its end", func() bool {
		run, err := b.scheduler.Jobs().Run(t.Context(), key)
		return err == nil && run.State == jobs.Failed
	})
	run := url.Values{"job": {"backup"}, "tick": {key.Tick.Format(time.RFC3339Nano)}, "trigger": {fmt.Sprint(key.Trigger)}}
	if a := b.is(b.get("/run?"+run.Encode()), http.StatusOK); !strings.Contains(a.body, ">Run again with these arguments</a>") {
		t.Errorf("no way to run it again: %s", a.body)
	}
	again := with(url.Values{"job": run["job"], "tick": run["tick"], "trigger": run["trigger"]}, "action", "again")
	if a := b.is(b.get("/confirm?"+again.Encode()), http.StatusOK); strings.Contains(a.body, "canary") {
		t.Error("the form shows the arguments")
	}
	b.leadsTo(b.do(again), "run?job=backup", "The run is requested.")
	b.wait("the other run", func() bool { return len(b.runs()) == 5 })
	newest := b.runs()[0]
	if args, err := b.scheduler.Jobs().Args(t.Context(), newest.Key); err != nil || string(args) != `{"mode":"canary"}` || newest.Key == key {
		t.Errorf("the run again has the arguments %s, %v", args, err)
	}
	b.wait("its end", func() bool { return b.runs()[0].State == jobs.Failed })
	// What differs in a number alone is one row, with a link to all of it.
	a := b.is(b.get("/"), http.StatusOK)
	row := regexp.MustCompile(`<th class="name" scope="row"><a href="job\?name=backup".*?</tr>`).FindAllString(a.body, -1)
	if len(row) != 1 || !strings.Contains(row[0], ">5</a>") || !strings.Contains(row[0], "disk 5 is full") || !strings.Contains(row[0], `href="runs?job=backup&amp;since=`) {
		t.Errorf("trouble: %q", row)
	}
	if strings.Contains(a.body, `href="job?name="`) {
		t.Errorf("a row without a job: %s", a.body)
	}
	b.is(b.send(http.MethodPost, "/do", with(form("again", "backup"), "tick", "2020-01-01T00:00:00Z")), http.StatusNotFound)
}

// The list of all runs has those of its filters, page by page.
func TestRunsOfAllJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.failing(map[string]int{"backup": 40, "import": 30})
	if _, err := b.scheduler.Jobs().Trigger(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	b.wait("its end", func() bool {
		done, err := b.scheduler.Jobs().Runs(t.Context(), jobs.Filter{State: jobs.Succeeded})
		return err == nil && len(done) == 1
	})
	links := regexp.MustCompile(`<th class="nowrap" scope="row"><a href="(run\?[^"]+)"`)
	older := regexp.MustCompile(`<a class="button" rel="next" href="([^"]+)">`)
	all := func(path string) (seen map[string]bool, pages int) {
		t.Helper()
		seen = map[string]bool{}
		for path != "" {
			a := b.is(b.get(path), http.StatusOK)
			pages++
			for _, link := range links.FindAllStringSubmatch(a.body, -1) {
				if seen[link[1]] {
					t.Errorf("%s has %s twice", path, link[1])
				}
				seen[link[1]] = true
			}
			path = ""
			if next := older.FindStringSubmatch(a.body); next != nil {
				path = "/" + html.UnescapeString(next[1])
			}
		}
		return seen, pages
	}
	hour := func(d time.Duration) string { return url.QueryEscape(time.Now().Add(d).UTC().Format(time.RFC3339)) }
	for path, want := range map[string]int{
		"/runs": 71, "/runs?state=trouble": 70, "/runs?state=failed&job=import": 30, "/runs?state=succeeded": 1, "/runs?job=report": 1, "/runs?job=nothing": 0,
		"/runs?replica=" + url.QueryEscape(b.scheduler.Owner()[:8]): 71, "/runs?replica=nobody": 0, "/runs?since=" + hour(-time.Hour): 71, "/runs?since=" + hour(time.Hour): 0,
		"/runs?until=" + hour(-time.Hour): 0, "/job?name=backup": 40, "/job?name=backup&state=trouble": 40, "/job?name=backup&state=succeeded": 0,
	} {
		if seen, pages := all(path); len(seen) != want || want > 50 && pages != 2 {
			t.Errorf("%s has %d runs on %d pages, want %d", path, len(seen), pages, want)
		}
	}
	for _, path := range []string{"/runs?state=odd", "/runs?since=yesterday", "/runs?tick=x"} {
		b.is(b.get(path), http.StatusBadRequest)
	}
}

// The list of jobs can be that of the failing and of the paused ones.
func TestOnlySomeJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.failing(map[string]int{"backup": 1})
	b.do(form("pause", "report"))
	for path, want := range map[string][2]bool{"/": {true, true}, "/?only=failing": {true, false}, "/?only=paused": {false, true}, "/?only=failing&q=report": {false, false}} {
		body := b.is(b.get(path), http.StatusOK).body
		for i, name := range []string{"backup", "report"} {
			if has := strings.Contains(body, `<th class="job" scope="row"><a href="job?name=`+name+`"`); has != want[i] {
				t.Errorf("%s: %s is shown: %v", path, name, has)
			}
		}
	}
}

// A paused job has no next tick, wherever it is told.
func TestNoNextWhilePaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if text := b.text("/job?name=report"); !strings.Contains(text, "Next in ") {
		t.Fatalf("no next tick: %s", text)
	}
	for _, job := range []string{"report", ""} {
		b.do(form("pause", job))
		text := b.text("/job?name=report")
		if strings.Contains(text, "Next in ") || !strings.Contains(text, "Next paused its ticks are skipped") || !strings.Contains(text, "its ticks are skipped until it is resumed") {
			t.Errorf("paused, and says: %s", text)
		}
		if body := b.get("/").body; regexp.MustCompile(`<td class="next"><time`).MatchString(body) {
			t.Errorf("the overview has a next tick of a paused job")
		}
		b.do(form("resume", job))
	}
}

// A job's page has how it is declared on the replica that shows it.
func TestSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.failing(map[string]int{"backup": 1})
	text := b.text("/job?name=backup")
	for _, want := range []string{"Does /usr/local/bin/backup --full", "Timeout 1 min 30 s", "Retry none", "Misfire all, up to 1\u2009000 at a time", "Overlap queue", "Recover skip", "History 10\u2009000 runs, for 30 d"} {
		if !strings.Contains(text, strings.ReplaceAll(want, "\u2009", " ")) && !strings.Contains(text, want) {
			t.Errorf("no %q: %s", want, text)
		}
	}
	if err := b.scheduler.Remove("backup"); err != nil {
		t.Fatal(err)
	}
	if text := b.text("/job?name=backup"); !strings.Contains(text, "That replica does not have the job.") {
		t.Error(text)
	}
}

// A job that runs everywhere is listed with its schedule, and the page says what is not known of it.
func TestEverywhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	do := func(context.Context, jobs.Run) error { return errors.New("canary") }
	for _, job := range []jobs.Job{
		{Name: "cache", Schedule: jobs.Every(10 * time.Minute), Everywhere: true, Timeout: time.Minute, About: "fill the cache", Do: do},
		{Name: "sweep", Schedule: jobs.FixedDelay(time.Hour).InitialDelay(time.Hour), Everywhere: true, Do: do},
	} {
		if err := b.scheduler.Add(job); err != nil {
			t.Fatal(err)
		}
	}
	if text := b.text("/"); !strings.Contains(text, "cache everywhere · every 10 minutes") || !strings.Contains(text, "sweep everywhere · ") || !strings.Contains(text, "and 2 everywhere") {
		t.Errorf("the overview: %s", text)
	}
	// A tick may be due at this very moment.
	b.wait("the next tick", func() bool { return strings.Contains(b.text("/job?name=cache"), "Next in ") })
	text := b.text("/job?name=cache")
	for _, want := range []string{"Each replica runs this job by itself", "Its runs are not recorded", "Next in ", "fill the cache", "Timeout 1 min"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q: %s", want, text)
		}
	}
	for _, not := range []string{"Run now", "Pause ", "no leader has", "It has not run yet", "Misfire"} {
		if strings.Contains(text, not) {
			t.Errorf("says %q: %s", not, text)
		}
	}
	if text := b.text("/job?name=sweep"); strings.Contains(text, "Next in ") {
		t.Error(text)
	}
	list := read[[]map[string]any](b, "/api/jobs")
	if len(list) != 3 || list[0]["name"] != "cache" || list[0]["everywhere"] != true || list[0]["schedule"] != "every 10m0s" || list[1]["everywhere"] != false {
		t.Errorf("JSON: %v", list)
	}
	if rest := read[[]map[string]any](b, "/api/jobs?after=report"); len(rest) != 1 || rest[0]["name"] != "sweep" {
		t.Errorf("JSON behind report: %v", rest)
	}
	b.is(b.get("/job?name=nothing"), http.StatusNotFound)
}
