package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

// addressOf is where a worker serves its page.
func addressOf(w *worker) string {
	return "http://" + asText(w.awaitMessage("the page is served")["address"])
}

// fetch returns an answer, or the status 0 while there is none.
func fetch(t *testing.T, address string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: limit}
	response, err := client.Get(address)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// awaitAnswer waits for an answer with that status.
func awaitAnswer(t *testing.T, address string, status int) string {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(limit); ; <-again.C {
		got, body := fetch(t, address)
		if got == status {
			return body
		}
		if time.Now().After(end) {
			t.Fatalf("%s: status %d, want %d: %s", address, got, status, body)
		}
	}
}

// A worker serves its page and health from its start to its end, its drain included, and
// followers do as well.
func TestRunListens(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	started := filepath.Join(folder, "started")
	path := configure(t, fmt.Sprintf("  - {name: long, manual: true, exec: [sh, -c, 'touch %s; while [ ! -e %s/end ]; do sleep 0.05; done']}\ndrain: 1m\nlisten: 127.0.0.1:0\n", started, folder))
	first := startWorker(t, "run", "--config", path)
	address := addressOf(first)
	if status, body := fetch(t, address+"/healthz"); status != http.StatusOK {
		t.Errorf("%d: %s", status, body)
	}
	awaitAnswer(t, address+"/readyz", http.StatusOK)
	if body := awaitAnswer(t, address+"/", http.StatusOK); !strings.Contains(body, "billing") {
		t.Error(body)
	}
	second := startWorker(t, "run", "--config", path)
	follower := addressOf(second)
	awaitAnswer(t, follower+"/readyz", http.StatusOK)

	// An action on the follower's page reaches the leader.
	response, err := http.PostForm(follower+"/do", url.Values{"action": {"trigger"}, "job": {"long"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK { // of the page of the run, where it leads
		t.Errorf("status %d", response.StatusCode)
	}
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C {
		if _, err := os.Stat(started); err == nil {
			break
		}
	}

	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.awaitMessage("leaving: nothing new is started, and what runs may finish")
	var health map[string]any
	if err := json.Unmarshal([]byte(awaitAnswer(t, address+"/healthz?format=json", http.StatusOK)), &health); err != nil || health["role"] != "draining" {
		t.Errorf("%v, %v", health, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.awaitMessage("stopped")
	<-first.ended
	if status, body := fetch(t, address+"/healthz"); status != 0 {
		t.Errorf("after its end: %d: %s", status, body)
	}
	awaitAnswer(t, follower+"/readyz", http.StatusOK)
	if code := second.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Where a worker listens is checked before it starts, and so are the files of its logins. It
// cannot be changed while it runs.
func TestListenIsChecked(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	for _, test := range []struct{ args, want []string }{
		{[]string{"--listen", "0.0.0.0:0"}, []string{"--listen \"0.0.0.0:0\": it is reached from other machines: expected password_file or proxy"}},
		{[]string{"--listen", "8080"}, []string{"expected host:port"}},
	} {
		r := command(t, append([]string{"run", "--config", path}, test.args...)...)
		for _, want := range test.want {
			if exitCode(r.err) != 2 || !strings.Contains(fmt.Sprint(r.err), want) {
				t.Errorf("%v: %v, want %s", test.args, r.err, want)
			}
		}
	}
	users := filepath.Join(t.TempDir(), "users")
	path = configure(t, idle+"listen: {address: '127.0.0.1:0', password_file: "+users+"}\n")
	if r := command(t, "run", "--config", path); exitCode(r.err) != 1 || !strings.Contains(fmt.Sprint(r.err), "worker.yaml:6:49: listen.password_file: open ") {
		t.Errorf("without the file: %v", r.err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path = configure(t, idle+"listen: "+taken.Addr().String()+"\n")
	if r := command(t, "run", "--config", path); exitCode(r.err) != 1 || !strings.Contains(fmt.Sprint(r.err), "worker.yaml:6:9: listen: the page cannot be served: ") {
		t.Errorf("on a port that is taken: %v", r.err)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "password", "alice")
	cmd.Stdin = strings.NewReader("long enough\n")
	line, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(line), "alice:$2a$12$") {
		t.Fatalf("%q, %v", line, err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, line, 0o600); err != nil {
		t.Fatal(err)
	}
	path := configure(t, idle+"listen: {address: '127.0.0.1:0', password_file: "+users+", steer: [alice]}\n")
	w := startWorker(t, "run", "--config", path)
	address := addressOf(w)
	if status, _ := fetch(t, address+"/"); status != http.StatusUnauthorized {
		t.Errorf("status %d without a password", status)
	}
	if status, _ := fetch(t, strings.Replace(address, "//", "//alice:long%20enough@", 1)+"/confirm?action=resign"); status != http.StatusOK {
		t.Errorf("status %d with the password", status)
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What listen says is compared as a whole when a configuration is read again.
func TestListenIsFixed(t *testing.T) {
	t.Parallel()
	const listen = "listen: {address: ':8080', proxy: {header: X-User, from: [10.0.0.0/8, '2001:db8::1']}, hosts: [a.example.com], steer: ['*']}\n"
	read := func(text string) *config.Config {
		t.Helper()
		c, err := config.Parse("worker.yaml", []byte("database: sqlite:x\ngroup: billing\n"+text+"jobs:\n"+idle), os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := fixed(read(listen), read(listen)); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"", strings.Replace(listen, "/8", "/9", 1), strings.Replace(listen, "'*'", "bob", 1), strings.Replace(listen, "8080", "8081", 1)} {
		if err := fixed(read(listen), read(other)); err == nil || !strings.Contains(err.Error(), "listen: has changed, which a running worker cannot take over") {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// While the database is away, the page says so, and the probes tell it from a process that is
// stuck: also while the worker waits to create the tables.
func TestListenWithoutDatabase(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	path := filepath.Join(t.TempDir(), "worker.yaml")
	text := fmt.Sprintf("database: mysql://canary@%s/app\ngroup: billing\nlisten: 127.0.0.1:0\njobs:\n%s", closed.Addr(), idle)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"--migrate"}} {
		w := startWorker(t, append([]string{"run", "--config", path}, args...)...)
		address := addressOf(w)
		awaitAnswer(t, address+"/healthz", http.StatusOK)
		body := awaitAnswer(t, address+"/readyz", http.StatusServiceUnavailable)
		if strings.Contains(body, "canary") || strings.Contains(body, closed.Addr().String()) {
			t.Errorf("%v: tells of the database: %s", args, body)
		}
		if body := awaitAnswer(t, address+"/", http.StatusServiceUnavailable); !strings.Contains(body, "billing") {
			t.Errorf("%v: %s", args, body)
		}
		if code := w.stop(); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
