package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// treated is what worker doctor has printed.
type treated struct {
	t    *testing.T
	text string
	code int
}

func doctor(t *testing.T, args ...string) treated {
	t.Helper()
	r := command(t, append([]string{"doctor"}, args...)...)
	if r.err != nil && !errors.Is(r.err, errUnwell) {
		t.Fatalf("%v\n%s", r.err, r.stderr)
	}
	return treated{t, r.stdout, exitCode(r.err)}
}

// wants fails the test unless a line begins with the grade and the check, and has the
// texts.
func (d treated) wants(grade, check string, texts ...string) {
	d.t.Helper()
	for line := range strings.Lines(d.text) {
		rest, ok := strings.CutPrefix(strings.Join(strings.Fields(line), " "), grade+" "+check+" ")
		if ok && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(rest, text) }) {
			return
		}
	}
	d.t.Errorf("no %s of %s with %q in\n%s", grade, check, texts, d.text)
}

// enlist tells of a worker, and shows that it is there.
func enlist(t *testing.T, s *sqlitestore.Store, owner, version string, schedules map[string]string) {
	t.Helper()
	if p, ok := s.HandoverSignal("billing").(store.PresenceSignal); ok {
		_ = p.Announce(t.Context(), store.ReplicaToken(owner), "") // fails where it is shown already
		t.Cleanup(func() { _ = p.Close() })
	}
	list := map[string]jobs.ScheduleHash{}
	for name, schedule := range schedules {
		list[name] = jobs.HashSchedule(schedule)
	}
	if err := s.Enlist(t.Context(), "billing", jobs.Replica{Owner: owner, Version: version, List: jobs.FirstList, Jobs: list}); err != nil {
		t.Fatal(err)
	}
}

// A group without workers, and one without tables.
func TestDoctorBeforeTheFirstWorker(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	d := doctor(t, "--config", path)
	d.wants("problem", "file", "Cure: run Migrate")
	d.wants("unknown", "4 checks", "see file: commits, growth, disk, leader")
	if strings.Count(d.text, "\n") != 2 {
		t.Errorf("more than the fault, and what it keeps from being looked at:\n%s", d.text)
	}
	if d.code != 5 {
		t.Errorf("exit code %d", d.code)
	}
	if err := openStore(t, path).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = doctor(t, "--config", path)
	d.wants("problem", "leader", "nobody has ever led group billing", "start a worker")
	d.wants("problem", "replicas", "there are no workers")
}

// With two workers that do their work, all is well.
func TestDoctorWell(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	first := startWorker(t, "run", "--config", path)
	first.awaitMessage("run succeeded")
	second := startWorker(t, "run", "--config", path)
	second.awaitMessage("started")
	end := time.Now().Add(limit)
	for {
		d := doctor(t, "--config", path)
		if d.code == 0 && strings.Contains(d.text, "2 workers") {
			d.wants("ok", "leader", "leads since")
			d.wants("ok", "same jobs", "the leader plans the jobs of all workers")
			break
		}
		if time.Now().After(end) {
			t.Fatal(d.text)
		}
	}
	r := command(t, "doctor", "--json", "--config", path)
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	if err := decoder.Decode(&struct {
		Group    *string
		Grade    *string
		Findings *[]struct{ Check, Grade, Text, Cure *string }
	}{}); err != nil {
		t.Errorf("%v in %s", err, r.stdout)
	}
	// A worker that is killed does not count any more.
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for {
		if d := doctor(t, "--config", path); strings.Contains(d.text, "nobody takes over") {
			d.wants("warning", "replicas", "there is one worker", "the database does not see, or they cannot lead: ", "told of itself")
			break
		}
		if time.Since(killed) > limit {
			t.Fatal("a worker that was killed still counts")
		}
	}
	if r := command(t, "status", "--config", path); !strings.Contains(r.stdout, "workers    1: ") || !strings.Contains(r.stdout, "gone ") {
		t.Errorf("worker status counts a worker that was killed:\n%s", r.stdout)
	}
	if code := first.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	d := doctor(t, "--config", path)
	d.wants("problem", "leader", "released the lease")
}

