package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// spy looks for what its worker and its guard know, and says so when it is done.
const spy = `guard=$PPID
worker=$(awk "/^PPid:/ {print \$2}" /proc/$guard/status)
for p in $guard $worker $$; do for f in environ cmdline; do echo $p $f $(tr "\0" " " </proc/$p/$f 2>&1); done; done
echo mem $(dd if=/proc/$worker/mem bs=1 count=0 2>&1)
echo own $OWN_FILE $OWN_TEXT
echo done`

// A job cannot read the secrets of its worker, or those of other jobs, from
// files of the kernel; its own it gets.
func TestJobsCannotReadSecrets(t *testing.T) {
	t.Parallel()
	users := map[string]*syscall.Credential{"own user": nil}
	if os.Geteuid() == 0 { // who may read the memory of every process
		users["another user"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if user != nil {
				folder = folderFor(t, user)
			}
			program, token := filepath.Join(folder, "worker"), filepath.Join(folder, "token")
			copyFile(t, os.Args[0], program, 0o755)
			if err := os.WriteFile(token, []byte("secret of a file\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "worker.yaml")
			text := fmt.Sprintf(`database: sqlite:%s/lease.db
group: billing
lease: {ttl: 2s}
jobs:
  - name: spy
    every: 1s
    exec: [sh, -c, %q]
    env: {OWN_FILE: {file: %s}, OWN_TEXT: "${SPY_SECRET}"}
  - name: other
    manual: true
    http: {url: "http://user:${WORKER_SECRET}@127.0.0.1:1/"}
`, folder, spy, token)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if user != nil {
				for _, file := range []string{token, path} {
					if err := os.Chown(file, int(user.Uid), int(user.Gid)); err != nil {
						t.Fatal(err)
					}
				}
			}
			cmd := exec.Command(program, "run", "--config", path)
			cmd.Env = append(os.Environ(), "WORKER_SECRET=canary-1", "SPY_SECRET=told")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
			log, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			var said []string
			for lines := bufio.NewScanner(log); lines.Scan(); {
				var entry struct{ Msg, Line string }
				if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
					t.Fatalf("%v: %s", err, lines.Text())
				}
				if entry.Line == "done" {
					break
				}
				said = append(said, entry.Line)
			}
			all := strings.Join(said, "\n")
			if strings.Contains(all, "canary-1") {
				t.Errorf("the job has found a secret of its worker:\n%s", all)
			}
			if !strings.Contains(all, "run --config "+path) {
				t.Errorf("the job has not found its worker:\n%s", all)
			}
			if !strings.Contains(all, "own secret of a file told") {
				t.Errorf("the job lacks what it is given:\n%s", all)
			}
			if n := strings.Count(all, "secret of a file"); n != 2 { // what it says, and its own environment
				t.Errorf("its own secret stands in %d places:\n%s", n, all)
			}
			if user != nil && !strings.Contains(all, "mem dd: failed to open") {
				t.Errorf("the worker's memory is open to its jobs:\n%s", all)
			}
		})
	}
}

// folderFor makes a folder that belongs to another user, who may not be let into
// the one for temporary files.
func folderFor(t *testing.T, user *syscall.Credential) string {
	t.Helper()
	folder, err := os.MkdirTemp("/var/tmp", "cronlease-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(folder, int(user.Uid), int(user.Gid)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// copyFile copies a program that can be started at once: no child that is just being started has it open, which the system
// would refuse as busy.
func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
