package gameday

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const document = "../../docs/operating.md"

// The document has the table of what has to be said.
func TestWants(t *testing.T) {
	t.Parallel()
	text := wants(waits(t))
	if *write != "" {
		replaceIn(t, *write, wantMark, text)
		return
	}
	if _, is, _ := between(t, document, wantMark); strings.TrimSpace(is) != strings.TrimSpace(text) {
		t.Errorf("docs/operating.md lacks the table of faults as it is in the code: write it with\n%s", wantMark)
	}
}

// The document has a result of each fault, and none that contradicts what has to be said.
func TestResults(t *testing.T) {
	t.Parallel()
	_, results, _ := between(t, document, beginMark)
	for _, f := range faults() {
		begin, again := f.rows()
		during := strings.Split(strings.ReplaceAll(lineOf(results, begin), `\|`, ""), " | ")
		if len(during) < 3 || lineOf(results, again) == "" {
			t.Errorf("docs/operating.md has no result of %s: make gameday GAMEDAY=%s writes it", f.name, f.name)
			continue
		}
		if !strings.Contains(during[0], "("+minutes(f.lasts)+")") {
			t.Errorf("the result of %s is of another length: %s", f.name, during[0])
		}
		for _, alert := range f.want.alerts {
			if !strings.Contains(during[1], "`"+alert+"`") {
				t.Errorf("the result of %s has no %s: %s", f.name, alert, during[1])
			}
		}
		ready, _, _ := strings.Cut(during[2], "<br>`/healthz`")
		count := fmt.Sprintf(" of %d of %d ", f.want.notReady, cmp.Or(f.replicas, 3))
		if n := f.want.notReady; !f.want.anyReady && strings.Contains(ready, count) != (n > 0) {
			t.Errorf("in the result of %s, %d are not ready: %s", f.name, n, ready)
		}
	}
	if n := strings.Count(results, "\n| **"); n != len(faults()) {
		t.Errorf("docs/operating.md has %d results of %d faults", n, len(faults()))
	}
}

// wants is the table of what has to be said, in Markdown.
func wants(waits map[string]time.Duration) string {
	var text strings.Builder
	text.WriteString("| fault | `/readyz` is not 200 | `/healthz` is not 200 | `worker status` exits with | `worker doctor` names; exits with | page | alerts, within | the rest within | well again within |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range faults() {
		w := f.want
		within, again := w.bounds()
		of := cmp.Or(f.replicas, 3)
		ready, silent := fmt.Sprintf("on %d of %d", w.notReady, of), "on none"
		if w.anyReady {
			ready = "on any"
		} else if w.notReady == 0 {
			ready = "on none"
		}
		if w.silent != 0 {
			silent = "no answer of the process that is gone or hangs"
		}
		if w.back {
			silent += " until it is back"
		}
		var codes []string
		for _, code := range w.status {
			codes = append(codes, strconv.Itoa(code))
		}
		status := or(strings.Join(codes, " or "), "0")
		if slices.Contains(w.status, 0) {
			status += ", then 0"
		}
		if w.says != "" {
			status += ": " + w.says
		}
		var alerts []string
		for _, name := range w.alerts {
			alerts = append(alerts, fmt.Sprintf("`%s` %s", name, whole(min(within+waits[name], f.lasts))))
		}
		doctor := fmt.Sprintf("%s; %d", or(strings.Join(w.doctor, ", "), "nothing"), w.exit)
		if w.never != "" {
			doctor += ", and never advises `" + strings.Trim(w.never, "()") + "`"
		}
		fmt.Fprintf(&text, "| %s (`%s`) | %s | %s | %s | %s | %s | %s | %s | %s |\n", f.what, f.name, ready, silent, status, doctor, or(w.page, "no note"), or(strings.Join(alerts, "<br>"), "–"), whole(within), whole(again))
	}
	return text.String()
}

func whole(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// waits are how long the rule of each alert waits, and some time for the scrapes and for what is in its expression.
func waits(t *testing.T) map[string]time.Duration {
	t.Helper()
	const scrapes = 30 * time.Second
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]time.Duration{}
	for _, rule := range strings.Split(string(text), "- alert: ")[1:] {
		name, rule, _ := strings.Cut(rule, "\n")
		all[name] = scrapes
		if _, after, ok := strings.Cut(rule, " for: "); ok {
			value, _, _ := strings.Cut(after, "\n")
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			all[name] += d
		}
	}
	return all
}

