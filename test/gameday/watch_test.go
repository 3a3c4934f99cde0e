package gameday

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/test/promtest"
)

// What is watched.
const (
	alertOf   = "alert"
	healthz   = "/healthz"
	readyz    = "/readyz"
	apiStatus = "/api/status"
	overview  = "overview"
	trouble   = "trouble" // the overview's list of runs that failed
	marked    = "marked"  // the overview's facts that are marked as bad
	doctor    = "worker doctor"
	status    = "worker status"
)

// watch is what everything that can be asked says of a group, and when.
type watch struct {
	t      *testing.T
	begun  time.Time
	client *http.Client
	stop   chan struct{}
	work   sync.WaitGroup

	mu     sync.Mutex // guards all below
	said   []saying
	last   map[source]saying
	usual  map[string]bool // what worker doctor finds fault with when all is well; nil: not known yet
	faulty time.Time       // when the fault began; zero: it has not
	logs   []logged
}

// source is what is asked, and where.
type source struct{ what, where string }

// saying is an answer that differs from the one before.
type saying struct {
	at time.Time
	source
	well  bool
	brief string // sayings differ if these do
	text  string

	code     int // of a command
	findings []finding
}

// finding is one of worker doctor that is not usual.
type finding struct{ Check, Grade, Text, Cure string }

func newWatch(t *testing.T) *watch {
	w := &watch{t: t, begun: time.Now(), client: &http.Client{Transport: &http.Transport{}}, stop: make(chan struct{}), last: map[source]saying{}}
	t.Cleanup(func() {
		close(w.stop)
		w.work.Wait()
		w.client.CloseIdleConnections()
	})
	return w
}

// note takes in an answer.
func (w *watch) note(what, where string, well bool, brief, text string) {
	w.take(saying{source: source{what, where}, well: well, brief: brief, text: cmp.Or(text, brief)})
}

func (w *watch) take(s saying) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.at = time.Now()
	if last, ok := w.last[s.source]; ok && last.brief == s.brief && last.well == s.well {
		return
	}
	w.last[s.source] = s
	w.said = append(w.said, s)
}

func (w *watch) log(l logged) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, l)
}

// again does something now and then, until the watch ends.
func (w *watch) again(every time.Duration, do func()) {
	w.work.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			do()
			select {
			case <-ticker.C:
			case <-w.stop:
				return
			}
		}
	})
}

// observe begins to watch a group.
func (s *scene) observe(prometheus *promtest.Server) {
	w := s.watch
	for _, r := range s.replicas {
		for _, path := range []string{healthz, readyz} {
			w.again(500*time.Millisecond, func() { w.probe(r, path) })
		}
		w.again(4*time.Second, func() {
			w.askAPI(r)
			w.askOverview(r)
		})
	}
	w.again(time.Second, func() { w.askAlerts(prometheus, s.fault.name) })
	w.again(5*time.Second, func() { w.askDoctor(s.place()) })
	w.again(3*time.Second, func() { w.askStatus(s.place()) })
}

// place is where the commands are called.
func (s *scene) place() *replica {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return cmp.Or(s.at, s.replicas[0])
}

