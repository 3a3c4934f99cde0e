// Package demo shows takeovers: three workers, as processes of their own, share
// one lease, and the leader is killed every few seconds; or they share the runs, and any of them is.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

const (
	replicas = 3
	// ttl is short, so that takeovers are.
	ttl = 2 * time.Second
	// every is the time between two ticks of the demo's job.
	every = time.Second
	// lookEvery is the time between two looks at the lease, which show a takeover.
	lookEvery = 10 * time.Millisecond
	// restartAfter is how long a killed replica stays away.
	restartAfter = time.Second
	// stopLimit is how long replicas may take to stop at the end.
	stopLimit = 2*ttl + 3*time.Second
)

// What a demo must never see.
var (
	// ErrDoubles says that a tick ran more than once.
	ErrDoubles = errors.New("demo: a tick ran more than once")
	// ErrMissed says that a tick between the first and the last was lost.
	ErrMissed = errors.New("demo: a tick is missing")
)

// jobName is the name of the demo's job.
const jobName = "tick"

// Options says what to show. All but For and KillEvery are required.
type Options struct {
	Program  string          // the worker program, for the replicas
	Database config.Database // with its tables
	Store    store.Leases    // the same one
	History  History         // its ledger
	Group    string
	Folder   string // for the replicas' configuration
	// For is when the demo ends by itself; zero means never.
	For time.Duration
	// KillEvery is the time between two kills; zero means none.
	KillEvery time.Duration
	// Spread: the runs of the group are spread over the workers.
	Spread bool
	Out    io.Writer
	// Size returns the size of the terminal that Out is, and is nil when Out is
	// none: then there is no board, but a line for each event.
	Size func() (width, height int)
}

// History is what a demo reads of the ledger.
type History interface {
	Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error)
}

// show is a demo while it runs. One goroutine, that of Run, owns it.
type show struct {
	Options
	began    time.Time
	replicas []*replica
	tally    tally
	leader   election.Leadership
	lookedAt time.Time // when leader was read
	killed   struct {
		at    time.Time
		token uint64
		name  string
	}
	board  *board // nil without a terminal
	recent []ran  // the last ticks
	work   *work  // nil: the group is not spread
	turn   int    // how many kills there were

	followers sync.WaitGroup // of the processes
	exits     chan *process
	notes     chan string
	done      <-chan struct{} // closed when the two channels are not read any more
}

// ran is a run of a tick, as the job reported it.
type ran struct {
	tick    time.Time
	replica string
	token   uint64
	at      time.Time
}

// look is one reading of the lease.
type look struct {
	leader election.Leadership
	at     time.Time
	err    error
}

// Run shows the demo until ctx ends or its time is over, stops the replicas,
// prints what was seen and returns that. [ErrDoubles] and [ErrMissed]: a tick ran
// more than once, or never, which must not be. Any other error means that the
// demo could not be shown to its end.
func Run(ctx context.Context, o Options) (Summary, error) {
	s := &show{
		Options: o, began: time.Now(),
		exits: make(chan *process), notes: make(chan string),
	}
	if s.tally.spread = o.Spread; o.Spread {
		s.work = &work{path: "/" + rand.Text(), events: make(chan worked), going: map[string][]string{}}
	}
	if o.Size != nil {
		s.board = &board{out: o.Out, size: o.Size}
	}
	// What runs beside the loop ends with this.
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	defer s.followers.Wait()
	defer wait.Wait()
	defer cancel()
	s.done = beside.Done()

	ticks := make(chan ran)
	file, stop, err := s.serve(beside, ticks, &wait)
	if err != nil {
		return Summary{}, err
	}
	defer stop()
	looks := make(chan look)
	wait.Go(func() { watch(beside, o.Store, o.Group, looks) })

	err = s.start(file)
	if err == nil {
		err = s.loop(ctx, ticks, looks)
	}
	end := time.Now()
	err = errors.Join(err, s.stop(ticks, looks))
	summary := s.tally.summary(s.began, end)
	if err != nil {
		return summary, err
	}
	if summary.Missed > 0 {
		// One that was running when its worker was killed may not have got as far
		// as to report.
		summary.Interrupted, err = s.interrupted(context.WithoutCancel(ctx))
		if err != nil {
			return summary, err
		}
		summary.Missed -= summary.Interrupted
	}
	if s.board != nil {
		fmt.Fprintln(o.Out)
	}
	if w := s.work; w != nil {
		summary.Work = &Work{Done: w.done, Killed: w.killed, CutOthers: w.cutOthers}
	}
	if _, err := fmt.Fprint(o.Out, summary); err != nil {
		return summary, err
	}
	switch {
	case summary.Doubles > 0:
		err = ErrDoubles
	case summary.Missed > 0:
		err = ErrMissed
	}
	return summary, err
}

