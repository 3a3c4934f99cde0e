package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

// limit is how long anything may take that is expected to happen.
const limit = 60 * time.Second

// The test program is the worker too: for guards and for processes of their own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Setenv("CANARY", "canary-of-a-secret")
	goleak.VerifyTestMain(m)
}

// result is what a command line has led to.
type result struct {
	stdout, stderr string
	err            error
}

func command(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := run(ctx, args, &stdout, &stderr)
	return result{stdout.String(), stderr.String(), err}
}

// configure writes a configuration with these jobs and returns its path.
func configure(t *testing.T, jobs string) string {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "worker.yaml")
	text := fmt.Sprintf("database: sqlite:%s\ngroup: billing\nlease: {ttl: 4s}\njobs:\n%s", filepath.Join(folder, "lease.db"), jobs)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const idle = "  - {name: idle, at: 2001-01-01T00:00:00Z, exec: [\"true\"]}\n"

// worker is a worker process with its log.
type worker struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	text  strings.Builder // the log as it is
	lines []map[string]any
	more  chan struct{} // closed and replaced at each line
	ended chan struct{} // closed when the log has ended
}

func startWorker(t *testing.T, args ...string) *worker {
	t.Helper()
	return startWorkerAs(t, exec.Command(os.Args[0], args...))
}

func startWorkerAs(t *testing.T, cmd *exec.Cmd) *worker {
	t.Helper()
	w := &worker{t: t, cmd: cmd, more: make(chan struct{}), ended: make(chan struct{})}
	log, err := w.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var entry map[string]any
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				t.Errorf("logged what is no JSON: %s", lines.Text())
			}
			w.mu.Lock()
			w.text.WriteString(lines.Text() + "\n")
			w.lines = append(w.lines, entry)
			close(w.more)
			w.more = make(chan struct{})
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // an error means that it has ended
		<-w.ended
		_ = w.cmd.Wait()
	})
	return w
}

// await waits for a line of the log.
func (w *worker) await(what string, is func(line map[string]any) bool) map[string]any {
	w.t.Helper()
	late := time.After(limit)
	for seen := 0; ; {
		w.mu.Lock()
		lines, more := w.lines, w.more
		w.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if is(lines[seen]) {
				return lines[seen]
			}
		}
		select {
		case <-more:
		case <-w.ended:
			w.t.Fatalf("ended without %s:\n%s", what, story(lines))
		case <-late:
			w.t.Fatalf("no %s:\n%s", what, story(lines))
		}
	}
}

// comesTo waits for a line of the log; false: the log has ended without it.
func (w *worker) comesTo(is func(line map[string]any) bool) bool {
	for {
		w.mu.Lock()
		has, more := slices.ContainsFunc(w.lines, is), w.more
		w.mu.Unlock()
		if has {
			return true
		}
		select {
		case <-more:
		case <-w.ended:
			return false
		}
	}
}

// story is the log without the runs that succeeded, which are most of it.
func story(lines []map[string]any) string {
	var b strings.Builder
	for _, line := range lines {
		if line["msg"] != "run started" && line["msg"] != "run succeeded" {
			fmt.Fprintln(&b, line)
		}
	}
	fmt.Fprintln(&b, "the last of", len(lines), "lines:", lines[max(0, len(lines)-3):])
	return b.String()
}

func (w *worker) awaitMessage(message string) map[string]any {
	w.t.Helper()
	return w.await(message, func(line map[string]any) bool { return line["msg"] == message })
}

// stop sends SIGTERM and returns the exit code.
func (w *worker) stop() int {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(limit):
		w.t.Fatal("SIGTERM does not stop it")
	}
	_ = w.cmd.Wait() // the exit code says it
	return w.cmd.ProcessState.ExitCode()
}

func statusOf(t *testing.T, path string) status {
	t.Helper()
	r := command(t, "status", "--json", "--config", path)
	if r.err != nil && exitCode(r.err) != 3 {
		t.Fatal(r.err)
	}
	var s status
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if held := s.State == "held"; held != (r.err == nil) {
		t.Errorf("exit code %d with the state %s", exitCode(r.err), s.State)
	}
	return s
}

