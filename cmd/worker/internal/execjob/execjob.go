//go:build unix

// Package execjob runs programs as jobs, so that nothing of them survives their
// run, or the worker.
//
// A job is not started by the worker but by a guard: this same program, started
// once more for each run with the hidden command [GuardCommand]. The guard has
// one child, the job, in a process group of its own, and reads a pipe from the
// worker. The worker asks over it for the job to be stopped; when it ends
// without a word, because the worker was killed, the guard kills the job. On
// Linux the guard also adopts what leaves the job's group (setsid, daemons) and
// kills that too, and the job dies if the guard is killed.
//
// Elsewhere than on Linux only the process group is stopped and killed.
package execjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// ExitError says how a job's program ended that was not asked to.
type ExitError struct {
	Code   int    // the exit status, or -1
	Signal string // the signal that ended it, or empty
	Output string // the end of what it wrote, at most 4 KiB
}

func (e *ExitError) Error() string {
	return e.how() + lastOutput(e.Output)
}

func (e *ExitError) how() string {
	if e.Signal != "" {
		return "ended by signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

func lastOutput(s string) string {
	if s == "" {
		return ""
	}
	return "; its last output:\n" + s
}

// command is a program to run.
type command struct {
	args  []string
	grace time.Duration
	log   *zap.Logger
}

// New returns a job function that runs the program args[0] with the arguments
// that follow: without a shell, with nothing on standard input, in the worker's
// folder, and with the variables of [Environment]. What it writes goes to log,
// line by line.
//
// When the context of a run ends, the program's process group gets SIGTERM. What
// has not ended when grace is over is killed, and so is what the program leaves
// behind when it ends by itself. The function returns when all of it is dead,
// with an error that wraps the context's cause, or an [*ExitError].
//
// SIGKILL is sent a twentieth of grace early: killing takes a moment too, and all
// has to be over when grace is.
func New(args []string, grace time.Duration, log *zap.Logger) func(context.Context, jobs.Run) error {
	return command{args, grace - grace/20, log}.run
}

func (c command) run(ctx context.Context, run jobs.Run) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	out := newOutput(c.log.With(
		zap.String("group", run.Group), zap.String("owner", run.Owner), zap.Uint64("token", run.Token),
		zap.String("job", run.Job), zap.Time("tick", run.Tick), zap.Int("attempt", run.Attempt),
	))
	guard, err := start(run, out)
	if err != nil {
		return fmt.Errorf("start the guard of the job: %w", err)
	}
	// An error of a write means that the guard is gone, which its report tells.
	_ = guard.say(order{Args: c.args, Grace: c.grace})
	withdraw := context.AfterFunc(ctx, func() { _ = guard.stop() })
	end := guard.wait()
	withdraw()
	out.flush()
	return c.judge(ctx, end, out)
}

// judge turns the end of a run into the job's error.
func (c command) judge(ctx context.Context, end report, out *output) error {
	exit := &ExitError{Code: end.Code, Signal: end.Signal, Output: out.tail()}
	switch {
	case end.Problem != "":
		return errors.New(end.Problem)
	case !end.Ended:
		return fmt.Errorf("the guard of the job was killed, and the job with it; what left its process group may still run%s", lastOutput(exit.Output))
	case end.Killed:
		return fmt.Errorf("killed, because it had not stopped %v after SIGTERM: %w%s", c.grace, context.Cause(ctx), lastOutput(exit.Output))
	case end.Stopped:
		return fmt.Errorf("stopped (%s): %w%s", exit.how(), context.Cause(ctx), lastOutput(exit.Output))
	case end.Code != 0 || end.Signal != "":
		return exit
	default:
		return nil
	}
}

// order is what the worker tells the guard first. A line "stop" may follow.
type order struct {
	Args  []string
	Grace time.Duration
}

// report is what the guard tells the worker: when the job runs, and when all of
// it has ended.
type report struct {
	Group   int    `json:",omitempty"` // the job's process group, while it runs
	Problem string `json:",omitempty"` // why it could not be started
	Ended   bool   `json:",omitempty"`
	Code    int    `json:",omitempty"`
	Signal  string `json:",omitempty"`
	Stopped bool   `json:",omitempty"` // the job was asked to stop before it ended
	Killed  bool   `json:",omitempty"` // and had to be killed
}

// process is a guard, as the worker sees it.
type process struct {
	cmd     *exec.Cmd
	control *os.File
	status  *os.File
}

// start starts a guard. It gets the job's environment, and so has no secret
// that the job could find in it.
func start(run jobs.Run, out *output) (*process, error) {
	program, err := self()
	if err != nil {
		return nil, err
	}
	controlled, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer controlled.Close()
	status, reported, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, control.Close())
	}
	defer reported.Close()

	cmd := exec.Command(program, GuardCommand, run.Job)
	cmd.Args[0] = os.Args[0]
	cmd.Env = Environment(os.Environ(), run)
	cmd.Stdout, cmd.Stderr = out.stream("stdout"), out.stream("stderr")
	cmd.ExtraFiles = []*os.File{controlled, reported} // 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for pipes in the hands of what cannot be killed
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, control.Close(), status.Close())
	}
	return &process{cmd, control, status}, nil
}