// What is wrong with a group is said, each with its cure.
func TestDoctorOfAGroup(t *testing.T) {
	t.Parallel()
	path, s, h := led(t, 2*time.Minute)
	file := map[string]string{"tick": "every 1s", "slow": "fixed delay 1s, initial delay 0s"}
	enlist(t, s, h.Owner, "v1", map[string]string{"tick": "every 2s"})
	d := doctor(t, "--config", path)
	d.wants("problem", "overdue", `"tick" was due at`, "worker resign")
	d.wants("warning", "replicas", "there is one worker (1 of v1)", "second one")
	d.wants("warning", "same jobs", "jobs only in this one: 1 (slow), under another schedule: 1 (tick)", "worker reload")
	d.wants("ok", "never due")
	d.wants("ok", "paused")
	if d.code != 5 {
		t.Errorf("exit code %d", d.code)
	}

	enlist(t, s, "a/b/2/d", "v2", map[string]string{"tick": "every 1s", "\x1b[31mred": "every 1s"})
	d = doctor(t, "--config", path)
	d.wants("warning", "replicas", "1 of v1, 1 of v2", "finish the deployment")
	d.wants("warning", "same jobs", "do not run: 1: \"\\x1b[31mred\"", "groups of their own")
	d.wants("warning", "same jobs", "under another schedule than other workers: 1: tick")
	if strings.Contains(d.text, "\x1b") {
		t.Errorf("not escaped: %q", d.text)
	}
	execute(t, s, "UPDATE cronlease_replica SET since = since - 7200000000")
	doctor(t, "--config", path).wants("problem", "same jobs", "do not run: 1")
	execute(t, s, "DELETE FROM cronlease_replica")
	doctor(t, "--config", path).wants("unknown", "replicas", "older release")
	enlist(t, s, h.Owner, "v1", file)

	// A failed run, one of an earlier term, one that waits, and one in the future.
	now := time.Now().Truncate(time.Second).UTC()
	claim := func(tick time.Time, state jobs.State) jobs.Key {
		key := jobs.Key{Job: "tick", Tick: tick}
		if _, err := s.Claim(t.Context(), h, store.ClaimID{byte(tick.Unix()), byte(tick.Unix() >> 8), byte(state)}, []store.Claim{{Key: key, State: state}}); err != nil {
			t.Fatal(err)
		}
		return key
	}
	failed := claim(now.Add(-3*time.Second), jobs.Running)
	if _, err := s.Move(t.Context(), h, []store.Move{{Key: failed, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Failed, Error: "no"}}); err != nil {
		t.Fatal(err)
	}
	claim(now.Add(-2*time.Second), jobs.Waiting)
	claim(now.Add(3*time.Minute), jobs.Running)
	doctor(t, "--config", path).wants("warning", "future", "have run under a clock that was ahead, and that start none before: 1: tick", "wait")
	claim(now.Add(time.Hour), jobs.Running)
	execute(t, s, "UPDATE cronlease_run SET due_at = due_at - 3600000000 WHERE state = 2")
	execute(t, s, "UPDATE cronlease_run SET token = token - 1 WHERE state = 1")
	execute(t, s, "UPDATE cronlease_job SET schedule_since = schedule_since - 3600000000 WHERE name = ''")
	d = doctor(t, "--config", path)
	d.wants("warning", "failing", "did not succeed: 1: tick", "worker runs --job JOB")
	d.wants("warning", "open runs", "earlier terms that are still open: 2: tick")
	d.wants("warning", "open runs", "runs that wait for more than 10m0s: 1: tick", "max_runs")
	d.wants("warning", "future", "left by a wrong clock: 1: tick")
	d.wants("ok", "overdue")
	enlist(t, s, h.Owner, "v1", map[string]string{"slow": file["slow"]})
	doctor(t, "--config", path).wants("warning", "open runs", "open runs of jobs that the leader does not have: 3: tick", "worker forget JOB")
	enlist(t, s, h.Owner, "v1", file)
	d = doctor(t, "--config", path)
	if d.code != 0 {
		t.Errorf("exit code %d of warnings: %s", d.code, d.text)
	}
	if code := doctor(t, "--strict", "--config", path).code; code != 5 {
		t.Errorf("exit code %d with --strict", code)
	}

	if err := errors.Join(s.Pause(t.Context(), "billing", "tick"), s.Pause(t.Context(), "billing", "")); err != nil {
		t.Fatal(err)
	}
	d = doctor(t, "--config", path)
	d.wants("warning", "paused", "the whole group is paused", "worker resume")
	d.wants("warning", "paused", "jobs are paused: 1: tick", "worker resume JOB")

	execute(t, s, "UPDATE cronlease_lease SET renewed_at = renewed_at - 50000000")
	doctor(t, "--config", path).wants("warning", "leader", "it is late", "the leader's machine")
	execute(t, s, "UPDATE cronlease_lease SET renewed_at = renewed_at - 50000000")
	doctor(t, "--config", path).wants("problem", "leader", "the last heartbeat of a/b/1/c was ", "start a worker")
	doctor(t, "--database", "sqlite:"+filepath.Join(filepath.Dir(path), "lease.db"), "--group", "billing").wants("problem", "leader")
}