func TestExecJobToTheEnd(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - name: hello\n    every: 1s\n    exec: [sh, -c, 'echo \"$CRONLEASE_JOB under $CRONLEASE_TOKEN\"; env']\n")
	w := startWorker(t, "run", "--config", path, "--label", "here")
	leading := w.awaitMessage("leading")
	output := w.await("output", func(line map[string]any) bool {
		text, _ := line["line"].(string)
		return strings.HasPrefix(text, "hello under ")
	})
	w.awaitMessage("run succeeded")
	s := statusOf(t, path)
	if s.State != "held" || !strings.HasPrefix(s.Owner, "here/") || s.TTLSeconds != 4 || s.HeartbeatAgeSeconds < 0 || s.HeartbeatAgeSeconds > 4 {
		t.Errorf("status: %+v", s)
	}
	if want := fmt.Sprintf("hello under %d", s.Token); output["line"] != want || leading["owner"] != s.Owner {
		t.Errorf("got %v by %v, want %s by %s", output["line"], leading["owner"], want, s.Owner)
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	w.awaitMessage("stopped")
	if after := statusOf(t, path); after.State != "released" || after.Token != s.Token {
		t.Errorf("not released: %+v", after)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.lines {
		if strings.Contains(fmt.Sprint(line), "canary") {
			t.Errorf("the job has the worker's secrets: %v", line)
		}
	}
}

func TestTermCancelsJobs(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - name: long\n    every: 1s\n    exec: [sh, -c, 'trap \"echo told; exit 1\" TERM; echo ready; while :; do sleep 0.1; done']\n")
	w := startWorker(t, "run", "--config", path)
	w.await("ready", func(line map[string]any) bool { return line["line"] == "ready" })
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	w.await("told", func(line map[string]any) bool { return line["line"] == "told" })
	cancelled := w.awaitMessage("run cancelled")
	if text, _ := cancelled["error"].(string); !strings.HasPrefix(text, "stopped (exit status 1): ") {
		t.Errorf("logged %v", cancelled)
	}
	if s := statusOf(t, path); s.State != "released" {
		t.Errorf("not released: %+v", s)
	}
}

func TestResign(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	if r := command(t, "migrate", "--config", path); r.err != nil {
		t.Fatal(r.err)
	}
	if r := command(t, "resign", "--config", path); r.err != nil || !strings.Contains(r.stdout, "nobody leads billing") {
		t.Errorf("with nobody: %+v", r)
	}
	a := startWorker(t, "run", "--config", path, "--label", "a")
	a.awaitMessage("leading")
	b := startWorker(t, "run", "--config", path, "--label", "b", "--log-level", "debug")
	b.awaitMessage("following")
	before := statusOf(t, path)
	r := command(t, "resign", "--config", path)
	if r.err != nil || !strings.Contains(r.stdout, before.Owner+" stepped down") || !strings.Contains(r.stdout, "b/") {
		t.Errorf("got %+v", r)
	}
	after := statusOf(t, path)
	if after.State != "held" || !strings.HasPrefix(after.Owner, "b/") || after.Token <= before.Token {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if a.stop() != 0 || b.stop() != 0 {
		t.Error("not stopped cleanly")
	}
}

func TestResignOfTheDead(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("leading")
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.ended
	r := command(t, "resign", "--config", path, "--timeout", "300ms")
	if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "has not stepped down after 300ms") {
		t.Errorf("got %+v", r)
	}
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	ctx, cancel := context.WithCancel(t.Context())
	stderr := &notify{want: `"msg":"leading"`, found: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"run", "--config", path, "--log-level", "info"}, &bytes.Buffer{}, stderr)
	}()
	select {
	case <-stderr.found:
	case err := <-done:
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := statusOf(t, path); s.State != "released" {
		t.Errorf("not released: %+v", s)
	}
}

// notify closes found when want has been written.
type notify struct {
	want  string
	found chan struct{}
	text  []byte
	once  sync.Once
}

func (n *notify) Write(p []byte) (int, error) {
	n.text = append(n.text, p...)
	if bytes.Contains(n.text, []byte(n.want)) {
		n.once.Do(func() { close(n.found) })
	}
	return len(p), nil
}

// Errors about a database that the file names say where it does.
func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	for _, args := range [][]string{{"status"}, {"jobs"}, {"runs"}, {"trigger", "idle"}, {"pause"}, {"resign"}} {
		r := command(t, append(args, "--config", path)...)
		if exitCode(r.err) != 1 || strings.Count(r.err.Error(), path) != 1 || !strings.HasPrefix(r.err.Error(), path+":1:11: database: ") || !strings.Contains(r.err.Error(), "or mend its path") {
			t.Errorf("worker %v: %+v", args, r)
		}
	}
}

