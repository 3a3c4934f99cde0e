package deploy

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/workertest"
)

var (
	length = flag.Duration("deploy.for", 14*time.Second, "how long they go on")
	times  = flag.Int("deploy.times", 2, "how many deployments there are")
	mode   = flag.String("deploy.mode", "", "spread, to have runs spread over the workers, or leader; empty: by chance, and both if there are many deployments")
	on     = flag.String("deploy.on", "", "the kinds of database, such as redis,zookeeper, or all; empty: all but one of these two")
)

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

const (
	workers = 3
	loads   = 40 // jobs with a tick each second
	fills   = 10 // ticks of a backfill
	drain   = 20 * time.Second
)

// service is one that is deployed over and over.
type service struct {
	*workertest.Cluster
	t       *testing.T
	url     string
	target  *target
	folder  string
	spread  bool   // runs are spread over the workers
	config  string // of the newest version
	running []*workertest.Worker
}

// kinds are the databases on which the service is deployed, with what returns the URL of one.
func kinds(t *testing.T) map[string]func(*testing.T) string {
	t.Helper()
	all := map[string]func(*testing.T) string{"redis": workertest.StartRedis, "zookeeper": workertest.StartZooKeeper}
	wanted := strings.Split(*on, ",")
	if slices.ContainsFunc(wanted, func(kind string) bool { return all[kind] == nil }) {
		for _, kind := range dbtest.Dialects(t) {
			all[kind] = func(t *testing.T) string { return workertest.URL(t, dbtest.Fresh(t, kind)) }
		}
	}
	switch *on {
	case "all":
	case "":
		delete(all, []string{"redis", "zookeeper"}[rand.IntN(2)])
	default:
		maps.DeleteFunc(all, func(kind string, _ func(*testing.T) string) bool { return !slices.Contains(wanted, kind) })
		if len(all) != len(wanted) {
			t.Fatalf("%q: not all of these kinds of database are there", *on)
		}
	}
	return all
}

// TestDeployments does rolling deployments, each of other jobs, under load. No run that fits into the drain is
// cancelled, no tick is doubled, and none of a job that catches up is lost.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for kind, start := range kinds(t) {
		for _, mode := range modes() {
			t.Run(kind+" "+mode, func(t *testing.T) {
				t.Parallel()
				deploy(t, kind, start(t), mode == "spread")
			})
		}
	}
}

func modes() []string {
	both := []string{"leader", "spread"}
	switch {
	case *mode != "":
		return []string{*mode}
	case *times > 2:
		return both
	}
	return both[rand.IntN(2):][:1]
}

func deploy(t *testing.T, kind, url string, spread bool) {
	s := &service{Cluster: workertest.New(t, kind, url), t: t, url: url, spread: spread, target: newTarget(t), folder: t.TempDir()}
	s.write(0)
	for range workers {
		s.running = append(s.running, s.StartAs(s.config))
	}
	s.Leader()
	began := time.Now()
	triggered := 0
	for i := range *times {
		<-time.After(time.Until(began.Add(*length * time.Duration(i+1) / time.Duration(*times+1))))
		s.command("pause", "paused")
		s.backfill(i)
		s.write(i + 1)
		for at := range s.running {
			s.replace(at)
			triggered++
			s.command("trigger", "manual", "--args", fmt.Sprintf(`{"n":%d}`, triggered))
		}
		s.command("resume", "paused")
		s.command("resign")
	}
	<-time.After(time.Until(began.Add(*length)))
	for end := time.Now().Add(workertest.Patience); s.target.count("filled") < fills**times && time.Now().Before(end); {
		<-time.After(100 * time.Millisecond)
	}
	ended := time.Now()
	s.TerminateAll()
	s.check(triggered, ended)
}

