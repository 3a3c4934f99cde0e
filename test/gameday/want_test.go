package gameday

import (
	"fmt"
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
	text := wants()
	if *write != "" {
		replaceIn(t, *write, wantMark, text)
		return
	}
	if _, is, _ := between(t, document, wantMark); strings.TrimSpace(is) != strings.TrimSpace(text) {
		t.Errorf("docs/operating.md lacks the table of faults as it is in the code: write it with\n%s", wantMark)
	}
}

// wants is the table of what has to be said, in Markdown.
func wants() string {
	var text strings.Builder
	text.WriteString("| fault | `/readyz` is not 200 | `/healthz` is not 200 | `worker status` exits with | `worker doctor` names | page | alerts | within | well again within |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range faults() {
		w := f.want
		within, again := w.bounds()
		of := 3
		if f.alone {
			of = 1
		}
		ready, silent := fmt.Sprintf("on %d of %d", w.notReady, of), "on none"
		if w.anyReady {
			ready = "on any"
		} else if w.notReady == 0 {
			ready = "on none"
		}
		if w.silent != 0 {
			silent = "no answer of the process that is gone or hangs"
		}
		var codes []string
		for _, code := range w.status {
			codes = append(codes, strconv.Itoa(code))
		}
		doctor := or(strings.Join(w.doctor, ", "), "–")
		if w.never != "" {
			doctor += ", and never advises `" + strings.Trim(w.never, "()") + "`"
		}
		fmt.Fprintf(&text, "| %s (`%s`) | %s | %s | %s | %s | %s | %s | %s | %s |\n", f.what, f.name, ready, silent, or(strings.Join(codes, " or "), "0"),
			doctor, or(w.page, "–"), or("`"+strings.Join(w.alerts, "`, `")+"`", "–"), whole(within), whole(again))
	}
	return strings.ReplaceAll(text.String(), "``", "–")
}

func whole(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// check finds fault with what was not said, or too late, and with what must not be said.
func (s *scene) check(fired map[string]bool, checks string, notReady int) {
	w := s.fault.want
	within, again := w.bounds()
	for _, alert := range w.alerts {
		if !fired[alert] {
			s.t.Errorf("the alert %s has not fired within %v", alert, s.fault.lasts)
		}
	}
	if notReady != w.notReady && !w.anyReady {
		s.t.Errorf("%d replicas were not ready in the end, not %d", notReady, w.notReady)
	}
	late := func(what string, at time.Time) {
		if took := at.Sub(s.began); took > within {
			s.t.Errorf("%s only after %v, not within %v", what, took.Round(time.Second), within)
		}
	}
	ill := 0
	for _, r := range s.replicas {
		if last := slices.Backward(s.while(readyz, r.name)); !w.anyReady {
			var since time.Time // of the stretch that lasts until the end
			for _, x := range last {
				if x.well {
					break
				}
				since = x.at
			}
			if !since.IsZero() {
				late(r.name+" was not ready", since)
			}
		}
		if slices.ContainsFunc(s.while(healthz, r.name), func(x saying) bool { return !x.well }) {
			ill++
		}
	}
	if w.silent >= 0 && ill > w.silent {
		s.t.Errorf("/healthz asked to restart %d replicas, or did not answer, and not %d", ill, w.silent)
	}
	s.checkStatus(late)
	s.checkDoctor(late, checks)
	if all := s.while(overview, ""); w.page != "" {
		if i := slices.IndexFunc(all, func(x saying) bool { return strings.Contains(x.text, w.page) }); i < 0 {
			s.t.Errorf("the page has not said %q", w.page)
		} else {
			late("the page said so", all[i].at)
		}
	}
	for _, what := range []string{healthz, readyz, doctor, status, apiStatus, overview} {
		for _, x := range s.watch.since(s.ended, what, "") {
			if took := x.at.Sub(s.ended); x.well && took > again {
				s.t.Errorf("%s (%s) was well again after %v only, not within %v", what, x.where, took.Round(time.Second), again)
			}
		}
	}
}

func (s *scene) checkStatus(late func(string, time.Time)) {
	codes := s.fault.want.status
	all := s.while(status, "")
	isWanted := func(x saying) bool { return slices.Contains(codes, x.code) }
	switch i := slices.IndexFunc(all, isWanted); {
	case len(codes) == 0 || slices.Contains(codes, 0):
		for _, x := range all {
			if !x.well && !isWanted(x) {
				s.t.Errorf("worker status exited with %d: %s", x.code, x.text)
			}
		}
	case i < 0:
		s.t.Errorf("worker status has not exited with %v", codes)
	default:
		late("worker status exited as it should", all[i].at)
	}
}

func (s *scene) checkDoctor(late func(string, time.Time), checks string) {
	w := s.fault.want
	for _, want := range w.doctor {
		if !strings.Contains(checks, " "+want+";") {
			s.t.Errorf("worker doctor has not found fault with %q: %q", want, checks)
		}
	}
	said := map[string]bool{}
	for _, x := range s.while(doctor, "") {
		for _, f := range x.findings {
			if slices.Contains(w.doctor, f.Check) && f.Grade != "unknown" && !said[f.Check] {
				said[f.Check] = true
				late("worker doctor found fault with "+f.Check, x.at)
			}
			if w.never != "" && strings.Contains(f.Cure, w.never) {
				s.t.Errorf("worker doctor advises what does harm: %s: %s", f.Check, f.Cure)
			}
		}
	}
}