// get asks a worker; 0 is no answer.
func (w *watch) get(url string, limit time.Duration) (code int, body string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := w.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func (w *watch) probe(r *replica, path string) {
	code, body := w.get("http://"+r.address+path+"?format=json", 2*time.Second)
	w.note(path, r.name, code == http.StatusOK, answer(code), answer(code)+" "+strings.TrimSpace(body))
}

func answer(code int) string {
	if code == 0 {
		return "no answer"
	}
	return strconv.Itoa(code)
}

func (w *watch) askAPI(r *replica) {
	code, body := w.get("http://"+r.address+"/api/status", 20*time.Second)
	var says struct {
		State, Error string
		Errors       []string
	}
	brief := answer(code)
	if code != 0 {
		if err := json.Unmarshal([]byte(body), &says); err != nil {
			brief += " not JSON"
		}
	}
	text := strings.Join(slices.DeleteFunc(append([]string{brief, says.State, says.Error}, says.Errors...), func(s string) bool { return s == "" }), ": ")
	if code == http.StatusOK {
		brief += " " + says.State
	}
	if len(says.Errors) > 0 {
		brief += " with errors"
	}
	w.note(apiStatus, r.name, code == http.StatusOK && says.State == "held" && len(says.Errors) == 0, brief, text)
}

var (
	noteOf    = regexp.MustCompile(`(?s)<p class="note is-(bad|warn)[^>]*>.*?<span>(.*?)</span></p>`)
	troubleOf = regexp.MustCompile(`(?s)id="trouble".*?</section>`)
	jobOf     = regexp.MustCompile(`(?s)<th class="name" scope="row"><a [^>]*>(.*?)</a>`)
	markedOf  = regexp.MustCompile(`(?s)<dd class="(bad|warn)"[^>]*>(.*?)</dd>`)
	tags      = regexp.MustCompile(`<[^>]*>`)
	figures   = regexp.MustCompile(`[0-9][0-9.,:]*`)
)

func plain(s string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(s, " "))), " ")
}

func (w *watch) askOverview(r *replica) {
	code, body := w.get("http://"+r.address+"/", 20*time.Second)
	brief := answer(code)
	var notes []string
	for _, n := range noteOf.FindAllStringSubmatch(body, -1) {
		notes = append(notes, plain(n[2]))
	}
	text := strings.Join(append([]string{brief}, notes...), ": ")
	w.note(overview, r.name, code == http.StatusOK && len(notes) == 0, figures.ReplaceAllString(text, "N"), text)
	if code != http.StatusOK {
		return
	}
	var failed, facts []string
	for _, j := range jobOf.FindAllStringSubmatch(troubleOf.FindString(body), -1) {
		failed = append(failed, plain(j[1]))
	}
	slices.Sort(failed)
	list := strings.Join(slices.Compact(failed), ", ")
	w.note(trouble, r.name, list == "", list, "the runs that failed are listed: "+list)
	for _, f := range markedOf.FindAllStringSubmatch(body, -1) {
		facts = append(facts, plain(f[2]))
	}
	list = strings.Join(facts, ", ")
	w.note(marked, r.name, list == "", figures.ReplaceAllString(list, "N"), "marked: "+list)
}

func (w *watch) askAlerts(prometheus *promtest.Server, job string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 5*time.Second)
	defer cancel()
	all, err := prometheus.Alerts(ctx)
	if err != nil {
		return // it is asked again
	}
	firing := map[string]string{}
	for _, a := range all {
		if a.Labels["job"] == job && a.State == "firing" {
			firing[a.Labels["alertname"]] = fmt.Sprintf("%s: %s. %s", a.Labels["severity"], a.Annotations["summary"], a.Annotations["description"])
		}
	}
	w.mu.Lock()
	var over []string
	for s, last := range w.last {
		if s.what == alertOf && !last.well && firing[s.where] == "" {
			over = append(over, s.where)
		}
	}
	w.mu.Unlock()
	for name, text := range firing {
		w.note(alertOf, name, false, "fires", text)
	}
	for _, name := range over {
		w.note(alertOf, name, true, "is over", "")
	}
}

// run calls a command of the worker as an operator would. It returns -1 as the exit code if that takes longer than two minutes.
func (w *watch) run(command string, r *replica, args ...string) (code int, out []byte, complaint string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, workertest.Program(), append([]string{command, "--config", r.config}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out, lastLine(string(exit.Stderr))
	}
	return 0, out, ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "worker: ")
}

func (w *watch) askStatus(r *replica) {
	begin := time.Now()
	code, out, complaint := w.run("status", r)
	gone := goneOf.FindString(string(out))
	w.take(saying{source: source{what: status}, well: code == 0, code: code, brief: fmt.Sprint(code, gone != ""), text: fmt.Sprintf("exit code %d%s%s%s", code, colon(complaint), colon(gone), took(begin))})
}

