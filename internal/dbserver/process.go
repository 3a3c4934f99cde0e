package dbserver

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// process is a started server program.
type process struct {
	cmd  *exec.Cmd
	log  *tail
	done chan struct{} // closed when the process has ended and its output is read
}

// start starts the command so that it ends with this process.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, log: &tail{wanted: logReady, found: make(chan struct{})}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	err := subprocess.Go(cmd, func() {
		defer close(p.done)
		_ = cmd.Wait() // how a server ends does not matter, and its log says more
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// runLocked is cmd.Run for a command that ends with this process.
func runLocked(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	if err := subprocess.Go(cmd, func() { result <- cmd.Wait() }); err != nil {
		return err
	}
	return <-result
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// whileRunning calls do with a context that ends with the process, whose cause then is ErrNotRunning.
func (p *process) whileRunning(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-p.done:
			cancel(ErrNotRunning)
		case <-over:
		}
	}()
	return do(ctx)
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.done
	return nil
}

func (p *process) stop(ctx context.Context) error {
	err := errors.Join(subprocess.Terminate(p.cmd.Process), subprocess.Resume(p.cmd.Process))
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", p.cmd.Process.Pid, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.kill())
	}
}

// tailSize is how much of a log is kept.
const tailSize = 64 << 10

// tail keeps the end of what is written to it, and closes found when wanted has been written.
type tail struct {
	wanted string // nothing is looked for when empty
	found  chan struct{}

	mu   sync.Mutex // guards all below
	text []byte
	seen bool
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := max(0, len(t.text)-len(t.wanted))
	t.text = append(t.text, p...)
	if t.wanted != "" && !t.seen && bytes.Contains(t.text[from:], []byte(t.wanted)) {
		t.seen = true
		close(t.found)
	}
	if excess := len(t.text) - tailSize; excess > 0 {
		t.text = append(t.text[:0], t.text[excess:]...)
	}
	return len(p), nil
}

// String returns what is kept, without the last newline.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimRight(string(t.text), "\n")
}

// openDB is sql.Open without the driver's global name.
func openDB(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	return sql.OpenDB(connector), nil
}
