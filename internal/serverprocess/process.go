// Package serverprocess runs the process of a private server for tests: it has a folder and a port on loopback for as
// long as it is needed, and ends with the process that started it.
package serverprocess

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/subprocess"
)

// portTries is how many ports a server tries.
const portTries = 20

// Place is what a server has for itself.
type Place struct {
	Folder string
	Port   int
}

// Addr is where the server listens.
func (p Place) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)) }

// Process is the process of a server, which may be started and ended again and again. Its methods happen one at a time.
type Process struct {
	name    string
	command func(Place) (*exec.Cmd, error)
	ready   func(ctx context.Context, at Place, pid int) bool

	mu    sync.Mutex // guards all below
	place Place      // empty until the first Start
	cmd   *exec.Cmd  // nil: it does not run
	ended chan struct{}
}

// New returns a process that does not run. Command has what is started in a place. Ready is asked every 10 ms until the
// process with that id answers there: another server may have the port.
func New(name string, command func(Place) (*exec.Cmd, error), ready func(ctx context.Context, at Place, pid int) bool) *Process {
	return &Process{name: name, command: command, ready: ready}
}

// Find returns the path of a program: what the variable names, or else the first of names that there is. The error is
// none if there is none, and the reason if what the variable names cannot be used.
func Find(variable string, names []string, none error) (string, error) {
	if given := os.Getenv(variable); given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("use %s: %w", variable, err)
		}
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", none
}

// Addr is where the server listens, once it was started.
func (p *Process) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.place.Addr()
}

// Folder is the server's folder; it is empty before the first Start.
func (p *Process) Folder() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.place.Folder
}

// Start starts the server, at the address and in the folder of before, and returns when it is ready.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.place.Folder == "" {
		folder, err := os.MkdirTemp("", "cronlease-"+p.name+"-")
		if err != nil {
			return fmt.Errorf("create a server's folder: %w", err)
		}
		p.place.Folder = folder
	}
	chosen := p.place.Port != 0
	var err error
	for range portTries {
		if !chosen {
			p.place.Port = dbserver.RandomPort()
		}
		if err = p.start(ctx); err == nil || chosen || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (p *Process) start(ctx context.Context) error {
	cmd, err := p.command(p.place)
	if err != nil {
		return fmt.Errorf("configure a server: %w", err)
	}
	ended := make(chan struct{})
	if err := subprocess.Go(cmd, func() { _ = cmd.Wait(); close(ended) }); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if p.ready(ctx, p.place, cmd.Process.Pid) {
			p.cmd, p.ended = cmd, ended
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("start %s on port %d: it ended", p.name, p.place.Port)
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			<-ended
			return fmt.Errorf("start %s: %w", p.name, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Running reports whether the server was started, and neither stopped nor killed since.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Kill kills the server, which may lose its last writes.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill()
}

func (p *Process) kill() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	p.cmd = nil
	return nil
}

// Stop ends the server as an operator does, and returns when it has ended.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return dbserver.ErrNotRunning
	}
	if err := subprocess.Terminate(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		p.cmd = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", p.name, ctx.Err())
	}
}

// Pause stops the process where it is: its connections stay open, and nothing is answered until Resume.
func (p *Process) Pause() error { return p.signal(subprocess.Suspend) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(subprocess.Resume) }

func (p *Process) signal(send func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return dbserver.ErrNotRunning
	}
	return send(p.cmd.Process)
}

// Close kills the server and removes its folder.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errors.Join(p.kill(), os.RemoveAll(p.place.Folder))
	// A child that dumps the data of Redis goes on for a moment, and may have written a file in between.
	for try := 0; errors.Is(err, syscall.ENOTEMPTY) && try < 100; try++ {
		<-time.After(10 * time.Millisecond)
		err = os.RemoveAll(p.place.Folder)
	}
	return err
}