// write writes the configuration of a version: a job that changes its schedule each time, and one that only every
// other version has.
func (s *service) write(version int) {
	s.t.Helper()
	var jobs strings.Builder
	job := func(name, rest string) {
		fmt.Fprintf(&jobs, "  - name: %s\n    http: {url: %q, method: POST}\n%s", name, s.target.url+"/"+name, rest)
	}
	for i := range loads {
		job(fmt.Sprintf("load-%02d", i), "    every: 1s\n    misfire: all\n    overlap: allow\n")
	}
	job("long", "    every: 2s\n    overlap: allow\n    max_runs: 3\n")
	job("changing", fmt.Sprintf("    every: %ds\n    misfire: all\n", 1+version%2))
	if version%2 == 0 {
		job("at-times", "    every: 1s\n    misfire: all\n    overlap: allow\n")
	}
	job("paused", "    every: 1s\n    misfire: all\n")
	job("manual", "    manual: true\n")
	job("child", "    after: load-00\n")
	job("filled", "    every: 1h\n")
	s.config = filepath.Join(s.folder, fmt.Sprintf("version-%d.yaml", version))
	text := fmt.Sprintf("database: %q\ngroup: billing\nlease: {ttl: 5s, grace: 1s}\ndrain: %v\nspread: %v\njobs:\n%s", s.url, drain, s.spread, &jobs)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// backfill has ticks of that many days ago run, of a job that has none otherwise while the test goes on.
func (s *service) backfill(i int) {
	s.t.Helper()
	to := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -i)
	s.command("backfill", "filled", "--from", to.Add(-fills*time.Hour).Format(time.RFC3339), "--to", to.Format(time.RFC3339), "--every", "200ms")
}

func (s *service) command(name string, args ...string) {
	s.t.Helper()
	workertest.Run(s.t, append([]string{name, "--config", s.config}, args...)...)
}

// replace starts a worker of the newest version in the place of another one, as a rolling deployment does.
func (s *service) replace(at int) {
	s.t.Helper()
	next := s.StartAs(s.config)
	old := s.running[at]
	s.running[at] = next
	old.Terminate()
	if code := old.Wait(); code != 0 {
		s.t.Errorf("a worker that was replaced ended with %d", code)
	}
}

// check accounts for what the workers did.
func (s *service) check(triggered int, ended time.Time) {
	s.t.Helper()
	t, r := s.t, s.target
	if len(r.cut) > 0 {
		t.Errorf("%d of %d long runs were cut off: %v", len(r.cut), r.done+len(r.cut), r.cut)
	}
	total := 0
	for job, ticks := range r.calls {
		for tick, n := range ticks {
			total += n
			if n > 1 {
				t.Errorf("%s ran %d times for %s", job, n, tick)
			}
		}
	}
	catching := []string{"at-times"}
	for i := range loads {
		catching = append(catching, fmt.Sprintf("load-%02d", i))
	}
	for _, job := range catching {
		ticks := r.ticks(t, job)
		var first, last time.Time
		for tick := range ticks {
			if first.IsZero() || tick.Before(first) {
				first = tick
			}
			if tick.After(last) {
				last = tick
			}
		}
		if want := int(last.Sub(first)/time.Second) + 1; len(ticks) != want || len(ticks) < 5 {
			t.Errorf("%s: %d ticks from %v to %v, want %d", job, len(ticks), first, last, want)
		}
	}
	for n := range triggered {
		if got := r.args[fmt.Sprintf(`{"n":%d}`, n+1)]; got != 1 {
			t.Errorf("trigger %d ran %d times", n+1, got)
		}
	}
	if got := len(r.calls["filled"]); got < fills**times || got > fills**times+2 { // and perhaps a tick of its own
		t.Errorf("the backfills ran %d ticks, want %d", got, fills**times)
	}
	for tick := range r.ticks(t, "load-00") {
		if ended.Sub(tick) < 5*time.Second {
			continue // it may be left to a next worker
		}
		children := 0
		for text := range r.calls["child"] {
			at, _, _ := strings.Cut(text, "#")
			if at == tick.Format(time.RFC3339Nano) {
				children++
			}
		}
		if children != 1 {
			t.Errorf("the tick %v of load-00 was followed %d times", tick, children)
		}
	}
	for _, job := range []string{"changing", "paused"} {
		if len(r.ticks(t, job)) < 3 {
			t.Errorf("%s has run for %d ticks", job, len(r.ticks(t, job)))
		}
	}
	t.Logf("%d deployments: %d runs, %d of them long, %d triggered; %d ticks began later than a second, the latest after %v",
		*times, total, r.done, triggered, r.late, r.latest.Round(time.Millisecond))
}