func TestDoctorOfTicksWithoutALeader(t *testing.T) {
	t.Parallel()
	path, s, _ := led(t, 2*time.Minute)
	execute(t, s, "UPDATE cronlease_lease SET renewed_at = renewed_at - 100000000")
	d := doctor(t, "--config", path)
	d.wants("problem", "overdue", "ticks wait for a leader", "misfire policy")
	d.wants("problem", "leader", "Cure: start a worker")
	// Another worker does not help against what keeps those that run from leading.
	execute(t, s, "DROP TABLE cronlease_replica")
	d = doctor(t, "--config", path)
	d.wants("problem", "file", "there is no table cronlease_replica")
	d.wants("problem", "leader", "Cure: that of file")
	d.wants("unknown", "2 checks", "not looked at: see file: commits, replicas")
}

// A history that the leader does not prune.
func TestDoctorOfOldRuns(t *testing.T) {
	t.Parallel()
	path, s, h := led(t, 2*time.Minute)
	now := time.Now().Truncate(time.Second).UTC()
	for i, tick := range []time.Time{now.Add(-40 * 24 * time.Hour), now.Add(-time.Minute)} {
		if _, err := s.Claim(t.Context(), h, store.ClaimID{byte(i)}, []store.Claim{{Key: jobs.Key{Job: "tick", Tick: tick}, State: jobs.Skipped}}); err != nil {
			t.Fatal(err)
		}
	}
	doctor(t, "--config", path).wants("ok", "history") // claimed just now, as by a backfill
	execute(t, s, "UPDATE cronlease_run SET finished_at = tick")
	doctor(t, "--config", path).wants("warning", "history", "days older than history.for of the file allows: 1: tick", "wait a day", "DELETE")
}