func TestStatusForms(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	if r := command(t, "status", "--config", path); exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "migrate") {
		t.Errorf("without tables: %+v", r)
	}
	for _, want := range []string{"0001_lease\n0002_ledger\n0003_locks\n0004_lock_idle\n0005_pauses\n0006_replicas\n0007_args\n0008_archive\n0009_failing\n0010_details\nup to date, level 10\n", "up to date, level 10\n"} {
		if r := command(t, "migrate", "--config", path); r.err != nil || r.stdout != want {
			t.Errorf("migrate: %+v, want %q", r, want)
		}
	}
	if _, err := openStore(t, path).DB().ExecContext(t.Context(), "DROP TABLE cronlease_lock"); err != nil {
		t.Fatal(err)
	}
	if r := command(t, "migrate", "--config", path); r.err != nil || !strings.HasPrefix(r.stdout, "mended: there is no table cronlease_lock\n") {
		t.Errorf("migrate without a table: %+v", r)
	}
	const want = `{"group":"billing","state":"none","owner":"","token":0,"ttl_seconds":0,"heartbeat_age_seconds":0,"resign_asked":false,"paused":false,"paused_jobs":[],"paused_itself":false,"paused_by":"","paused_at":null,"overdue":null,"unknown_jobs":0,"old_runs":0,"spread":false,"unassigned":[],"replicas":[],"not_led":[],"rescheduled":[]}` + "\n"
	if r := command(t, "status", "--config", path, "--json"); exitCode(r.err) != 3 || r.stdout != want {
		t.Errorf("got %+v", r)
	}
	database := "sqlite:" + filepath.Join(filepath.Dir(path), "lease.db")
	if r := command(t, "status", "--database", database, "--group", "other"); exitCode(r.err) != 3 || !strings.Contains(r.stdout, "leader  nobody") {
		t.Errorf("got %+v", r)
	}
	for state, s := range map[string]status{
		"held":     {State: "held", Owner: "a/b/1/c", Token: 7, TTLSeconds: 15, HeartbeatAgeSeconds: 0.25, ResignAsked: true},
		"released": {State: "released", Owner: "a/b/1/c", Token: 7},
		"expired":  {State: "expired", Owner: "a/b/1/c", Token: 7},
	} {
		command := newStatus()
		var out bytes.Buffer
		command.SetOut(&out)
		if err := s.print(command, false); err != nil {
			t.Error(err)
		}
		want := map[string][]string{
			"held":     {"leader     a/b/1/c\n", "token      7\n", "heartbeat  250ms ago\n", "ttl        15s\n", "leaving    the leader starts nothing new"},
			"released": {"nobody: the lease is released", "last leader  a/b/1/c\n"},
			"expired":  {"nobody: the lease has expired", "last leader  a/b/1/c\n"},
		}[state]
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: no %q in\n%s", state, part, out.String())
			}
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("database: sqlite:x\ngroup: a b\njobs: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":            {nil, 2, "expected a command: run, demo"},
		"unknown":            {[]string{"frobnicate"}, 2, `unknown command "frobnicate"`},
		"misspelt":           {[]string{"stauts"}, 2, "did you mean status?"},
		"argument":           {[]string{"run", "worker.yaml"}, 2, `unexpected argument "worker.yaml"`},
		"flag":               {[]string{"run", "--colour"}, 2, "unknown flag: --colour"},
		"flag's value":       {[]string{"resign", "--timeout", "soon"}, 2, `invalid argument "soon"`},
		"negative":           {[]string{"resign", "--timeout", "-1s"}, 2, "--timeout -1s: must not be negative"},
		"level":              {[]string{"run", "--log-level", "loud"}, 2, `--log-level "loud": expected debug, info, warn or error`},
		"no file":            {[]string{"status"}, 2, "no worker.yaml in this folder"},
		"missing file":       {[]string{"run", "--config", "/no/such.yaml"}, 1, "/no/such.yaml"},
		"bad file":           {[]string{"run", "--config", bad}, 1, bad + ":2:8: group: "},
		"all of a bad file":  {[]string{"status", "--config", bad}, 1, bad + ":3:7: jobs: "},
		"two places":         {[]string{"status", "--config", path, "--database", "sqlite:x", "--group", "g"}, 2, "exclude each other"},
		"no group":           {[]string{"status", "--database", "sqlite:x"}, 2, "--database needs --group"},
		"group without":      {[]string{"status", "--config", path, "--group", "g"}, 2, "--group is for --database"},
		"database":           {[]string{"status", "--database", "oracle://u:${CANARY}@h/d", "--group", "g"}, 2, "--database: another kind of database: expected"},
		"group's name":       {[]string{"status", "--database", "sqlite:/no/such/folder/x", "--group", "a b"}, 1, `group "a b"`},
		"no database":        {[]string{"status", "--database", "mysql://u:${CANARY}@127.0.0.1:1/d", "--group", "g"}, 1, "127.0.0.1:1"},
		"unsafe":             {[]string{"status", "--database", "mysql://u:${CANARY}@127.0.0.1:1/d?multiStatements=true", "--group", "g"}, 1, "multiStatements"},
		"demo, for":          {[]string{"demo", "--for", "-1s"}, 2, "--for -1s: must not be negative"},
		"demo, kill":         {[]string{"demo", "--kill-every", "-1s"}, 2, "--kill-every -1s: must not be negative"},
		"demo, database":     {[]string{"demo", "--database", "x"}, 2, "--database: expected"},
		"trigger, no job":    {[]string{"trigger"}, 2, "expected a job's name: worker jobs lists them"},
		"trigger, two jobs":  {[]string{"trigger", "a", "b"}, 2, `unexpected argument "b": one job at a time`},
		"cancel, no job":     {[]string{"cancel"}, 2, "expected a job's name"},
		"cancel, tick":       {[]string{"cancel", "a", "--tick", "noon", "--database", "sqlite:/x", "--group", "g"}, 2, `--tick "noon": expected an instant such as`},
		"pause, two jobs":    {[]string{"pause", "a", "b"}, 2, `unexpected argument "b"`},
		"pause, empty":       {[]string{"pause", ""}, 2, "expected a job's name"},
		"resume, two jobs":   {[]string{"resume", "a", "b"}, 2, `unexpected argument "b"`},
		"jobs, argument":     {[]string{"jobs", "a"}, 2, `unexpected argument "a"`},
		"runs, argument":     {[]string{"runs", "a"}, 2, `unexpected argument "a"`},
		"runs, job":          {[]string{"runs", "--job", ""}, 2, "--job: expected a job's name"},
		"runs, status":       {[]string{"runs", "--status", "done"}, 2, `--status "done": expected one of running, waiting, succeeded, failed, timed out, cancelled, panicked, skipped, interrupted`},
		"runs, since":        {[]string{"runs", "--since", "yesterday"}, 2, `--since "yesterday": expected an instant such as 2027-01-01T00:00:00Z, or a duration such as 24h or 7d`},
		"runs, since ahead":  {[]string{"runs", "--since", "-1h"}, 2, `--since "-1h": expected`},
		"runs, limit":        {[]string{"runs", "--limit", "0"}, 2, "--limit 0: must be at least 1"},
		"help of jobs":       {[]string{"jobs", "--help"}, 0, "worker jobs --json | jq"},
		"help of runs":       {[]string{"runs", "--help"}, 0, "worker runs --job nightly-report --since 7d"},
		"help of next":       {[]string{"next", "--help"}, 0, `worker next "0 2 * * *"`},
		"help of trigger":    {[]string{"trigger", "--help"}, 0, "worker trigger nightly-report --wait"},
		"help of pause":      {[]string{"pause", "--help"}, 0, "worker pause nightly-report"},
		"help of resume":     {[]string{"resume", "--help"}, 0, "worker resume nightly-report"},
		"help of cancel":     {[]string{"cancel", "--help"}, 0, "worker cancel nightly-report --tick 2027"},
		"guard by hand":      {[]string{"version", "guard"}, 2, "unexpected argument"},
		"help":               {[]string{"--help"}, 0, "Try it: worker demo"},
		"help of run":        {[]string{"run", "--help"}, 0, "--config string"},
		"help of demo":       {[]string{"demo", "--help"}, 0, "--kill-every duration"},
		"help of status":     {[]string{"status", "--help"}, 0, "--json"},
		"help of resign":     {[]string{"resign", "--help"}, 0, "--timeout duration"},
		"help of migrate":    {[]string{"migrate", "--help"}, 0, "--database string"},
		"help of version":    {[]string{"version", "--help"}, 0, "Print the version, and what it was built from"},
		"version":            {[]string{"version"}, 0, "worker devel (go"},
		"version, as a flag": {[]string{"--version"}, 0, "worker devel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, test.args...)
			text := r.stdout
			if r.err != nil {
				text = r.err.Error()
			}
			if exitCode(r.err) != test.code || !strings.Contains(text, test.want) {
				t.Errorf("%v: got code %d, want %d: got %s, want %s", test.args, exitCode(r.err), test.code, text, test.want)
			}
			if strings.Contains(text+r.stderr, "canary-of-a-secret") {
				t.Errorf("shows a password: %s%s", text, r.stderr)
			}
			if strings.Contains(r.stdout+r.stderr, "guard") {
				t.Errorf("shows the hidden command: %s%s", r.stdout, r.stderr)
			}
		})
	}
}

