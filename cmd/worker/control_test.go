package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// decode reads a command's JSON, which must succeed.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(r.stdout), &value); err != nil || r.err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return value
}

func jobNamed(t *testing.T, path, name string) jobStatus {
	t.Helper()
	for _, s := range decode[[]jobStatus](t, command(t, "jobs", "--json", "--config", path)) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no job %s", name)
	return jobStatus{}
}

// over waits for the end of a run and returns its record.
func over(t *testing.T, path string, r runRecord) jobs.Record {
	t.Helper()
	where, err := config.ParseDatabase("sqlite:"+filepath.Join(filepath.Dir(path), "lease.db"), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDatabase(where)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	record, err := awaitRun(ctx, jobs.NewGroup(db, "billing"), jobs.Key{Job: r.Job, Tick: r.Tick.Time, Trigger: r.Trigger}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func about(job, message string) func(line map[string]any) bool {
	return func(line map[string]any) bool { return line["msg"] == message && line["job"] == job }
}

// unreachable is a database that does not answer for a while.
type unreachable struct {
	store.Jobs
	until time.Time
}

func (u *unreachable) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	if time.Now().Before(u.until) {
		return jobs.Snapshot{}, errors.New("connection refused")
	}
	return u.Jobs.Load(ctx, group)
}

// A run that is waited for goes on while the database is away: that is told once, and counts as a failure of its own only after long.
func TestAwaitRunWithoutDatabase(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{time.Minute, 10 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := memdb.New()
				s, err := scheduler.New(db, "g", scheduler.WithLogger(zap.NewNop()))
				if err == nil {
					err = s.Add(jobs.Job{Name: "a", Schedule: jobs.Manual(), Do: func(context.Context, jobs.Run) error { <-time.After(30 * time.Second); return nil }})
				}
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() { _ = s.Run(ctx) }()
				<-time.After(time.Second)
				u := &unreachable{Jobs: db, until: time.Now().Add(away)}
				group := jobs.NewGroup(u, "g")
				key, err := group.Trigger(ctx, "a")
				if err != nil {
					t.Fatal(err)
				}
				var told []string
				record, err := awaitRun(ctx, group, key, func(text string) { told = append(told, text) })
				if len(told) != 1 || !strings.Contains(told[0], "trying again: connection refused") {
					t.Errorf("told %q", told)
				}
				if away == time.Minute && (err != nil || record.State != jobs.Succeeded) {
					t.Errorf("%+v, %v", record, err)
				}
				if away > time.Minute && (err == nil || !strings.Contains(err.Error(), "a was triggered, with the tick 2000-")) {
					t.Errorf("%v", err)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	path := configure(t, `
  - {name: quick, manual: true, exec: ["true"]}
  - {name: fails, manual: true, exec: [sh, -c, 'echo broken; exit 3']}
  - {name: long, manual: true, exec: [sleep, "600"]}
  - {name: tick, every: 1s, exec: ["true"]}
  - {name: nightly, cron: "0 0 2 * * *", zone: Europe/Berlin, exec: ["true"]}
`)
	w := startWorker(t, "run", "--config", path)
	w.await("a tick", about("tick", "run succeeded"))

	r := command(t, "trigger", "quick", "--wait", "--config", path)
	if r.err != nil || r.stdout != "quick: succeeded\n" {
		t.Errorf("got %+v", r)
	}
	r = command(t, "trigger", "fails", "--wait", "--json", "--config", path)
	if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "fails: failed: exit status 3") {
		t.Errorf("got %+v", r)
	}
	r.err = nil
	if failed := decode[runRecord](t, r); failed.State != "failed" || failed.Attempt != 1 || failed.Trigger == 0 || failed.TookSeconds == nil || !strings.Contains(failed.Error, "broken") {
		t.Errorf("got %+v", failed)
	}

	triggered := decode[runRecord](t, command(t, "trigger", "long", "--json", "--config", path))
	if triggered.State != "waiting" || triggered.Job != "long" || triggered.Started != nil {
		t.Errorf("got %+v", triggered)
	}
	w.await("the run", about("long", "run started"))
	if s := jobNamed(t, path, "long"); s.Running != 1 || s.Schedule != "manual" || s.Next != nil || s.Last != nil || !s.Known {
		t.Errorf("got %+v", s)
	}
	r = command(t, "cancel", "long", "--config", path)
	if r.err != nil || !strings.HasSuffix(r.stdout, " is asked to stop\n") {
		t.Errorf("got %+v", r)
	}
	if record := over(t, path, triggered); record.State != jobs.Cancelled || record.Attempt != 1 {
		t.Errorf("got %+v", record)
	}
	if s := jobNamed(t, path, "long"); s.Running != 0 || s.Last == nil || s.Last.State != "cancelled" {
		t.Errorf("got %+v", s)
	}
	again := decode[runRecord](t, command(t, "trigger", "long", "--json", "--config", path))
	asked := decode[runRecord](t, command(t, "cancel", "long", "--json", "--tick", again.Tick.Format(time.RFC3339Nano), "--config", path))
	if !asked.CancelAsked || !asked.Tick.Equal(again.Tick.Time) {
		t.Errorf("got %+v", asked)
	}
	if record := over(t, path, again); record.State != jobs.Cancelled && record.State != jobs.Skipped {
		t.Errorf("got %+v", record)
	}

	r = command(t, "pause", "tick", "--json", "--config", path)
	if r.err != nil || r.stdout != `{"group":"billing","job":"tick","paused":true}`+"\n" {
		t.Errorf("got %+v", r)
	}
	if s := jobNamed(t, path, "tick"); !s.Paused || s.GroupPaused || s.Next == nil || s.Last == nil {
		t.Errorf("got %+v", s)
	}
	// A tick that was due as the pause began, and that had not been claimed, waits for the end of the pause, and those after it
	// do so too. So the pause covers one more tick before it ends.
	<-time.After(1100 * time.Millisecond)
	if r := command(t, "resume", "tick", "--config", path); r.err != nil || r.stdout != "tick: resumed\n" {
		t.Errorf("got %+v", r)
	}
	w.await("a tick that is skipped", about("tick", "ticks skipped"))
	if r := command(t, "pause", "--config", path); r.err != nil || r.stdout != "the whole group billing: paused\n" {
		t.Errorf("got %+v", r)
	}
	if s := jobNamed(t, path, "nightly"); s.Paused || !s.GroupPaused {
		t.Errorf("got %+v", s)
	}
	if r := command(t, "resume", "--json", "--config", path); r.err != nil || r.stdout != `{"group":"billing","job":"","paused":false}`+"\n" {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "resume", "--skip-missed", "--config", path); r.err != nil || r.stdout != "the whole group billing: resumed\n" {
		t.Errorf("got %+v", r)
	}
	decode[runRecord](t, command(t, "trigger", "quick", "--wait", "--json", "--config", path))

	// Without the file, as an embedder has none.
	database := []string{"--database", "sqlite:" + filepath.Join(filepath.Dir(path), "lease.db"), "--group", "billing"}
	list := decode[[]jobStatus](t, command(t, append([]string{"jobs", "--json"}, database...)...))
	if len(list) != 5 || list[2].Name != "nightly" || list[2].Next == nil || list[2].Next.Before(time.Now()) || list[2].Next.Minute() != 0 {
		t.Errorf("got %+v", list)
	}
	r = command(t, append([]string{"jobs"}, database...)...)
	if r.err != nil || !strings.HasPrefix(r.stdout, "JOB ") || !strings.Contains(r.stdout, `nightly  cron "0 0 2 * * *" in Europe/Berlin, auto, dst once  no `) {
		t.Errorf("got %+v", r)
	}

	all := decode[[]runRecord](t, command(t, "runs", "--job", "quick", "--since", "1h", "--json", "--config", path))
	if len(all) != 2 || all[0].Tick.Before(all[1].Tick.Time) || all[0].State != "succeeded" || all[0].Owner == "" || all[0].Token == 0 {
		t.Errorf("got %+v", all)
	}
	for args, want := range map[string]int{
		"--status failed": 1, "--status timed_out": 0, "--job long": 2, "--job nightly": 0, "--since 2100-01-01T00:00:00Z": 0, "--limit 1": 1,
		"--status failed --job quick": 0, "--since 7d --status failed --job fails": 1,
	} {
		got := decode[[]runRecord](t, command(t, append([]string{"runs", "--json", "--config", path}, strings.Fields(args)...)...))
		if len(got) != want || got == nil {
			t.Errorf("%s: got %+v, want %d", args, got, want)
		}
	}
	r = command(t, "runs", "--job", "fails", "--config", path)
	if lines := strings.Split(r.stdout, "\n"); r.err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "TICK ") || !strings.Contains(lines[1], " (triggered)  fails  failed ") ||
		!strings.HasSuffix(lines[1], "  exit status 3; its last output: broken") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "runs", "--job", "nightly", "--config", path); r.err != nil || r.stdout != "no runs\n" {
		t.Errorf("got %+v", r)
	}

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"trigger, fails": {[]string{"trigger", "fails", "--wait"}, "fails: failed: exit status 3"},
		"trigger":        {[]string{"trigger", "quik"}, `"quik" in group "billing": did you mean quick?`},
		"pause":          {[]string{"pause", "nightli"}, `"nightli" in group "billing": did you mean nightly?`},
		"resume":         {[]string{"resume", "xyzzy"}, `"xyzzy" in group "billing": there are fails, long, nightly, quick, tick`},
		"cancel":         {[]string{"cancel", "lomg"}, `"lomg" in group "billing": did you mean long?`},
		"cancel, none":   {[]string{"cancel", "nightly"}, "nightly has none that is not over"},
		"cancel, tick":   {[]string{"cancel", "nightly", "--tick", "2001-01-01T00:00:00Z"}, "no such run"},
		"cancel, unfit":  {[]string{"cancel", "nigtly", "--tick", "2001-01-01T00:00:00Z"}, "did you mean nightly?"},
		"runs":           {[]string{"runs", "--job", "tik"}, `"tik" in group "billing": did you mean tick?`},
		"runs, no guess": {[]string{"runs", "--job", "xyzzy"}, `"xyzzy" in group "billing": there are fails, long, nightly, quick, tick`},
	} {
		r := command(t, append(test.args, "--config", path)...)
		if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), test.want) || r.stdout != "" {
			t.Errorf("%s: got %v and %+v, want %s", name, r.err, r, test.want)
		}
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if r := command(t, "trigger", "quick", "--config", path); r.err != nil || !strings.Contains(r.stdout, "nobody leads the group now") {
		t.Errorf("got %+v", r)
	}
	if s := jobNamed(t, path, "quick"); s.Waiting != 1 || s.Running != 0 {
		t.Errorf("got %+v", s)
	}
	r = command(t, "jobs", "--config", path)
	if !strings.Contains(r.stdout, "0, 1 waiting") {
		t.Errorf("got %+v", r)
	}
}

