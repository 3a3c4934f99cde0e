package gameday

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What contradicts the table is found.
func TestCheck(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(second int, what, where string, code int, text string) saying {
		s := saying{at: began.Add(time.Duration(second) * time.Second), source: source{what, where}, well: code == 0, code: code, text: text}
		if what == doctor && text != "" {
			s.findings = []finding{{Check: text, Grade: "problem"}}
		}
		return s
	}
	fails := want{alerts: []string{"CronleaseNoLeader"}, notReady: 1, status: []int{3}, doctor: []string{"server"}, exit: 5, page: "No replica leads"}
	failed := []saying{
		at(10, readyz, "a", 503, ""), at(14, status, "", 3, ""), at(6, doctor, "", 5, "server"), at(4, overview, "b", 200, "No replica leads."),
		at(130, alertOf, "CronleaseNoLeader", 1, ""), at(181, readyz, "a", 0, ""), at(182, status, "", 0, ""), at(183, doctor, "", 0, ""), at(184, overview, "b", 0, ""),
	}
	dies := want{notReady: 1, silent: 1, says: "gone", doctor: []string{"replicas"}}
	died := []saying{at(1, readyz, "a", 1, ""), at(1, healthz, "a", 1, ""), at(1, overview, "a", 1, "no answer"), at(3, status, "", 0, "gone: a"), at(5, doctor, "", 0, "replicas")}
	back := want{silent: 1, back: true, status: []int{0, 3}}
	restarted := []saying{at(1, healthz, "a", 1, ""), at(2, healthz, "a", 0, ""), at(12, status, "", 3, ""), at(17, status, "", 0, "")}
	for _, c := range []struct {
		name  string
		want  want
		said  []saying
		left  string // what is left out: sayings of this source
		more  []saying
		finds string
	}{
		{"all is said", fails, failed, "", nil, ""},
		{"no alert", fails, failed, alertOf, nil, "alert CronleaseNoLeader has not fired"},
		{"a late alert", fails, failed, alertOf, []saying{at(179, alertOf, "CronleaseNoLeader", 1, "")}, "alert CronleaseNoLeader fired only after"},
		{"an alert after the end", fails, failed, alertOf, []saying{at(185, alertOf, "CronleaseNoLeader", 1, "")}, "alert CronleaseNoLeader has not fired"},
		{"ready", fails, failed, readyz, nil, "0 replicas were not ready"},
		{"ready in the end", fails, failed, "", []saying{at(170, readyz, "a", 0, "")}, "0 replicas were not ready"},
		{"ready for too long", fails, failed, readyz, []saying{at(50, readyz, "a", 503, "")}, "a was not ready only after"},
		{"two are not ready", fails, failed, "", []saying{at(15, readyz, "b", 503, "")}, "2 replicas were not ready"},
		{"stuck", fails, failed, "", []saying{at(15, healthz, "b", 503, ""), at(16, healthz, "b", 0, "")}, "/healthz asked to restart 1"},
		{"no status", fails, failed, status, nil, "worker status has not exited with [3]"},
		{"a late status", fails, failed, status, []saying{at(50, status, "", 3, "")}, "worker status exited as it should only after"},
		{"a status that passes", fails, failed, "", []saying{at(100, status, "", 0, "")}, "worker status still or again exited with 0"},
		{"no doctor", fails, failed, doctor, nil, "worker doctor has not exited with 5"},
		{"another doctor", fails, failed, doctor, []saying{at(5, doctor, "", 5, "leader")}, `has not found fault with "server"`},
		{"a late doctor", fails, failed, doctor, []saying{at(50, doctor, "", 5, "server")}, "worker doctor found fault with server only after"},
		{"a doctor that is content", fails, failed, "", []saying{at(100, doctor, "", 0, "")}, "worker doctor still or again exited with 0, not 5"},
		{"no page", fails, failed, overview, nil, "no page has said"},
		{"a late page", fails, failed, overview, []saying{at(50, overview, "b", 200, "No replica leads.")}, "a page said so only after"},
		{"a page that is content", fails, failed, "", []saying{at(100, overview, "b", 0, "")}, "no page said"},
		{"well again late", fails, failed, "", []saying{at(200, readyz, "a", 503, ""), at(230, readyz, "a", 0, "")}, "/readyz (a) was well again after 50s"},
		{"a dead follower", dies, died, "", nil, ""},
		{"a dead follower that status counts", dies, died, status, nil, `worker status has not said "gone"`},
		{"a dead follower, and status fails", dies, died, "", []saying{at(20, status, "", 3, "gone"), at(25, status, "", 0, "gone")}, "worker status exited with 3"},
		{"a dead follower, and doctor fails", dies, died, "", []saying{at(60, doctor, "", 5, "replicas")}, "worker doctor still or again exited with 5, not 0"},
		{"a dead follower, and a note", dies, died, "", []saying{at(60, overview, "b", 200, "200: a note")}, "the page of b has a note"},
		{"a restart", back, restarted, "", nil, ""},
		{"a restart that lasts", back, restarted, "", []saying{at(100, healthz, "a", 1, "")}, "had started again did not answer"},
		{"a restart, and nobody leads for long", back, restarted, "", []saying{at(60, status, "", 3, "")}, "worker status still or again exited with 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said := slices.DeleteFunc(slices.Clone(c.said), func(x saying) bool { return x.what == c.left })
			said = append(said, c.more...)
			slices.SortStableFunc(said, func(a, b saying) int { return a.at.Compare(b.at) })
			var found []string
			s := &scene{
				t: t, fault: fault{lasts: brief, want: c.want}, began: began, ended: began.Add(brief), watch: told(said),
				replicas: []*replica{{name: "a"}, {name: "b"}},
				complain: func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) },
			}
			s.check(waits(t))
			if text := strings.Join(found, "\n"); !strings.Contains(text, c.finds) || c.finds == "" && text != "" {
				t.Errorf("found %q, want %q", text, c.finds)
			}
		})
	}
}

// told is a watch that was told all that.
func told(said []saying) *watch {
	w := &watch{said: said, last: map[source]saying{}}
	for _, x := range said {
		w.last[x.source] = x
	}
	return w
}