func TestUnfitDatabase(t *testing.T) {
	t.Parallel()
	where, err := config.ParseDatabase("mysql://u:secret@127.0.0.1:1/d?multiStatements=true", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "worker.yaml")
	text := "group: g\njobs:\n" + idle + "database: " + where.URL() + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, "run", "--config", path)
	if exitCode(r.err) != 1 || !strings.HasPrefix(r.err.Error(), path+":4:11: database: ") || strings.Contains(r.err.Error(), "secret") {
		t.Errorf("got %+v", r)
	}
}

// A second SIGTERM ends the worker at once, by the signal: 143 in a shell.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: stubborn, every: 1s, exec: [sh, -c, 'trap \"\" TERM; echo ready; while :; do sleep 1; done']}\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	slow := strings.Replace(string(text), "{ttl: 4s}", "{ttl: 1h, grace: 20m}", 1)
	if err := os.WriteFile(path, []byte(slow), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, "run", "--config", path)
	w.await("the run that ignores signals", func(line map[string]any) bool { return asText(line["line"]) == "ready" })
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.awaitMessage("term over")
	time.AfterFunc(100*time.Millisecond, func() { _ = w.cmd.Process.Signal(syscall.SIGTERM) }) // if the next one comes before the worker has let go of it
	w.stop()
	if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v", w.cmd.ProcessState)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	r := command(t, "demo", "--for", "9s", "--kill-every", "3s")
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.stdout)
	}
	for _, part := range []string{"starts (pid ", "leads under token ", " ran on replica-", "is killed with SIGKILL", "was killed\n", "Seen in 9s: ticks ", " doubles 0, missed 0, "} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q", part)
		}
	}
	var ticks []string
	for line := range strings.Lines(r.stdout) {
		if _, tick, ok := strings.Cut(line, "s  tick "); ok {
			ticks = append(ticks, tick[:len(time.TimeOnly)])
		}
	}
	if midnight := len(ticks) > 0 && ticks[0] > ticks[len(ticks)-1]; len(ticks) == 0 || !midnight && !slices.IsSorted(ticks) {
		t.Errorf("ticks out of order: %v", ticks)
	}
	if strings.Contains(r.stdout, "takeovers 0") || t.Failed() {
		t.Errorf("saw:\n%s", r.stdout)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "cronlease-demo-*"))
	if err != nil {
		t.Fatal(err)
	}
	folder, _, _ := strings.Cut(r.stdout[strings.Index(r.stdout, "sqlite:")+len("sqlite:"):], "/lease.db")
	if slices.Contains(left, folder) || !strings.Contains(folder, "cronlease-demo-") {
		t.Errorf("%s is left", folder)
	}
}