// self is this program: on Linux also after its file has been replaced, so that
// worker and guard always are of one version.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		const exe = "/proc/self/exe"
		if _, err := os.Stat(exe); err == nil {
			return exe, nil
		}
	}
	return os.Executable()
}

func (p *process) say(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = p.control.Write(append(line, '\n'))
	return err
}

func (p *process) stop() error {
	_, err := io.WriteString(p.control, "stop\n")
	// A guard that somebody has stopped could not hear it.
	return errors.Join(err, syscall.Kill(p.cmd.Process.Pid, syscall.SIGCONT))
}

// wait returns how the run ended, once all of it has.
func (p *process) wait() report {
	var end report
	for decoder := json.NewDecoder(p.status); !end.Ended && end.Problem == ""; {
		if decoder.Decode(&end) != nil { // the guard was killed
			break
		}
	}
	switch {
	case end.Ended, end.Problem != "":
		_ = p.cmd.Process.Kill() // nothing is left to guard
	case end.Group > 0:
		_ = syscall.Kill(-end.Group, syscall.SIGKILL) // ESRCH: already gone
	}
	_ = p.cmd.Wait() // how the guard itself ended does not matter any more
	_ = p.control.Close()
	_ = p.status.Close()
	return end
}

// passed are the variables that a job gets from the worker's environment, beside
// LC_*. Everything else stays behind: the environment is where secrets are kept.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// Environment returns the variables of a job: PATH, HOME, USER, LOGNAME, SHELL,
// LANG, LANGUAGE, LC_*, TZ and TMPDIR as the worker has them, and CRONLEASE_GROUP,
// CRONLEASE_JOB, CRONLEASE_TICK (RFC 3339, UTC), CRONLEASE_OWNER, CRONLEASE_TOKEN
// and CRONLEASE_ATTEMPT.
func Environment(own []string, run jobs.Run) []string {
	var env []string
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		for _, p := range passed {
			if name == p {
				env = append(env, variable)
			}
		}
		if strings.HasPrefix(name, "LC_") {
			env = append(env, variable)
		}
	}
	return append(env,
		"CRONLEASE_GROUP="+run.Group,
		"CRONLEASE_JOB="+run.Job,
		"CRONLEASE_TICK="+run.Tick.UTC().Format(time.RFC3339Nano),
		"CRONLEASE_OWNER="+run.Owner,
		fmt.Sprintf("CRONLEASE_TOKEN=%d", run.Token),
		fmt.Sprintf("CRONLEASE_ATTEMPT=%d", run.Attempt),
	)
}
