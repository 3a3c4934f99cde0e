package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/subprocess"
)

// slot is the place of one player: its links to each server, and its process, which is replaced when it ends.
type slot struct {
	round   *round
	name    string
	dsn     string
	odd     bool            // the schedule of its next process's job text
	proxies []*dbtest.Proxy // one for each server

	mu      sync.Mutex // guards all below
	starts  int
	process *child
}

// child is one start of a player.
type child struct {
	worker string
	cmd    *exec.Cmd
	orders io.Writer
	ended  chan struct{} // closed when it has, and all that it wrote was read

	mu     sync.Mutex // guards all below
	wanted bool       // it was told to end
	paused bool
}

// start starts the next process, if there is none.
func (s *slot) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return
	}
	s.starts++
	p := &child{worker: fmt.Sprintf("%s.%d", s.name, s.starts), ended: make(chan struct{})}
	config, err := json.Marshal(Player{Worker: p.worker, DSN: s.dsn, TTL: s.round.ttl, Grace: s.round.grace, MaxSkew: s.round.maxSkew, Spread: s.round.spread, Odd: s.odd})
	if err != nil {
		s.round.broken("start a player: %v", err)
		return
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), playerVariable+"="+string(config))
	var complaints strings.Builder
	p.cmd.Stderr = &complaints
	p.orders, err = p.cmd.StdinPipe()
	if err != nil {
		s.round.broken("start a player: %v", err)
		return
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		s.round.broken("start a player: %v", err)
		return
	}
	s.round.work.Add(1)
	err = subprocess.Go(p.cmd, func() {
		defer s.round.work.Done()
		defer close(p.ended)
		if err := ReadEvents(out, s.round.record); err != nil {
			s.round.broken("%s: %v", p.worker, err)
		}
		err := p.cmd.Wait()
		p.mu.Lock()
		wanted := p.wanted
		p.mu.Unlock()
		switch {
		case wanted:
		case p.cmd.ProcessState.ExitCode() == unfit:
			s.round.work.Go(func() { s.startAfter(p) })
		default:
			s.round.broken("%s ended by itself: %v\n%s", p.worker, err, complaints.String())
		}
	})
	if err != nil {
		s.round.work.Done()
		s.round.broken("start a player: %v", err)
		return
	}
	s.process = p
}

// restart is start, and returns when the process has begun. Another fault may have started it before, or end it at once.
func (s *slot) restart() {
	s.start()
	if p := s.now(); p != nil {
		if _, ok := s.round.wait(0, patience, func(e Event) bool {
			return e.Worker == p.worker && slices.Contains([]Kind{Up, Killed, Down}, e.Kind)
		}); !ok {
			s.round.broken("%s does not begin", p.worker)
		}
	}
}

// startAfter starts the next process if this one is still the slot's.
func (s *slot) startAfter(p *child) {
	s.round.rest(s.round.ttl / 10)
	s.mu.Lock()
	mine := s.process == p
	if mine {
		s.process = nil
	}
	s.mu.Unlock()
	if mine {
		s.start()
	}
}

// now is the slot's process; nil if there is none.
func (s *slot) now() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// kill ends the slot's process as a crash would.
func (s *slot) kill() {
	if p := s.take(); p != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
		s.round.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Killed})
	}
}

// terminate ends it as a deployment would, and by force if it does not end for long.
func (s *slot) terminate() {
	p := s.take()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.cmd.ProcessState.ExitCode() != 0 { // a run has not stopped in time
			s.round.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Killed})
		}
	case <-time.After(s.round.ttl*4 + 10*time.Second):
		s.round.broken("%s does not end on SIGTERM", p.worker)
		_ = p.cmd.Process.Kill()
		<-p.ended
		s.round.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Killed})
	}
}

// order tells the process something, unless it has ended.
func (p *child) order(o Order) {
	_ = json.NewEncoder(p.orders).Encode(o)
}

// take takes the process out of the slot, awake: no other goroutine signals it from here on.
func (s *slot) take() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	s.process = nil
	if p != nil {
		s.round.resume(p)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wanted = true
	}
	return p
}

// pause stops the process where it is.
func (r *round) pause(p *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused || p.wanted {
		return
	}
	if subprocess.Suspend(p.cmd.Process) == nil {
		p.paused = true
		r.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Paused})
	}
}

// resume lets it go on.
func (r *round) resume(p *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		return
	}
	p.paused = false
	r.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Resumed})
	_ = subprocess.Resume(p.cmd.Process)
}