// check finds fault with what was not said, or too late, and with what must not be said.
func (s *scene) check(waits map[string]time.Duration) {
	w := s.fault.want
	within, again := w.bounds()
	late := func(what string, at time.Time, within time.Duration) {
		if took := at.Sub(s.began); took > within {
			s.complain("%s only after %v, not within %v", what, took.Round(time.Second), within)
		}
	}
	for _, alert := range w.alerts {
		all := s.while(alertOf, alert)
		if i := slices.IndexFunc(all, func(x saying) bool { return !x.well }); i < 0 {
			s.complain("the alert %s has not fired within %v", alert, s.fault.lasts)
		} else {
			late("the alert "+alert+" fired", all[i].at, within+waits[alert])
		}
	}
	notReady, ill, silent := 0, 0, 0
	for _, r := range s.replicas {
		if since, ended := s.unwell(readyz, r.name); ended {
			notReady++
			if !w.anyReady {
				late(r.name+" was not ready", since, within)
			}
		}
		if _, ended := s.unwell(healthz, r.name); ended {
			silent++
		}
		if slices.ContainsFunc(s.while(healthz, r.name), func(x saying) bool { return !x.well }) {
			ill++
		}
	}
	if notReady != w.notReady && !w.anyReady {
		s.complain("%d replicas were not ready in the end, not %d", notReady, w.notReady)
	}
	if ill > w.silent {
		s.complain("/healthz asked to restart %d replicas, or did not answer, and not %d", ill, w.silent)
	}
	if w.back && silent > 0 {
		s.complain("/healthz of %d replicas that had started again did not answer in the end", silent)
	}
	said := func(at time.Time, what string) { late(what, at, within) }
	s.checkStatus(said)
	s.checkDoctor(said)
	s.checkPage(said)
	for _, what := range []string{healthz, readyz, doctor, status, apiStatus, overview} {
		for _, where := range s.watch.places(what) {
			ill := true // at the end of the fault, perhaps
			for _, x := range s.watch.since(s.ended, what, where) {
				if took := x.at.Sub(s.ended); x.well && ill && took > again {
					s.complain("%s (%s) was well again after %v only, not within %v", what, where, took.Round(time.Second), again)
				}
				ill = !x.well
			}
		}
	}
}

// unwell reports whether a source found fault when the fault ended, and since when without a break.
func (s *scene) unwell(what, where string) (since time.Time, ended bool) {
	for _, x := range slices.Backward(s.while(what, where)) {
		if x.well {
			break
		}
		since, ended = x.at, true
	}
	return since, ended
}

// held is what a source said from that long after the beginning of the fault until its end, with what it had said last
// before: nothing, where it has said the same since before the fault.
func (s *scene) held(what, where string, after time.Duration) []saying {
	all := s.while(what, where)
	for len(all) > 1 && all[1].at.Sub(s.began) <= after {
		all = all[1:]
	}
	return all
}

func (s *scene) checkStatus(said func(time.Time, string)) {
	w := s.fault.want
	within, _ := w.bounds()
	codes, all := w.status, s.while(status, "")
	if len(codes) == 0 {
		codes = []int{0}
	}
	isWanted := func(x saying) bool { return slices.Contains(codes, x.code) }
	if slices.Contains(codes, 0) {
		for _, x := range all {
			if !isWanted(x) {
				s.complain("worker status exited with %d: %s", x.code, x.text)
			}
		}
		codes = []int{0} // in the end
	} else if i := slices.IndexFunc(all, isWanted); i < 0 {
		s.complain("worker status has not exited with %v", codes)
	} else {
		said(all[i].at, "worker status exited as it should")
	}
	for _, x := range s.held(status, "", within) {
		if !isWanted(x) {
			s.complain("%v after the beginning, worker status still or again exited with %d: %s", x.at.Sub(s.began).Round(time.Second), x.code, x.text)
		}
	}
	if w.says == "" {
		return
	}
	if i := slices.IndexFunc(all, func(x saying) bool { return strings.Contains(x.text, w.says) }); i < 0 {
		s.complain("worker status has not said %q", w.says)
	} else {
		said(all[i].at, "worker status said so")
	}
}

func (s *scene) checkDoctor(said func(time.Time, string)) {
	w := s.fault.want
	within, _ := w.bounds()
	all := s.while(doctor, "")
	for _, want := range w.doctor {
		i := slices.IndexFunc(all, func(x saying) bool {
			return slices.ContainsFunc(x.findings, func(f finding) bool { return f.Check == want && f.Grade != "unknown" })
		})
		if i < 0 {
			s.complain("worker doctor has not found fault with %q", want)
		} else {
			said(all[i].at, "worker doctor found fault with "+want)
		}
	}
	held := s.held(doctor, "", within)
	if len(held) == 0 && w.exit != 0 {
		s.complain("worker doctor has not exited with %d", w.exit)
	}
	for _, x := range held {
		if x.code != w.exit {
			s.complain("%v after the beginning, worker doctor still or again exited with %d, not %d: %s", x.at.Sub(s.began).Round(time.Second), x.code, w.exit, x.text)
		}
	}
	for _, x := range all {
		for _, f := range x.findings {
			if w.never != "" && strings.Contains(f.Cure, w.never) {
				s.complain("worker doctor advises what does harm: %s: %s", f.Check, f.Cure)
			}
		}
	}
}

// checkPage finds fault with a page that does not say what is wrong, or says that something is.
func (s *scene) checkPage(said func(time.Time, string)) {
	want := s.fault.want.page
	var first time.Time
	shown := s.fault.replicas == 1 && len(s.while(marked, "")) == 0 // as before the fault
	for _, r := range s.replicas {
		for _, what := range []string{overview, trouble, marked} {
			all := s.while(what, r.name)
			if want == "" && what == overview {
				if _, ended := s.unwell(what, r.name); ended && all[len(all)-1].text != answer(0) {
					s.complain("the page of %s has a note: %s", r.name, all[len(all)-1].text)
				}
			}
			for i, x := range all {
				if want == "" || !strings.Contains(x.text, want) {
					continue
				}
				if first.IsZero() || x.at.Before(first) {
					first = x.at
				}
				shown = shown || i == len(all)-1
			}
		}
	}
	switch {
	case want == "":
	case first.IsZero() && !shown:
		s.complain("no page has said %q", want)
	case !shown:
		s.complain("no page said %q any more in the end", want)
	case !first.IsZero():
		said(first, "a page said so")
	}
}
