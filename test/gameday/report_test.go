package gameday

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// result is what was found out about a fault.
type result struct {
	server string // which version
	text   string // in full
	during []string
	after  []string
}

// judge ends the group, reports what was said, and finds fault with what should have been said.
func (s *scene) judge() *result {
	w := s.watch
	end := s.ended
	doctorSaid, _ := s.findings()
	statusSaid := s.status()
	r := &result{
		server: s.server.Version(),
		during: []string{
			fmt.Sprintf("**%s** (%s)", s.fault.what, minutes(end.Sub(s.began))), or(strings.Join(s.alerts(), "<br>"), "none"), s.probes(),
			doctorSaid, statusSaid, s.page(), s.logLines(),
		},
	}
	again := []string{s.fault.what}
	if at := s.target.after(end); at.IsZero() {
		s.t.Error("no tick ran after the fault")
		again = append(again, "**never**")
	} else {
		gap := s.target.gap(s.began.Add(-10*time.Second), at)
		again = append(again, fmt.Sprintf("%s (the longest gap: %s)", seconds(at.Sub(end)), seconds(gap)))
	}
	for _, what := range []string{readyz, doctor, status, apiStatus} {
		again = append(again, s.again(what))
	}
	again = append(again, s.alertsOver())
	for _, x := range w.unwell(healthz, readyz, apiStatus, overview, doctor, status) {
		s.t.Errorf("%v after the fault %s (%s) is still not well", time.Since(end).Round(time.Second), x.what, x.where)
	}
	for _, replica := range s.replicas {
		replica.terminate()
	}
	if s.fault.want.restores {
		r.after = append(again, "not counted: its end was taken away")
	} else {
		r.after = append(again, s.count())
	}
	s.check(waits(s.t))
	s.checkFlood()
	r.text = strings.Join(r.during, "\n") + "\n" + strings.Join(r.after, "\n") + "\n"
	s.t.Log("\n" + r.text)
	if s.t.Failed() {
		s.t.Log("\n" + w.story(s.began))
	}
	return r
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func minutes(d time.Duration) string { return fmt.Sprintf("for %.0f min", d.Minutes()) }

func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func (s *scene) since(at time.Time) string { return seconds(at.Sub(s.began)) }

// alerts are those that fired, with how long it took.
func (s *scene) alerts() (texts []string) {
	fired := map[string]bool{}
	for _, x := range s.watch.since(s.began, alertOf, "") {
		if !x.well && !fired[x.where] {
			fired[x.where] = true
			after := s.since(x.at)
			if x.at.After(s.ended) {
				after = seconds(x.at.Sub(s.ended)) + " after its end"
			}
			texts = append(texts, fmt.Sprintf("`%s` %s", x.where, after))
		}
	}
	return texts
}

// probes says how the probes failed.
func (s *scene) probes() string {
	var texts []string
	for _, path := range []string{readyz, healthz} {
		bad, ill := map[string]time.Time{}, map[string]string{} // by replica, in the end
		var brief bool
		for _, x := range s.while(path, "") {
			switch {
			case !x.well && bad[x.where].IsZero():
				bad[x.where], ill[x.where] = x.at, x.brief
			case !x.well:
				ill[x.where] = x.brief
			case x.well && !bad[x.where].IsZero():
				brief = true
				delete(bad, x.where)
			}
		}
		by := map[string][]time.Time{}
		for name, at := range bad {
			by[ill[name]] = append(by[ill[name]], at)
		}
		for _, answer := range slices.Sorted(maps.Keys(by)) {
			last := slices.MaxFunc(by[answer], time.Time.Compare)
			texts = append(texts, fmt.Sprintf("`%s`: %s of %d of %d after %s", path, answer, len(by[answer]), len(s.replicas), s.since(last)))
		}
		if len(bad) == 0 {
			if brief {
				texts = append(texts, fmt.Sprintf("`%s`: 503 for a moment, then 200", path))
			} else {
				texts = append(texts, fmt.Sprintf("`%s`: 200", path))
			}
		}
	}
	return strings.Join(texts, "<br>")
}

// while returns what a source said while the fault lasted.
func (s *scene) while(what, where string) []saying {
	all := s.watch.since(s.began, what, where)
	return all[:slices.IndexFunc(append(all[:len(all):len(all)], saying{at: s.ended.Add(time.Hour)}), func(x saying) bool { return x.at.After(s.ended) })]
}

// findings are what worker doctor found, each with the time of the first time, and the names of the checks.
func (s *scene) findings() (text, checks string) {
	worst, at := 0, time.Time{}
	var texts []string
	for _, x := range s.while(doctor, "") {
		if x.code > worst {
			worst, at = x.code, x.at
		}
		for _, f := range x.findings {
			if name := " " + f.Check + ";"; f.Grade != "unknown" && !strings.Contains(checks, name) {
				checks += name
				texts = append(texts, fmt.Sprintf("%s **%s**: %s", s.since(x.at), f.Check, escape(cut(f.Text))))
			}
		}
	}
	if worst > 0 {
		texts = append(texts, fmt.Sprintf("exit code %d after %s", worst, s.since(at)))
	}
	return or(strings.Join(texts, "<br>"), "nothing"), checks
}

// status is what worker status said first of the fault.
func (s *scene) status() (text string) {
	for _, x := range s.while(status, "") {
		if (!x.well || strings.Contains(x.text, goneText)) && text == "" {
			text = s.since(x.at) + ": " + escape(cut(x.text))
		}
	}
	return or(text, "nothing")
}

// cut keeps a text short enough for a table.
func cut(text string) string {
	const most = 150
	if runes := []rune(text); len(runes) > most {
		return strings.TrimSpace(string(runes[:most])) + " ..."
	}
	return text
}

// page is what the page and its API said in the end, where the commands were called and elsewhere.
func (s *scene) page() string {
	var texts []string
	for _, what := range []string{overview, trouble, marked} {
		for _, r := range s.replicas {
			var last *saying
			for _, x := range s.while(what, r.name) {
				if !x.well && (last == nil || last.well) {
					last = &x
				} else if x.well && what == overview {
					last = nil
				} else if !x.well && last != nil {
					last.text = x.text
				}
			}
			if last == nil || last.well {
				continue
			}
			if want := s.fault.want.page; what == marked && (want == "" || !strings.Contains(last.text, want)) {
				continue // it follows from the notes
			}
			text := escape(cut(strings.TrimPrefix(last.text, "200: ")))
			if !slices.ContainsFunc(texts, func(t string) bool { return strings.HasSuffix(t, ": "+text) }) {
				texts = append(texts, s.since(last.at)+": "+text)
			}
		}
	}
	return or(strings.Join(texts, "<br>"), "nothing")
}

// logLines are the messages at warn and above, with how many of each there were.
func (s *scene) logLines() string {
	type message struct {
		first time.Time
		n     int
	}
	found := map[string]*message{}
	var order []string
	for _, l := range s.watch.warnings(s.began, s.ended) {
		m := found[l.Msg]
		if m == nil {
			m = &message{first: l.at}
			found[l.Msg] = m
			order = append(order, l.Msg)
		}
		m.n++
	}
	var texts []string
	for _, msg := range order {
		m := found[msg]
		text, _, _ := strings.Cut(msg, ": ")
		texts = append(texts, fmt.Sprintf("%s: %d × %s", s.since(m.first), m.n, escape(text)))
	}
	return or(strings.Join(texts, "<br>"), "nothing")
}

// checkFlood finds fault with a log of which a replica writes too much.
func (s *scene) checkFlood() {
	const most = 30
	perMinute := map[string]int{}
	for _, l := range s.watch.warnings(s.began, time.Now()) {
		key := fmt.Sprint(l.replica, " in minute ", int(l.at.Sub(s.began).Minutes()))
		perMinute[key]++
		if perMinute[key] == most+1 {
			s.t.Errorf("more than %d lines at warn and above of replica %s", most, key)
		}
	}
}

// again is how long after the fault a source said that all is well, and went on saying so.
func (s *scene) again(what string) string {
	var last time.Time
	for _, where := range s.watch.places(what) {
		all := s.watch.since(s.ended, what, where)
		if n := len(all); n > 0 && all[n-1].well {
			if all[n-1].at.After(last) {
				last = all[n-1].at
			}
		}
	}
	for _, x := range s.watch.unwell(what) {
		return fmt.Sprintf("**not within %s** %s", seconds(time.Since(s.ended)), x.where)
	}
	if last.IsZero() {
		return "–"
	}
	return seconds(last.Sub(s.ended))
}

// alertsOver says when the alerts ended.
func (s *scene) alertsOver() string {
	var texts []string
	for _, name := range s.watch.places(alertOf) {
		all := s.watch.since(s.ended, alertOf, name)
		switch n := len(all); {
		case n > 0 && all[n-1].well:
			texts = append(texts, fmt.Sprintf("`%s` %s", name, seconds(all[n-1].at.Sub(s.ended))))
		case slices.Contains(s.watch.unwell(alertOf), source{alertOf, name}):
			texts = append(texts, fmt.Sprintf("`%s` not within %s", name, seconds(time.Since(s.ended))))
			if !looksBack(name) {
				s.t.Errorf("%s still fires", name)
			}
		}
	}
	return or(strings.Join(texts, "<br>"), "–")
}

// place is what differs by machine.
var place = regexp.MustCompile(`/\S+/[abc]\.yaml\b|\bworker/[^/ ]+/|\bv0\.0\.0-[^ ;)]+`)

// escape lets a text stand in a cell of a table.
func escape(text string) string {
	text = place.ReplaceAllStringFunc(text, func(s string) string {
		switch s[0] {
		case '/':
			return "worker.yaml"
		case 'v':
			return "devel"
		}
		return "worker/host/"
	})
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}

// version is what a server program says, but for its path and system.
var version = regexp.MustCompile(`[0-9]+\.[0-9.]+(-MariaDB)?`)

// rows are how the rows of a fault begin in the two tables.
func (f fault) rows() (during, after string) { return "| **" + f.what + "** (", "| " + f.what + " | " }

// lineOf is the line of a text that begins so, with its end; empty: there is none.
func lineOf(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}

// report is the tables in Markdown, of the faults that there are results of, or rows in the report before.
func report(all map[string]*result, before string) string {
	var during, after strings.Builder
	during.WriteString("| fault | alerts | probes | `worker doctor` | `worker status` | page | log, at `warn` and above |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	after.WriteString("| after the end of the fault | a tick runs | `/readyz` | `worker doctor` | `worker status` | page | alerts | ticks of the job `tick` in the ledger |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	server := version.FindString(lineOf(before, from))
	for _, f := range faults() {
		if r := all[f.name]; r != nil {
			server = version.FindString(r.server)
			during.WriteString("| " + strings.Join(r.during, " | ") + " |\n")
			after.WriteString("| " + strings.Join(r.after, " | ") + " |\n")
			continue
		}
		d, a := f.rows()
		during.WriteString(lineOf(before, d))
		after.WriteString(lineOf(before, a))
	}
	return fmt.Sprintf("%s, on %d processors that several groups share, with %s:\n\n", from, runtime.NumCPU(), server) + during.String() + "\n" + after.String()
}

const from = "Each row is from the newest run of its fault"
