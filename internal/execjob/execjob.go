//go:build unix

// Package execjob runs programs as jobs, so that nothing of them survives their
// run, or the worker.
//
// A job is not started by the worker but by a guard: this same program, started
// once more for each run with the hidden command [GuardCommand]. The guard has
// one child, the job, in a process group of its own, and reads a pipe from the
// worker. Over the pipe the worker asks for the job to be stopped; when the pipe
// closes without such an order, because the worker was killed, the guard kills the
// job. The worker also tells the guard until when the run's term is trusted, anew
// with each heartbeat: a moment after that time has come without news, because the
// worker is paused, the guard stops the job as if it had been asked to. On Linux the guard also adopts
// what leaves the job's group (setsid, daemons) and kills that too. If the guard is
// killed, the worker kills its session there, and the kernel kills the job's first
// process, whether or not there is a worker.
//
// Elsewhere than on Linux only the process group is stopped and killed.
package execjob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// ExitError says how a job's program ended if it was not asked to end.
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
	args   []string
	budget *rate.Limiter // for the log
	Options
}

// shortly is how long before the trust deadline a heartbeat is answered of which a
// guard may learn too late. With more time, something has kept the news.
const shortly = 250 * time.Millisecond

// cutShort is the error of a program that its guard stopped in a term that goes on.
// The news of the heartbeat that was answered so long before the trust deadline came
// too late.
func cutShort(spare time.Duration) error {
	why := "the database or the network hung"
	if spare > shortly {
		why = "this process was paused, or the machine is overloaded"
	}
	return fmt.Errorf("%w: its guard stops it when the trust in the term ends, and did not learn in time of the heartbeat that was answered %v before: %s",
		keeper.ErrCutShort, spare.Round(time.Millisecond), why)
}

// New returns a job function that runs the program args[0] with the arguments
// that follow: without a shell, with nothing on standard input, in the worker's
// folder, and with the variables of [Environment] and [Options].Trace, as far as the
// settings say nothing else. What it writes goes to log, line by line; all runs of the
// function together log 1 MiB at most, and after that as much in a minute.
//
// When the context of a run ends, the program's process group gets SIGTERM. What
// has not ended when grace is over is killed, and so is what the program leaves
// behind when it ends by itself. The function returns when all of it is dead,
// with an error that wraps the context's cause, or an [*ExitError].
//
// SIGKILL is sent a twentieth of grace early: killing takes a moment too, and all
// has to be over when grace is.
func New(args []string, o Options) func(context.Context, jobs.Run) error {
	o.Grace -= o.Grace / 20
	return command{args, newBudget(), o}.run
}

func (c command) run(ctx context.Context, run jobs.Run) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	first := c.trust(ctx)
	if first.over {
		return fmt.Errorf("not started: %w", c.cause(ctx, 0))
	}
	env, err := values(c.Env)
	if err != nil {
		return fmt.Errorf("not started: %w", err)
	}
	if c.Trace != nil {
		env = append(c.Trace(ctx), env...)
	}
	out := newOutput(jobs.Output(ctx), c.budget, c.Log.With(
		zap.String("group", run.Group), zap.String("owner", run.Owner), zap.Uint64("token", run.Token),
		zap.String("job", run.Job), zap.Time("tick", run.Tick), zap.Int("attempt", run.Attempt),
	))
	guard, err := start(run, out)
	if err != nil {
		return fmt.Errorf("start the guard of the job: %w", err)
	}
	// An error of a write means that the guard is gone, which its report tells.
	_ = guard.say(order{
		Args: c.args, Env: env, Dir: c.Dir, Umask: c.Umask, User: c.User, Limits: c.Limits,
		Grace: c.Grace, Until: first.until,
	})
	withdraw := context.AfterFunc(ctx, func() { _ = guard.stop() })
	ended := make(chan struct{})
	var vouching sync.WaitGroup
	if c.Trust != nil {
		vouching.Go(func() { c.vouch(ctx, first.renewed, guard, ended) })
	}
	end := guard.wait()
	withdraw()
	close(ended)
	vouching.Wait()
	out.flush()
	return c.judge(ctx, end, out)
}

// trusted is how long a run is trusted, as its guard is told.
type trusted struct {
	until   time.Duration // by the clock, which the guard has too; zero: without an end
	over    bool          // that time has come
	spare   time.Duration
	renewed <-chan struct{}
}

// trust is how long the run is trusted.
//
// The clock is read first: a pause between the two then makes the time too early
// and never too late.
func (c command) trust(ctx context.Context) trusted {
	if c.Trust == nil {
		return trusted{}
	}
	now := clock()
	t := c.Trust(ctx)
	return trusted{now + t.Left, t.Left <= 0, t.Spare, t.Renewed}
}

// vouch tells the guard how long the term is trusted, after each heartbeat, until the
// run or the trust ends.
func (c command) vouch(ctx context.Context, renewed <-chan struct{}, guard *process, ended <-chan struct{}) {
	for {
		select {
		case <-renewed:
		case <-ctx.Done():
			return
		case <-ended:
			return
		}
		t := c.trust(ctx)
		if t.over || guard.say(order{Until: t.until, Spare: t.spare}) != nil {
			return
		}
		renewed = t.renewed
	}
}

// cause is why a run that its guard did not trust any more is over: that of the
// context, whose end may come a moment later in a process that was paused, or that
// the news came too late. spare is what the guard has heard since.
func (c command) cause(ctx context.Context, spare time.Duration) error {
	if t := c.trust(ctx); !t.over {
		return cutShort(cmp.Or(spare, t.spare))
	}
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return lease.ErrLost // no term, or the scheduler is stuck
	}
}