func TestControlBeforeAnyLeader(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: one, every: 1h, exec: [\"true\"]}\n  - {name: two, fixed_rate: 1h, exec: [\"true\"]}\n")
	if r := command(t, "migrate", "--config", path); r.err != nil {
		t.Fatal(r.err)
	}
	list := decode[[]jobStatus](t, command(t, "jobs", "--json", "--config", path))
	if len(list) != 2 || list[0].Known || list[0].Next == nil || list[1].Next != nil || list[1].Schedule != "fixed rate 1h0m0s, initial delay 0s" {
		t.Errorf("got %+v", list)
	}
	if r := command(t, "jobs", "--config", path); !strings.Contains(r.stdout, "never led") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "trigger", "one", "--config", path); exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), `no leader has had "one"`) {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "runs", "--job", "two", "--config", path); r.err != nil || r.stdout != "no runs\n" {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "runs", "--json", "--config", path); r.err != nil || r.stdout != "[]\n" {
		t.Errorf("got %+v", r)
	}
	database := []string{"--database", "sqlite:" + filepath.Join(filepath.Dir(path), "lease.db"), "--group", "other"}
	if r := command(t, append([]string{"jobs"}, database...)...); r.err != nil || r.stdout != "no jobs: none has ever been led\n" {
		t.Errorf("got %+v", r)
	}
	if r := command(t, append([]string{"jobs", "--json"}, database...)...); r.err != nil || r.stdout != "[]\n" {
		t.Errorf("got %+v", r)
	}
	if r := command(t, append([]string{"runs", "--job", "x"}, database...)...); exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "has ever been led") {
		t.Errorf("got %+v", r)
	}
}

