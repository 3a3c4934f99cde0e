package gameday

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/test/promtest"
)

var (
	full   = flag.Bool("gameday.full", false, "inject all faults, for as long as their alerts need: half an hour")
	on     = flag.String("gameday.on", dbserver.MariaDB, "the kind of database: mariadb, or mysql, where disk-full is left out")
	write  = flag.String("gameday.write", "", "the document that gets the tables between its marks")
	detail = flag.String("gameday.detail", "", "a folder for all that was said of each fault, in order")
)

const rules = "../../deploy/prometheus/cronlease.rules.yml"

// The faults one by one, each with a group of its own, some of them side by side.
func TestGameday(t *testing.T) {
	t.Parallel()
	if !*full {
		return
	}
	prometheus, folder := newPrometheus(t)
	var mu sync.Mutex
	all := map[string]*result{}
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults() {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, f)
				r := s.play(prometheus, folder)
				if t.Failed() {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				all[f.name] = r
			})
		}
	})
	fmt.Print(report(all, ""))
	if *write != "" {
		_, before, _ := between(t, *write, beginMark)
		replaceIn(t, *write, beginMark, report(all, before))
	}
}

// A short one: the database is read-only until worker doctor has said so.
func TestShortFault(t *testing.T) {
	t.Parallel()
	prometheus, folder := newPrometheus(t)
	s := newScene(t, fault{name: "short"})
	s.scrape(folder)
	s.observe(prometheus)
	s.settle(prometheus)
	s.begin()
	s.exec("SET GLOBAL read_only = ON")
	s.wait("worker doctor finds fault with the server", func() bool {
		s.ended = time.Now()
		_, checks := s.findings()
		return strings.Contains(checks, " server;")
	})
	s.exec("SET GLOBAL read_only = OFF")
	s.wait("all is well again, and a tick runs", func() bool { return s.watch.allWell(len(s.replicas)) && !s.target.after(s.ended).IsZero() })
	for _, r := range s.replicas {
		r.terminate()
	}
	t.Log(s.count(), s.logLines())
}

// newPrometheus starts a Prometheus with the rules as they are delivered. It watches the folder for replicas.
func newPrometheus(t *testing.T) (*promtest.Server, string) {
	t.Helper()
	folder := t.TempDir()
	path, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
		"rule_files": []string{path},
		"scrape_configs": []any{map[string]any{
			"job_name":        "replicas",
			"file_sd_configs": []any{map[string]any{"files": []string{filepath.Join(folder, "*.json")}, "refresh_interval": "5s"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return promtest.Start(t, string(config)), folder
}

// play injects the fault, ends it, and waits until all is well.
func (s *scene) play(prometheus *promtest.Server, folder string) *result {
	s.t.Helper()
	s.scrape(folder)
	s.observe(prometheus)
	s.settle(prometheus)
	if s.fault.before != nil {
		s.fault.before(s)
	}
	s.begin()
	end := s.fault.do(s)
	for time.Since(s.began) < s.fault.lasts && s.t.Context().Err() == nil {
		rest(s.t, time.Second)
	}
	s.ended = time.Now()
	end()
	s.recover()
	r := s.judge()
	if *detail != "" {
		file := filepath.Join(*detail, s.fault.name+".txt")
		if err := os.WriteFile(file, []byte(r.text+"\n"+s.watch.story(s.began)), 0o600); err != nil {
			s.t.Error(err)
		}
	}
	return r
}

// begin notes that the fault begins.
func (s *scene) begin() {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	s.began = time.Now()
	s.watch.faulty, s.at = s.began, s.victim
	if s.fault.at > 0 {
		s.at = s.follower()
	}
}

// wait waits until something is so.
func (s *scene) wait(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !is(); rest(s.t, 200*time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %v: %s\n%s", patience, what, s.watch.story(s.began))
		}
	}
}

// limit is within which time all has to be well after a fault: a login that was refused is repeated after some minutes at
// the most, and the alerts of heartbeats look back for five minutes.
const limit = 6 * time.Minute

// recover waits until all is well again.
func (s *scene) recover() {
	for deadline := s.ended.Add(limit); time.Now().Before(deadline) && s.t.Context().Err() == nil; rest(s.t, time.Second) {
		waits := time.Since(s.ended) < 30*time.Second || s.target.after(s.ended).IsZero() ||
			len(s.watch.unwell(healthz, readyz, apiStatus, overview, doctor, status)) > 0
		for _, a := range s.watch.unwell(alertOf) {
			waits = waits || !looksBack(a.where)
		}
		if !waits {
			return
		}
	}
}

// looksBack reports whether an alert goes on for long after its cause, because its rule looks back.
func looksBack(alert string) bool {
	switch alert {
	case "CronleaseTicksMissed", "CronleaseRunsInterrupted", "CronleaseNoticesLeftOut", "CronleaseTermsChange", "CronleaseHeartbeatErrors", "CronleaseSlowDatabase", "CronleaseTicksLate", "CronleaseLocksLost":
		return true
	}
	return false
}

const (
	wantMark  = "<!-- go test -C test ./gameday -run TestWants -args -gameday.write=FILE writes this -->\n"
	beginMark = "<!-- make gameday writes this -->\n"
	endMark   = "<!-- as far as here -->\n"
)

// replaceIn puts the text between the marks of a document.
func replaceIn(t *testing.T, file, begin, text string) {
	t.Helper()
	before, _, after := between(t, file, begin)
	if err := os.WriteFile(file, []byte(before+begin+"\n"+text+"\n"+endMark+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// between returns what is between the marks of a document, and around them.
func between(t *testing.T, file, begin string) (before, text, after string) {
	t.Helper()
	document, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(document), begin)
	text, after, ended := strings.Cut(rest, endMark)
	if !ok || !ended {
		t.Fatalf("%s has no marks for the tables", file)
	}
	return before, text, after
}