// A run that goes on while its job's ticks are skipped.
func TestDoctorOfARunThatHangs(t *testing.T) {
	t.Parallel()
	path, s, h := led(t, 10*time.Minute)
	now := time.Now().Truncate(time.Second).UTC()
	claim := func(id byte, tick time.Time, state jobs.State) {
		t.Helper()
		if _, err := s.Claim(t.Context(), h, store.ClaimID{id}, []store.Claim{{Key: jobs.Key{Job: "tick", Tick: tick}, State: state}}); err != nil {
			t.Fatal(err)
		}
	}
	claim(1, now.Add(-6*time.Minute), jobs.Running)
	for _, table := range []string{"cronlease_run", "cronlease_job"} {
		execute(t, s, "UPDATE "+table+" SET started_at = started_at - 360000000 WHERE started_at > 0")
	}
	doctor(t, "--config", path).wants("ok", "open runs") // it holds up nothing
	claim(2, now.Add(-time.Second), jobs.Skipped)
	doctor(t, "--config", path).wants("warning", "open runs", "while their ticks are skipped, or wait: 1: tick", "worker cancel JOB")
	execute(t, s, fmt.Sprintf("UPDATE cronlease_run SET state = 2, due_at = %d WHERE state > 2", now.Add(time.Hour).UnixMicro()))
	doctor(t, "--config", path).wants("ok", "open runs") // the tick waits for its planned start
	execute(t, s, fmt.Sprintf("UPDATE cronlease_run SET due_at = %d WHERE state = 2", now.UnixMicro()))
	doctor(t, "--config", path).wants("warning", "open runs", "while their ticks are skipped, or wait: 1: tick")
	execute(t, s, fmt.Sprintf("UPDATE cronlease_run SET trigger_id = %d WHERE state = 1", int64(triggers.Backfill(now)))) //nolint:gosec // as the store keeps it
	doctor(t, "--config", path).wants("ok", "open runs")                                                                  // a backfill holds up no tick
	execute(t, s, "UPDATE cronlease_run SET trigger_id = 0 WHERE state = 1")
	claim(3, now, jobs.Running) // beside it
	d := doctor(t, "--config", path)
	d.wants("ok", "open runs")
}

func TestDoctorNeverDue(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: leap, cron: \"0 0 30 2 *\", exec: [\"true\"]}\n")
	if err := openStore(t, path).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	doctor(t, "--config", path).wants("warning", "never due", "no further tick: 1: leap", "worker next")
}