// judge turns the end of a run into the job's error.
func (c command) judge(ctx context.Context, end report, out *output) error {
	cause := context.Cause(ctx)
	if end.Untrusted {
		cause = c.cause(ctx, end.Spare)
	}
	exit := &ExitError{Code: end.Code, Signal: end.Signal, Output: out.tail()}
	switch {
	case end.Problem != "":
		return errors.New(end.Problem)
	case !end.Ended:
		return fmt.Errorf("the guard of the job was killed, and the job with it; what left its %s may still run%s", killedWithGuard, lastOutput(exit.Output))
	case end.Untrusted && end.Group == 0:
		return fmt.Errorf("not started: %w", cause)
	case end.Killed:
		return fmt.Errorf("killed, because it had not stopped %v after SIGTERM: %w%s", c.Grace, cause, lastOutput(exit.Output))
	case end.Stopped:
		return fmt.Errorf("stopped (%s): %w%s", exit.how(), cause, lastOutput(exit.Output))
	case end.Code != 0 || end.Signal != "":
		return exit
	default:
		return nil
	}
}

// order is what the worker tells the guard: first what to run, and later any
// number of orders with a new Until, and one to Stop.
type order struct {
	Args   []string      `json:",omitempty"`
	Env    []string      `json:",omitempty"` // beside that of the guard
	Dir    string        `json:",omitempty"`
	Umask  *int          `json:",omitempty"`
	User   string        `json:",omitempty"`
	Limits Limits        `json:",omitzero"`
	Grace  time.Duration `json:",omitempty"`
	Until  time.Duration `json:",omitempty"` // when to stop by itself, by [clock]; zero: never
	Spare  time.Duration `json:",omitempty"` // how much trust was left when this was known
	Stop   bool          `json:",omitempty"`
}

// report is what the guard tells the worker: when the job runs, and when all of
// it has ended.
type report struct {
	Group     int    `json:",omitempty"` // the job's process group, while it runs
	Problem   string `json:",omitempty"` // why it could not be started
	Ended     bool   `json:",omitempty"`
	Code      int    `json:",omitempty"`
	Signal    string `json:",omitempty"`
	Stopped   bool   `json:",omitempty"` // the job was asked to stop before it ended
	Untrusted bool   `json:",omitempty"` // by the guard itself, because Until had come
	Killed    bool   `json:",omitempty"` // and had to be killed

	Spare time.Duration `json:",omitempty"` // of the first order that came after that
}

// process is a guard, as the worker sees it.
type process struct {
	cmd     *exec.Cmd
	control *os.File
	status  *os.File
}

// start starts a guard. The guard gets the part of the job's environment that is
// not secret. The rest is sent in its order, so that other jobs cannot read it from
// the guard's environment.
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
	cmd.SysProcAttr = guardAttributes()
	cmd.WaitDelay = time.Second // for pipes in the hands of what cannot be killed
	err = startOwn(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
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

// stop asks for the job to be stopped.
func (p *process) stop() error {
	// A guard that was stopped by a signal could not read the order, and the pipe
	// could be full of earlier ones.
	err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGCONT)
	return errors.Join(err, p.say(order{Stop: true}))
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
	default:
		killOrphans(p.cmd.Process.Pid, end.Group)
	}
	_ = p.cmd.Wait() // how the guard itself ended does not matter any more
	disown(p.cmd.Process.Pid)
	_ = p.control.Close()
	_ = p.status.Close()
	return end
}

// Environment returns the variables of a job: PATH, HOME, USER, LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ and TMPDIR as
// the worker has them, and CRONLEASE_GROUP, CRONLEASE_JOB, CRONLEASE_TICK (RFC 3339, UTC), CRONLEASE_OWNER,
// CRONLEASE_TOKEN, CRONLEASE_ATTEMPT, CRONLEASE_LAST_ATTEMPT (true or false), CRONLEASE_PREVIOUS_STATE and
// CRONLEASE_PREVIOUS_ERROR (empty for the first attempt), CRONLEASE_MISSED, CRONLEASE_TRIGGER (0 for a tick of the
// schedule), CRONLEASE_SHARD and CRONLEASE_SHARDS (0 unless the run is a shard) and CRONLEASE_ARGS (empty unless the
// run has arguments). These fit: Linux takes a variable of up to 128 KiB.
func Environment(own []string, run jobs.Run) []string {
	var env []string
	for _, variable := range own {
		if name, _, _ := strings.Cut(variable, "="); Passed(name) {
			env = append(env, variable)
		}
	}
	previous := ""
	if run.Previous.State != 0 {
		previous = run.Previous.State.String()
	}
	return append(env,
		"CRONLEASE_GROUP="+run.Group,
		"CRONLEASE_JOB="+run.Job,
		"CRONLEASE_TICK="+run.Tick.UTC().Format(time.RFC3339Nano),
		"CRONLEASE_OWNER="+run.Owner,
		fmt.Sprintf("CRONLEASE_TOKEN=%d", run.Token),
		fmt.Sprintf("CRONLEASE_ATTEMPT=%d", run.Attempt),
		fmt.Sprintf("CRONLEASE_LAST_ATTEMPT=%t", run.LastAttempt),
		"CRONLEASE_PREVIOUS_STATE="+previous,
		"CRONLEASE_PREVIOUS_ERROR="+strings.ReplaceAll(run.Previous.Error, "\x00", ""),
		fmt.Sprintf("CRONLEASE_MISSED=%d", run.Missed),
		fmt.Sprintf("CRONLEASE_TRIGGER=%d", run.Trigger),
		fmt.Sprintf("CRONLEASE_SHARD=%d", run.Shard),
		fmt.Sprintf("CRONLEASE_SHARDS=%d", run.Shards),
		"CRONLEASE_ARGS="+string(run.Args),
	)
}