// goneOf finds what worker status says of workers that are gone.
var goneOf = regexp.MustCompile(goneText + ".*")

const goneText = "workers that the database does not see"

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// took says how long a command took, if that is worth a word.
func took(begin time.Time) string {
	if d := time.Since(begin); d > 3*time.Second {
		return fmt.Sprintf(" (after %.0f s)", d.Seconds())
	}
	return ""
}

func (w *watch) askDoctor(r *replica) {
	begin := time.Now()
	code, out, complaint := w.run("doctor", r, "--json")
	var says struct{ Findings []finding }
	if err := json.Unmarshal(out, &says); err != nil && code == 0 {
		complaint = err.Error()
	}
	w.mu.Lock()
	usual, before := map[string]bool{}, w.faulty.IsZero()
	if begin.Before(w.faulty) { // it has seen some of both
		w.mu.Unlock()
		return
	}
	var found, texts []string
	var findings []finding
	for _, f := range says.Findings {
		if f.Grade == "ok" || f.Grade == "unknown" && before {
			continue
		}
		name := f.Grade + " " + f.Check
		usual[name] = true
		if before || !w.usual[name] {
			found, findings = append(found, name), append(findings, f)
			texts = append(texts, fmt.Sprintf("**%s** %s: %s", f.Grade, f.Check, f.Text)+cure(f.Cure))
		}
	}
	if before && code == 0 {
		w.usual = usual
	}
	w.mu.Unlock()
	if len(says.Findings) == 0 {
		texts = append(texts, complaint)
	}
	w.take(saying{source: source{what: doctor}, well: code == 0 && (before || len(found) == 0), code: code, findings: findings,
		brief: fmt.Sprint(code, " ", strings.Join(found, ", ")), text: fmt.Sprintf("exit code %d%s%s", code, colon(strings.Join(texts, "; ")), took(begin))})
}

func cure(text string) string {
	if text == "" {
		return ""
	}
	return ". Cure: " + text
}

// allWell reports whether everything was asked, and says that all is well.
func (w *watch) allWell(replicas int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, last := range w.last {
		if !last.well && s.what != trouble && s.what != marked && s.what != alertOf {
			return false
		}
	}
	return len(w.last) >= replicas*6+2 && w.usual != nil // alerts are there only once they have fired
}

// since returns what a source has said from that instant on. An empty place means all.
func (w *watch) since(at time.Time, what, where string) []saying {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []saying
	for _, s := range w.said {
		if s.what == what && (where == "" || s.where == where) && !s.at.Before(at) {
			found = append(found, s)
		}
	}
	return found
}

// places are where something was asked.
func (w *watch) places(what string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var places []string
	for s := range w.last {
		if s.what == what {
			places = append(places, s.where)
		}
	}
	slices.Sort(places)
	return places
}

// unwell are the sources of that kind that find fault now.
func (w *watch) unwell(whats ...string) []source {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []source
	for s, last := range w.last {
		if !last.well && slices.Contains(whats, s.what) {
			found = append(found, s)
		}
	}
	return found
}

// warnings are the lines of the logs between two instants.
func (w *watch) warnings(from, to time.Time) []logged {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.logs), func(l logged) bool { return l.at.Before(from) || l.at.After(to) })
}

// story is all that was said, in order, with seconds since the beginning of the fault.
func (w *watch) story(began time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, s := range w.said {
		lines = append(lines, line{s.at, fmt.Sprintf("%-14s %s %s", s.what, s.where, s.text)})
	}
	for _, l := range w.logs {
		lines = append(lines, line{l.at, fmt.Sprintf("log of %s       %s %s %s", l.replica, l.Level, l.Msg, l.Error)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "%7.1f s  %s\n", l.at.Sub(began).Seconds(), l.text)
	}
	return text.String()
}
