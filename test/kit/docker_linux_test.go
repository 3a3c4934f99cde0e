package kit

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The program of the image needs nothing else: it runs alone in a root directory, as the image's user, with a database
// and a time zone.
func TestImage(t *testing.T) {
	t.Parallel()
	program := worker(t)
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is not static")
		}
	}
	text := read(t, "deploy/Dockerfile")
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(text)
	if user == nil || user[1] == "0" {
		t.Fatalf("user %q", user)
	}
	for _, line := range []string{`ENTRYPOINT ["/worker"]`, `CMD ["run", "--config", "/etc/cronlease/worker.yaml"]`, "FROM scratch"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	id, err := strconv.Atoi(user[1])
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	copied, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	const configuration = "database: sqlite:/data/lease.db\ngroup: g\njobs:\n  - {name: a, cron: \"0 30 2 * * *\", zone: Europe/Berlin, sql: [\"SELECT 1\"]}\n"
	for _, err := range []error{
		os.Chmod(folder, 0o755), writeProgram(filepath.Join(folder, "worker"), copied),
		os.MkdirAll(filepath.Join(folder, "etc/cronlease"), 0o755), os.WriteFile(filepath.Join(folder, "etc/cronlease/worker.yaml"), []byte(configuration), 0o644),
		os.Mkdir(filepath.Join(folder, "data"), 0o777), os.Chmod(filepath.Join(folder, "data"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ want, args string }{
		{"worker v0.0.7", "version"},
		{"good, jobs: 1", "validate --config /etc/cronlease/worker.yaml"},
		{"2026-07-01T00:30:00Z", "next --zone Europe/Berlin --from 2026-07-01T00:00:00Z 0 30 2 * * *"},
		{"", "migrate --config /etc/cronlease/worker.yaml"},
		{"a ", "jobs --config /etc/cronlease/worker.yaml"},
	} {
		args := strings.Fields(c.args)
		if args[0] == "next" { // the expression is one argument
			args = append(args[:len(args)-6], strings.Join(args[len(args)-6:], " "))
		}
		cmd := exec.CommandContext(t.Context(), "/worker", args...)
		cmd.Path, cmd.Err = "/worker", nil
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder, Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
		if os.Geteuid() != 0 { // as root of a namespace, which maps to this user
			cmd.SysProcAttr.Credential = nil
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("worker %s: %v\n%s", c.args, err, out)
		}
	}
}

// writeProgram writes a program that can be started at once: no child of this process that is just being started has the
// file open, which the system would refuse as busy.
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}