// interrupted counts the ticks that did not report, and of which the ledger
// knows why.
func (s *show) interrupted(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	count := 0
	for _, state := range []jobs.State{jobs.Interrupted, jobs.Cancelled} {
		records, err := s.History.Runs(ctx, s.Group, jobs.Filter{Job: jobName, State: state, Limit: 10_000})
		if err != nil {
			return 0, fmt.Errorf("read what became of the missing ticks: %w", err)
		}
		for _, r := range records {
			if s.tally.lacks(r.Tick) {
				count++
			}
		}
	}
	return count, nil
}

// serve listens for the job's reports and writes the configuration of a job
// that sends them.
func (s *show) serve(ctx context.Context, ticks chan<- ran, wait *sync.WaitGroup) (file string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for ticks: %w", err)
	}
	path := "/" + rand.Text() // so that no other program's requests count
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		tick, err := time.Parse(time.RFC3339Nano, r.Header.Get("Cronlease-Tick"))
		token, err2 := strconv.ParseUint(r.Header.Get("Cronlease-Token"), 10, 64)
		if err := errors.Join(err, err2); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case ticks <- ran{tick, nameOf(r.Header.Get("Cronlease-Owner")), token, time.Now()}:
		case <-ctx.Done():
		}
	})
	mode, more := "", ""
	if s.work != nil {
		mux.HandleFunc("POST "+s.work.path, s.work.serve(ctx))
		mode, more = fmt.Sprintf("spread: true\ndrain: %v\n", workTakes+time.Second), s.work.jobs(listener.Addr().String())
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	wait.Go(func() { _ = server.Serve(listener) }) // ends with Close
	stop = func() { _ = server.Close() }

	// The ticks of a gap run one after the other, so that they are shown in their order.
	file = filepath.Join(s.Folder, "worker.yaml")
	text := fmt.Sprintf("database: ${%s}\ngroup: %s\nlease: {ttl: %v}\n%sjobs:\n"+
		"  - name: %s\n    every: %v\n    misfire: all\n    timeout: 10s\n    http: {url: \"http://%s%s\"}\n%s",
		databaseVariable, s.Group, ttl, mode, jobName, every, listener.Addr(), path, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		stop()
		return "", nil, fmt.Errorf("write the configuration of the replicas: %w", err)
	}
	return file, stop, nil
}