// A job that the file does not have any more is shown as removed, and a trigger of
// it is refused at once: nothing would run it.
func TestRemovedJob(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: kept, manual: true, exec: [\"true\"]}\n  - {name: gone, every: 1s, exec: [\"true\"]}\n")
	w := startWorker(t, "run", "--config", path)
	w.await("a tick", about("gone", "run succeeded"))
	if w.stop() != 0 {
		t.Error("not stopped cleanly")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "gone", "new", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := jobNamed(t, path, "gone"); !s.Removed || !s.Known || s.Next != nil || s.Last == nil {
		t.Errorf("got %+v", s)
	}
	if s := jobNamed(t, path, "kept"); s.Removed {
		t.Errorf("got %+v", s)
	}
	if r := command(t, "jobs", "--config", path); r.err != nil || !strings.Contains(r.stdout, "  removed  ") {
		t.Errorf("got %+v", r)
	}
	for name, want := range map[string]string{
		"gone": `"gone" in group "billing": there are kept, new (the database knows it, ` + path + ` does not have it)`,
		"new":  `no leader has had "new" of group "billing" yet`,
		"xyz":  `"xyz" in group "billing": there are kept, new`,
	} {
		if r := command(t, "trigger", name, "--wait", "--config", path); exitCode(r.err) != 1 || !errors.Is(r.err, jobs.ErrNoJob) || !strings.Contains(r.err.Error(), want) {
			t.Errorf("got %+v, want %s", r, want)
		}
	}
	database := []string{"--database", "sqlite:" + filepath.Join(filepath.Dir(path), "lease.db"), "--group", "billing"}
	if r := command(t, append([]string{"trigger", "gone"}, database...)...); r.err != nil {
		t.Errorf("without a file: %+v", r)
	}
}

// A paused worker cannot stop its exec job: that has ended all the same when
// another one leads.
func TestPausedWorkerHasNoJob(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	fifo, path := filepath.Join(folder, "fifo"), filepath.Join(folder, "worker.yaml")
	if err := makeFifo(fifo); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("database: sqlite:%s\ngroup: billing\nlease: {ttl: 4s}\njobs:\n"+
		"  - {name: tick, every: 1s, exec: [\"true\"]}\n"+
		"  - name: long\n    manual: true\n    exec: [sh, -c, 'exec 9>\"$1\"; trap \"date +%%s%%N >&9; exit 0\" TERM; echo ready >&9; sleep 600 & while :; do wait; done', sh, %q]\n", filepath.Join(folder, "lease.db"), fifo)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startWorker(t, "run", "--config", path, "--label", "a")
	a.await("a tick", about("tick", "run succeeded"))
	b := startWorker(t, "run", "--config", path, "--label", "b", "--log-level", "debug")
	b.awaitMessage("following")
	run := decode[runRecord](t, command(t, "trigger", "long", "--json", "--config", path))
	pipe, err := os.Open(fifo) // waits for the job
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := pipe.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 1000)
	if n, err := pipe.Read(said); err != nil || string(said[:n]) != "ready\n" {
		t.Fatalf("%v: %q", err, said[:n])
	}

	pauseBetweenWrites(t, a, filepath.Join(folder, "lease.db"))
	n, err := pipe.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(string(said[:n])), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := pipe.Read(said); n != 0 {
		t.Errorf("the job goes on: %v %q", err, said[:n])
	}
	leading := b.awaitMessage("leading")
	text, _ = leading["ts"].(string)
	led, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatalf("%v: %v", err, leading)
	}
	if stopped := time.Unix(0, nanoseconds); stopped.After(led) {
		t.Errorf("the job was stopped %v after another worker leads", stopped.Sub(led))
	}
	if record := over(t, path, run); record.State != jobs.Interrupted {
		t.Errorf("got %+v", record)
	}
	if err := subprocess.Resume(a.cmd.Process); err != nil {
		t.Fatal(err)
	}
	a.await("the cancelled run", about("long", "run cancelled"))
	if a.stop() != 0 || b.stop() != 0 {
		t.Error("not stopped cleanly")
	}
}

