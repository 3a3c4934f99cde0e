package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// processVariable makes this program a process that executes commands.
const processVariable = "CRONLEASE_MYSQLLOCKS_PROCESS"

// orders is the first line that such a process reads. The DSN is not among its
// arguments, where all users of the machine could read it.
type orders struct {
	Kind  string
	DSN   string
	Key   string
	Lease time.Duration
}

// obey reads orders and then commands, and answers each with a line. It ends
// with its input.
func obey(in io.Reader, out io.Writer) (err error) {
	lines := bufio.NewScanner(in)
	var o orders
	if !lines.Scan() {
		return lines.Err()
	}
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return err
	}
	k, err := kindOf(o.Kind)
	if err != nil {
		return err
	}
	config, err := parse(o.DSN)
	if err != nil {
		return err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	ctx := context.Background()
	w, err := k.open(db, o.Lease)
	if err != nil {
		return err
	}
	if c, ok := w.(closer); ok {
		defer func() { err = errors.Join(err, c.Close(ctx)) }()
	}
	var held Held
	for lines.Scan() {
		switch lines.Text() {
		case "hold":
			held, err = hold(ctx, w, o.Key)
		case "lock":
			fmt.Fprintln(out, "waiting")
			held, err = w.Lock(ctx, o.Key)
		case "act":
			var accepted bool
			accepted, err = act(ctx, db, held)
			fmt.Fprintln(out, "accepted", accepted)
		case "unlock":
			err = held.Unlock(ctx)
		default:
			err = errors.New("what?")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		fmt.Fprintln(out, "done", time.Now().UnixNano())
	}
	return lines.Err()
}

// process is another process that uses the same way. Its methods are for one
// goroutine.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when the process has ended
	end   error       // after that
}

// start starts a process. It is killed when the trial ends.
func (t *trial) start(lease time.Duration, changes ...change) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program), lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(), processVariable+"=1")
	var errs strings.Builder
	p.cmd.Stderr = &errs
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	err = subprocess.Go(p.cmd, func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
		p.end = fmt.Errorf("the process ended: %w: %s", errors.Join(p.cmd.Wait(), io.EOF), strings.TrimSpace(errs.String()))
		close(p.lines)
	})
	if err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	t.ends = append(t.ends, func(context.Context) error { p.kill(); return nil })
	first, err := json.Marshal(orders{t.kind.name, t.with(changes).FormatDSN(), t.key, lease})
	if err != nil {
		return nil, err
	}
	return p, p.say(string(first))
}

// say sends a line.
func (p *process) say(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// hear reads a line of this format, and its values into a.
func (p *process) hear(ctx context.Context, format string, a ...any) error {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return p.end
		}
		if _, err := fmt.Sscanf(line, format, a...); err != nil {
			return fmt.Errorf("the process answered %q: %w", line, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do has the process do something, and returns when it was done.
func (p *process) do(ctx context.Context, command string) error {
	if err := p.say(command); err != nil {
		return err
	}
	_, err := p.done(ctx)
	return err
}

// done hears when something was done, by the process's clock, which is this
// one's.
func (p *process) done(ctx context.Context) (time.Time, error) {
	var nanos int64
	err := p.hear(ctx, "done %d", &nanos)
	return time.Unix(0, nanos), err
}

// kill ends the process as a crash does, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.in.Close()
	for range p.lines {
	}
}