// watch reads which worker leads, until ctx ends.
func watch(ctx context.Context, leases store.Leases, group string, looks chan<- look) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		l, err := election.Leader(ctx, leases, group)
		select {
		case looks <- look{l, time.Now(), err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *show) start(file string) error {
	what := "one lease"
	if s.work != nil {
		what = "the runs of one group"
	}
	s.say("%d workers share %s in %v", replicas, what, s.Database)
	switch {
	case s.KillEvery > 0 && s.work != nil:
		s.say("one of them is killed every %v, with a TTL of %v: watch the runs of the others go on", s.KillEvery, ttl)
	case s.KillEvery > 0:
		s.say("the leader is killed every %v, with a TTL of %v: watch another one take over", s.KillEvery, ttl)
	}
	for i := range replicas {
		r := &replica{name: fmt.Sprintf("replica-%d", i+1), program: s.Program, file: file, database: s.Database.URL()}
		s.replicas = append(s.replicas, r)
		if err := s.startReplica(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) startReplica(r *replica) error {
	p, log, err := r.start()
	if err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	s.followers.Go(func() {
		p.log = follow(log, func(note string) {
			select {
			case s.notes <- p.name + ": " + note:
			case <-s.done:
			}
		})
		p.err = p.cmd.Wait()
		select {
		case s.exits <- p:
		case <-s.done:
		}
	})
	s.say("%s starts (pid %d)", r.name, r.process.pid())
	return nil
}

// loop is the demo until its end.
func (s *show) loop(ctx context.Context, ticks <-chan ran, looks <-chan look) error {
	var end, kill <-chan time.Time
	if s.For > 0 {
		end = time.After(s.For)
	}
	if s.KillEvery > 0 {
		timer := time.NewTicker(s.KillEvery)
		defer timer.Stop()
		kill = timer.C
	}
	killDue := false
	var works chan worked
	if s.work != nil {
		works = s.work.events
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return nil
		case <-kill:
			killDue = true
		case r := <-ticks:
			s.ticked(r)
		case e := <-works:
			s.worked(e)
		case l := <-looks:
			s.looked(l)
			if err := s.restart(l.at); err != nil {
				return err
			}
		case note := <-s.notes:
			s.say("%s", note)
		case p := <-s.exits:
			if !s.forget(p) {
				break
			}
			return fmt.Errorf("%s has ended by itself: %w", p.name, p.problem())
		}
		if killDue && s.kill() {
			killDue = false
		}
		s.draw()
	}
}

func (s *show) ticked(r ran) {
	double := s.tally.add(r)
	s.recent = append(s.recent, r)
	if len(s.recent) > 20 {
		s.recent = s.recent[1:]
	}
	switch {
	case double:
		s.say("DOUBLE: tick %s has run again on %s, token %d", r.tick.Format(time.TimeOnly), r.replica, r.token)
	case s.board == nil:
		s.say("tick %s ran on %s, token %d", r.tick.Format(time.TimeOnly), r.replica, r.token)
	}
}

func (s *show) looked(l look) {
	if l.err != nil {
		s.say("cannot read the lease: %v", l.err)
		return
	}
	before := s.leader
	s.leader, s.lookedAt = l.leader, l.at
	if !l.leader.Held() || l.leader.Token == before.Token {
		return
	}
	s.tally.term(l.leader.Token)
	how := ""
	if !s.killed.at.IsZero() {
		how = fmt.Sprintf(", %d ms after %s was killed", l.at.Sub(s.killed.at).Milliseconds(), s.killed.name)
	}
	s.say("%s leads under token %d%s", nameOf(l.leader.Owner), l.leader.Token, how)
}

// kill kills the leader, if there is one that has not been killed yet. In a group that is spread, each second time it kills another
// worker.
func (s *show) kill() bool {
	if !s.leader.Held() || s.leader.Token == s.killed.token {
		return false
	}
	spares := s.work != nil && s.turn%2 == 0 // the leader
	for _, r := range s.replicas {
		if r.process == nil || r.owns(s.leader.Owner) == spares || spares && s.work.of(r) == idle {
			continue
		}
		s.turn++
		who := "a follower"
		if !spares {
			s.killed.at, s.killed.token, s.killed.name = time.Now(), s.leader.Token, r.name
			who = "the leader"
		}
		pid, others := r.process.pid(), ""
		if s.work != nil {
			others = "; " + s.work.others(r, s.replicas)
		}
		r.kill()
		s.say("%s, %s (pid %d), is killed with SIGKILL%s", r.name, who, pid, others)
		return true
	}
	return false
}

// restart starts what was killed a moment ago.
func (s *show) restart(now time.Time) error {
	for _, r := range s.replicas {
		if r.process == nil && now.Sub(r.killedAt) >= restartAfter {
			if err := s.startReplica(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop stops the replicas and waits for them.
func (s *show) stop(ticks <-chan ran, looks <-chan look) error {
	s.say("the workers are asked to stop")
	running := 0
	for _, r := range s.replicas {
		if r.process != nil {
			r.process.terminate()
			running++
		}
	}
	most := stopLimit
	var works chan worked
	if s.work != nil {
		most, works = most+workTakes, s.work.events
	}
	limit := time.NewTimer(most)
	defer limit.Stop()
	var wrong []error
	for running > 0 {
		select {
		case r := <-ticks: // new ones are not counted any more, nor are hand-overs between stopping workers
			s.tally.late(r)
		case e := <-works:
			s.worked(e)
		case <-looks:
		case note := <-s.notes:
			s.say("%s", note)
		case p := <-s.exits:
			if !s.forget(p) {
				break
			}
			running--
			if p.err != nil {
				wrong = append(wrong, fmt.Errorf("%s did not stop cleanly: %w", p.name, p.problem()))
			}
		case <-limit.C:
			wrong = append(wrong, fmt.Errorf("killed, because they did not stop within %v", most))
			for _, r := range s.replicas {
				if r.process != nil {
					_ = r.process.cmd.Process.Kill() // an error means that it has ended
				}
			}
		}
		s.draw()
	}
	return errors.Join(wrong...)
}

// forget notes that a process has ended, and reports whether it was a replica's
// present one: one that was killed is not.
func (s *show) forget(p *process) bool {
	for _, r := range s.replicas {
		if r.process == p {
			r.process = nil
			return true
		}
	}
	return false
}

// say tells of an event.
func (s *show) say(format string, args ...any) {
	line := fmt.Sprintf("%5.1fs  ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	if s.board != nil {
		s.board.event(line)
		return
	}
	fmt.Fprintln(s.Out, line)
}

func (s *show) draw() {
	if s.board != nil {
		s.board.draw(s, time.Now())
	}
}