// pauseBetweenWrites stops a worker with SIGSTOP, until that is not in the middle
// of a write: it would hold the SQLite file's only write lock, and no other worker
// could take over.
func pauseBetweenWrites(t *testing.T, w *worker, file string) {
	t.Helper()
	store, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for {
		if err := subprocess.Suspend(w.cmd.Process); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := store.Prepare(ctx, "probe", time.Second)
		cancel()
		if err == nil {
			return
		}
		if err := subprocess.Resume(w.cmd.Process); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	for _, s := range []jobs.Schedule{
		jobs.Every(5 * time.Minute), jobs.Every(1500 * time.Millisecond), jobs.At(time.Date(2027, 1, 1, 2, 3, 4, 5000, time.UTC)), jobs.Manual(),
		jobs.FixedRate(time.Minute), jobs.FixedRate(time.Hour).InitialDelay(time.Second), jobs.FixedDelay(90 * time.Second).InitialDelay(time.Minute),
		jobs.Cron("0 0 2 * * *"), jobs.Cron("0 0 2 ? * 6L 2027").Dialect(cron.Quartz).In("America/Argentina/Buenos_Aires").DST(cron.Native),
		jobs.Cron(`"\ ä`), jobs.Cron("-"), jobs.Cron("*/5 * * * *").Dialect(cron.Unix).In("Etc/GMT+5"),
	} {
		got, ok := jobs.ParseSchedule(s.String())
		if !ok || got.String() != s.String() {
			t.Errorf("%s: got %v", s, got)
			continue
		}
		known := jobs.Known{ScheduleSince: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
		if g, w := overdue.NextTick(got, known, known.ScheduleSince, false), overdue.NextTick(s, known, known.ScheduleSince, false); !g.Equal(w) {
			t.Errorf("%s: the next is %v, want %v", s, g, w)
		}
	}
	for _, text := range []string{"", "every", "every now and then", "every 5m", "at noon", "fixed rate 1m", "fixed delay x, initial delay y", "moon phase", `cron "x`, `cron "* * * * *" in UTC, lunar, dst once`} {
		if s, ok := jobs.ParseSchedule(text); ok {
			t.Errorf("%q: got %v", text, s)
		}
	}
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)
	since := now.Add(-24 * time.Hour)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		schedule jobs.Schedule
		known    jobs.Known
		open     []jobs.State
		want     string
	}{
		"every":          {jobs.Every(time.Minute), jobs.Known{Cursor: now.Add(-30 * time.Second)}, nil, at(30 * time.Second)},
		"every, overdue": {jobs.Every(time.Minute), jobs.Known{}, nil, "due"},
		"every, behind":  {jobs.Every(time.Minute), jobs.Known{Cursor: now.Add(-90 * time.Second)}, nil, "due"},
		"every, paused":  {jobs.Every(time.Minute), jobs.Known{Paused: true}, nil, at(30 * time.Second)},
		"claimed ahead":  {jobs.Every(time.Minute), jobs.Known{Cursor: now.Add(30 * time.Second)}, nil, at(90 * time.Second)},
		"at, done":       {jobs.At(since.Add(time.Hour)), jobs.Known{Cursor: since.Add(time.Hour)}, nil, "-"},
		"at, due":        {jobs.At(since.Add(time.Hour)), jobs.Known{}, nil, "due"},
		"at, before":     {jobs.At(since.Add(-time.Hour)), jobs.Known{}, nil, "-"},
		"rate":           {jobs.FixedRate(time.Hour).InitialDelay(time.Minute), jobs.Known{Cursor: now.Add(-59 * time.Minute)}, nil, at(time.Minute)},
		"rate, overdue":  {jobs.FixedRate(time.Hour).InitialDelay(time.Minute), jobs.Known{Cursor: since.Add(time.Minute)}, nil, "due"},
		"rate, first":    {jobs.FixedRate(48 * time.Hour), jobs.Known{}, nil, "due"},
		"delay":          {jobs.FixedDelay(time.Hour), jobs.Known{Finished: now.Add(-time.Minute), Cursor: now.Add(-time.Hour)}, nil, at(59 * time.Minute)},
		"delay, due":     {jobs.FixedDelay(time.Hour), jobs.Known{}, nil, "due"},
		"delay, running": {jobs.FixedDelay(time.Hour), jobs.Known{Cursor: now.Add(-time.Hour)}, []jobs.State{jobs.Running}, "-"},
		"manual":         {jobs.Manual(), jobs.Known{}, []jobs.State{jobs.Waiting, jobs.Waiting}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.known.Schedule, test.known.Since, test.known.ScheduleSince = test.schedule.String(), since, since
			snapshot := jobs.Snapshot{Now: now, Jobs: map[string]jobs.Known{"a": test.known, "b": {Schedule: "moon phase"}}}
			for i, state := range test.open {
				snapshot.Open = append(snapshot.Open, jobs.Record{Key: jobs.Key{Job: "a", Tick: now.Add(time.Duration(i))}, State: state})
			}
			list := listJobs(snapshot, map[string]jobs.Schedule{"a": jobs.Every(time.Hour)})
			if len(list) != 2 || list[0].next(now, nil, nil) != test.want || list[0].Running+list[0].Waiting != len(test.open) || list[1].Next != nil {
				t.Errorf("got %+v, next %s, want %s", list, list[0].next(now, nil, nil), test.want)
			}
		})
	}
}

