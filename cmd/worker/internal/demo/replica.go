package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// databaseVariable hands the database to the replicas, so that no password is
// written into a file.
const databaseVariable = "CRONLEASE_DEMO_DATABASE"

// replica is one of the workers, over all of its starts.
type replica struct {
	name     string
	program  string
	file     string // configuration
	database string

	process  *process // nil while it is killed
	killedAt time.Time
}

// process is one start of a replica.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer // the worker stops when this is closed, also by our death

	// Set once it has ended.
	err error
	log string
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// problem is how it ended, and the last that it said.
func (p *process) problem() error {
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%w; its last words:\n%s", err, p.log)
}

// start starts the replica and returns its process and log.
func (r *replica) start() (*process, io.Reader, error) {
	cmd := exec.Command(r.program, "run", "--config", r.file, "--label", r.name, "--until-eof")
	cmd.Env = append(os.Environ(), databaseVariable+"="+r.database)
	// A Ctrl-C is for the demo, which then stops its replicas.
	cmd.SysProcAttr = ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	r.process = &process{name: r.name, cmd: cmd, stdin: stdin}
	return r.process, stderr, nil
}

// follow reads a log to its end and returns its last lines. What it warns of is
// noted.
func follow(log io.Reader, note func(string)) string {
	var last []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if last = append(last, lines.Text()); len(last) > 5 {
			last = last[1:]
		}
		var entry struct{ Level, Msg, Error string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && (entry.Level == "warn" || entry.Level == "error") {
			note(strings.TrimSuffix(entry.Msg+": "+entry.Error, ": "))
		}
	}
	_, _ = io.Copy(io.Discard, log) // after a line that is too long
	return strings.Join(last, "\n")
}

// kill kills the replica.
func (r *replica) kill() {
	_ = r.process.cmd.Process.Kill() // an error means that it has ended
	_ = r.process.stdin.Close()
	r.process, r.killedAt = nil, time.Now()
}

// terminate asks the process to stop, which works from its first moment on, when
// SIGTERM would still end it at once.
func (p *process) terminate() { _ = p.stdin.Close() } // an error means that it has ended

// owns reports whether owner, "label/host/pid/random", is the present process
// of this replica.
func (r *replica) owns(owner string) bool {
	parts := strings.Split(owner, "/")
	return len(parts) == 4 && parts[0] == r.name && parts[2] == strconv.Itoa(r.process.pid())
}

// nameOf returns the replica's name in an owner's.
func nameOf(owner string) string {
	name, _, _ := strings.Cut(owner, "/")
	return name
}