// The commands that cures name are there, with their flags.
func TestCuresNameCommands(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../store/*/examine*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bworker (doctor|status|jobs|runs|next|resume|cancel|resign|reload|run|migrate)\b((?: JOB)? --[a-z-]+)?`)
	seen := 0
	for _, file := range append(files, "doctor.go", "groupexam.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			seen++
			command, _, err := newRoot().Find([]string{found[1]})
			_, flag, _ := strings.Cut(found[2], "--")
			if err != nil || command.Name() != found[1] || flag != "" && command.Flags().Lookup(flag) == nil {
				t.Errorf("%s: %s", file, found[0])
			}
		}
	}
	if seen < 10 {
		t.Errorf("found %d", seen)
	}
}

// Workers that told of themselves and cannot be seen, as on a full disk, are not said to be missing.
func TestDoctorOfWorkersThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := groupExam{target: &target{}, roster: jobs.Roster{Now: now, Replicas: []jobs.Replica{{Owner: "a/b/1/c", Seen: now.Add(-20 * time.Second), List: jobs.FirstList, Presence: jobs.Absent}}}}
	e.replicas()
	if f := e.found[0]; f.Grade != store.Problem || !strings.Contains(f.Text, "no worker can be seen") || !strings.Contains(f.Text, "a/b/1/c") {
		t.Errorf("%+v", f)
	}
	e = groupExam{target: &target{}, roster: jobs.Roster{Now: now.Add(time.Hour), Replicas: e.roster.Replicas}}
	e.judgeSkew(lease.Skew{Ahead: time.Hour, Bound: time.Millisecond})
	e.replicas()
	if f := e.found[1]; f.Grade != store.Unknown || !strings.Contains(f.Text, "by the database's clock") {
		t.Errorf("%+v", f)
	}
}

func TestDoctorOfClocks(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]store.Grade{0: store.Good, 2 * time.Second: store.Warning, -2 * time.Second: store.Warning, -time.Hour: store.Problem} {
		e := groupExam{target: &target{}, check: "clock"}
		e.judgeSkew(lease.Skew{Ahead: ahead, Bound: time.Millisecond})
		if f := e.found[0]; f.Grade != want || (f.Cure == "") != (want == store.Good) {
			t.Errorf("%v: %+v", ahead, f)
		}
	}
}

// What was found out without a leader's row is printed in one line each.
func TestDiagnosisIsOneLineEach(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(escaping{to: &out})
	d := diagnosis{Group: "g", Findings: []store.Finding{{Check: "server", Grade: store.Problem, Text: "a\x1b[31m", Cure: "b\u202e"}, {Check: "x", Text: "good"}}}
	if err := d.print(root, false); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("%q", got)
	}
}

// Workers that cannot write are not seen: then the cure is that of what keeps them from it, and another worker would be
// none.
func TestDoctorOfWorkersThatCannotWrite(t *testing.T) {
	t.Parallel()
	now := time.Now()
	replica := func(owner string, presence jobs.Presence) jobs.Replica {
		return jobs.Replica{Owner: owner, Since: now.Add(-time.Hour), Seen: now, Presence: presence}
	}
	for live, want := range map[int]string{1: "there is one worker", 2: "2 workers"} {
		for _, unfit := range [][]string{nil, {"locked"}} {
			e := groupExam{unfit: unfit, roster: jobs.Roster{Now: now, Replicas: []jobs.Replica{replica("worker/one/9/gone", jobs.Absent)}}}
			for i := range live {
				e.roster.Replicas = append(e.roster.Replicas, replica(fmt.Sprint("worker/two/", i, "/live"), jobs.Present))
			}
			e.replicas()
			cure := "look at their machines and their logs"
			if unfit != nil {
				cure = "that of locked"
			}
			if f := e.found[0]; f.Check != "replicas" || f.Grade != store.Warning || f.Cure != cure || !strings.HasPrefix(f.Text, want) || !strings.Contains(f.Text, "worker/one/9/gone") {
				t.Errorf("%d live workers, unfit %v: %+v", live, unfit, f)
			}
		}
	}
}

// A file of the other mode than its group's is named, with both ways out.
func TestDoctorOfTheMode(t *testing.T) {
	t.Parallel()
	for _, spread := range []bool{false, true} {
		of := func(opened jobs.Opened) []store.Finding {
			e := groupExam{target: &target{file: &config.Config{Spread: spread}}, snapshot: jobs.Snapshot{Opened: opened}}
			e.mode()
			return e.found
		}
		if found := append(of(jobs.Opened{}), of(jobs.Opened{Token: 1, Spread: spread})...); len(found) != 0 {
			t.Errorf("%+v", found)
		}
		want := map[bool]string{true: "worker spread on", false: "worker spread off"}[spread]
		if found := of(jobs.Opened{Token: 1, Spread: !spread}); len(found) != 1 || found[0].Check != "mode" || found[0].Grade != store.Problem || !strings.Contains(found[0].Cure, want) {
			t.Errorf("%+v", found)
		}
	}
}

// Where runs are spread, a job whose labels no live worker has is named.
func TestDoctorOfLabels(t *testing.T) {
	t.Parallel()
	now := time.Now()
	live := jobs.Replica{Owner: "worker/one/9/a", Seen: now, Presence: jobs.Present, Labels: jobs.Labels{"zone": "a"}, Jobs: map[string]jobs.ScheduleHash{"any": 1, "zoned": 1, "fast": 1}}
	gone := jobs.Replica{Owner: "worker/one/9/b", Seen: now, List: jobs.FirstList, Presence: jobs.Absent, Labels: jobs.Labels{"disk": "ssd"}, Jobs: live.Jobs}
	var declared []config.Job
	for _, job := range []jobs.Job{
		{Name: "any"}, {Name: "zoned", On: jobs.Labels{"zone": "a"}}, {Name: "fast", On: jobs.Labels{"disk": "ssd"}},
		{Name: "here", Everywhere: true, On: jobs.Labels{"disk": "ssd"}}, {Name: "new", On: jobs.Labels{"zone": "a"}},
	} {
		declared = append(declared, config.Job{Job: job})
	}
	e := groupExam{roster: jobs.Roster{Now: now, Replicas: []jobs.Replica{live, gone}}}
	e.labels(declared)
	if f := e.found[0]; f.Check != "labels" || f.Grade != store.Warning || !strings.HasSuffix(f.Text, ": 3: fast (disk=ssd), here (disk=ssd), new (zone=a)") {
		t.Errorf("%+v", f)
	}
	e.found = nil
	if e.labels(declared[:2]); e.found[0].Grade != store.Good {
		t.Errorf("%+v", e.found[0])
	}
}