func TestRunsTable(t *testing.T) {
	t.Parallel()
	tick := time.Date(2027, 1, 1, 2, 0, 0, 0, time.UTC)
	records := []jobs.Record{
		{Key: jobs.Key{Job: "a", Tick: tick}, State: jobs.TimedOut, Owner: "worker/host/12/abc", Token: 7, Attempt: 2, Started: tick.Add(time.Second), Finished: tick.Add(62500 * time.Millisecond),
			Missed: 12, Error: strings.Repeat("é", 150) + "\x1b"},
		{Key: jobs.Key{Job: "b", Tick: tick.Add(time.Millisecond), Trigger: 1}, State: jobs.Waiting, CancelAsked: true, Error: "one\ttwo"},
	}
	list := []runRecord{recordOf(records[0]), recordOf(records[1])}
	var out strings.Builder
	if err := printRuns(&out, list, nil, false); err != nil {
		t.Fatal(err)
	}
	want := "TICK                                  JOB  STATE                  ATTEMPT  OWNER           TOKEN  STARTED               TOOK    MISSED  ERROR\n" +
		"2027-01-01T02:00:00Z                  a    timed out              2        worker/host/12  7      2027-01-01T02:00:01Z  1m1.5s  12      " + strings.Repeat("é", 100) + "...\n" +
		"2027-01-01T02:00:00.001Z (triggered)  b    waiting, cancel asked  0        -               -      -                     -       -       one two\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if err := json.NewEncoder(&out).Encode(list[1:]); err != nil {
		t.Fatal(err)
	}
	const keys = `[{"job":"b","tick":"2027-01-01T02:00:00.001Z","trigger":1,"kind":"trigger","shard":0,"shards":0,"state":"waiting","attempt":0,"owner":"","token":0,"claimed":null,"due":null,"started":null,"finished":null,"took_seconds":null,"missed":0,"error":"one\ttwo","cancel_asked":true,"has_args":false}]` + "\n"
	if out.String() != keys {
		t.Errorf("got\n%s\nwant\n%s", &out, keys)
	}
}

