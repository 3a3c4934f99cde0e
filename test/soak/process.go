//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// answerLimit is how long a worker may take to answer, or to end. It takes milliseconds, and for a resignation and the
// end as long as its jobs need to stop.
const answerLimit = time.Minute

// process is a started worker, seen from outside. Its methods are safe for concurrent use: one question at a time.
type process struct {
	label string
	cmd   *exec.Cmd
	said  bytes.Buffer // on standard error; read after the end

	mu      sync.Mutex // guards what follows
	in      io.WriteCloser
	out     *os.File
	answers *json.Decoder
	counts  counts       // as it told last, without ticks
	ticks   []secondTick // told, and not taken yet
	over    bool
}

// start starts a worker.
func start(o orders) (*process, error) {
	p, err := startProcess(o)
	if err != nil {
		return nil, fmt.Errorf("start worker %s: %w", o.Label, err)
	}
	return p, nil
}

func startProcess(o orders) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	first, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p := &process{label: o.Label, cmd: exec.Command(program), out: out, answers: json.NewDecoder(out)}
	p.cmd.Env = append(os.Environ(), workerVariable+"=1")
	p.cmd.Stdout, p.cmd.Stderr = theirs, &p.said
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	if _, err := p.in.Write(append(first, '\n')); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// pid is the process's id.
func (p *process) pid() int { return p.cmd.Process.Pid }

// ask asks the worker something and returns what it answers. After an error it has ended.
func (p *process) ask(question string) (report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return report{}, fmt.Errorf("worker %s has ended", p.label)
	}
	if _, err := io.WriteString(p.in, question+"\n"); err != nil {
		return report{}, p.trouble(err)
	}
	return p.hear()
}

// hear reads an answer. It is called with mu held.
func (p *process) hear() (report, error) {
	var r report
	err := p.out.SetReadDeadline(time.Now().Add(answerLimit))
	if err == nil {
		err = p.answers.Decode(&r)
	}
	if err != nil {
		return r, p.trouble(err)
	}
	p.ticks = append(p.ticks, r.Counts.Ticks...)
	p.counts, p.counts.Ticks = r.Counts, nil
	return r, nil
}

// trouble ends a process that does not answer as it should, and returns its output.
func (p *process) trouble(err error) error {
	return errors.Join(fmt.Errorf("worker %s: no answer: %w", p.label, err), p.kill())
}

// kill ends the process at once, and returns its output.
func (p *process) kill() error {
	_ = p.cmd.Process.Kill() // it may have ended
	return p.wait()
}

func (p *process) wait() error {
	p.over = true
	err := errors.Join(p.cmd.Wait(), p.out.Close())
	if err != nil {
		return fmt.Errorf("worker %s: %w: %s", p.label, err, strings.TrimSpace(p.said.String()))
	}
	return nil
}

// stop asks the worker to end, and returns its last report when it has. It does nothing to one that has ended.
func (p *process) stop() (report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return report{}, nil
	}
	_ = p.in.Close() // Wait closes it too, if it comes to that
	r, err := p.hear()
	if err != nil {
		return r, err
	}
	return r, p.wait()
}

// counted returns what the process has done since its start, as it told last, without ticks.
func (p *process) counted() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// newTicks returns the ticks that it has told since the last call.
func (p *process) newTicks() []secondTick {
	p.mu.Lock()
	defer p.mu.Unlock()
	ticks := p.ticks
	p.ticks = nil
	return ticks
}