// Two workers with different jobs: the commands say so, and a job is forgotten once no
// worker has it.
func TestForget(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: kept, manual: true, exec: [\"true\"]}\n  - {name: gone, every: 1s, exec: [\"true\"]}\n")
	first := startWorker(t, "run", "--config", path)
	first.await("a tick", about("gone", "run succeeded"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	without := path + ".without.yaml"
	if err := os.WriteFile(without, []byte(strings.Replace(string(text), "name: gone", "name: other", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	second := startWorker(t, "run", "--config", without)
	second.await("the difference", saying("the leader does not have some of this replica's jobs"))
	if r := command(t, "status", "--config", path); r.err != nil || !strings.Contains(r.stdout, "does not have: 1: other\n") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "jobs", "--config", path); r.err != nil || !strings.Contains(r.stdout, "  not led  ") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "forget", "gone", "--config", path); r.err == nil || !strings.Contains(r.err.Error(), "replicas have it: worker/") {
		t.Errorf("got %+v", r)
	}
	if first.stop() != 0 {
		t.Error("not stopped cleanly")
	}
	second.await("its term", saying("the ledger knows jobs that this program does not have"))
	if r := command(t, "jobs", "--config", path); r.err != nil || !strings.Contains(r.stdout, "  not declared  ") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "trigger", "gone", "--config", path); r.err == nil || !strings.Contains(r.err.Error(), "no replica has the job") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "forget", "gone", "--config", path); r.err != nil || r.stdout != "gone: forgotten\n" {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "forget", "gone", "--config", path); r.err == nil || !strings.Contains(r.err.Error(), "no such job") {
		t.Errorf("got %+v", r)
	}
}

func saying(text string) func(line map[string]any) bool {
	return func(line map[string]any) bool {
		message, _ := line["msg"].(string)
		return strings.Contains(message, text)
	}
}

// No command controls a job that runs everywhere, and each says why.
func TestControlOfEverywhere(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: here, every: 1m, everywhere: true, exec: [\"true\"]}\n")
	if r := command(t, "migrate", "--config", path); r.err != nil {
		t.Fatalf("got %+v", r)
	}
	for _, line := range [][]string{{"trigger", "here"}, {"pause", "here"}, {"resume", "here"}, {"cancel", "here"}, {"forget", "here"}, {"backfill", "here", "--from", "1h"}} {
		if r := command(t, append(line, "--config", path)...); r.err == nil || !strings.Contains(r.err.Error(), `"here" runs everywhere`) {
			t.Errorf("%s: got %+v", line[0], r)
		}
	}
}

// Shards are started by the runs of their job: that one is triggered and paused.
func TestControlOfShards(t *testing.T) {
	t.Parallel()
	path, s, h := ledIdle(t, "manual")
	if err := s.Declare(t.Context(), h, []store.Declared{{Name: "report/shards", Schedule: jobs.ShardsSchedule("report").String()}}); err != nil {
		t.Fatal(err)
	}
	database := []string{"--database", "sqlite:" + filepath.Join(filepath.Dir(path), "lease.db"), "--group", "billing"}
	for _, line := range [][]string{{"trigger", "report/shards"}, {"pause", "report/shards"}} {
		if r := command(t, append(line, database...)...); r.err == nil || !strings.Contains(r.err.Error(), `"report/shards" has the shards of job "report", which starts them: name that one`) {
			t.Errorf("%s: got %+v", line[0], r)
		}
	}
	if r := command(t, append([]string{"resume", "report/shards"}, database...)...); r.err != nil {
		t.Errorf("a pause of before: %+v", r)
	}
}
