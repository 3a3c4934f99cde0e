package performance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// playerVariable makes the test program a player: a process with a scheduler.
const playerVariable = "CRONLEASE_PERFORMANCE_PLAYER"

const group = "performance"

// spec is what a player is to do.
type spec struct {
	DSN string
	TTL time.Duration
	// Spread: the group's runs are spread over its players.
	Spread bool
	// Ticks: there is a job of each second.
	Ticks bool
	// Waiting is how many jobs there are that are not due.
	Waiting int
	// Long is how many jobs there are that run until their context ends.
	Long int
}

// waitingJobs are so many jobs that are not due.
func waitingJobs(n int) []jobs.Job {
	var all []jobs.Job
	for i := range n {
		all = append(all, jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Cron("0 0 0 1 1 *"), Do: func(context.Context, jobs.Run) error { return nil }})
	}
	return all
}

func longJob(i int) string { return fmt.Sprint("long-", i) }

// event is what a player tells, with the time of the one clock of this machine.
type event struct {
	What string // leading, following, start, end
	At   int64
	Job  string
	Tick int64
	// Attempt is that of a run.
	Attempt int
}

// play runs the scheduler until the end of standard input.
func play(text string) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	store, err := mysqlstore.Open(s.DSN)
	if err != nil {
		return err
	}
	defer store.Close()
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(e event) {
		e.At = time.Now().UnixNano()
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(e) // nobody is left to tell
	}
	run := func(work func(context.Context)) func(context.Context, jobs.Run) error {
		return func(ctx context.Context, run jobs.Run) error {
			e := event{What: "start", Job: run.Job, Tick: run.Tick.UnixNano(), Attempt: run.Attempt}
			say(e)
			work(ctx)
			e.What = "end"
			say(e)
			return nil
		}
	}
	options := []scheduler.Option{scheduler.WithTiming(lease.Timing{TTL: s.TTL}), scheduler.WithObserver(func(s election.State) {
		switch {
		case s.Role == election.Leading:
			say(event{What: "leading"})
		case s.Role == election.Following && s.Owner != "":
			say(event{What: "following"})
		}
	})}
	if s.Spread {
		options = append(options, scheduler.WithSpread())
	}
	sched, err := scheduler.New(store, group, options...)
	if err != nil {
		return err
	}
	add := append(waitingJobs(s.Waiting), jobs.Job{Name: "manual", Schedule: jobs.Manual(), Do: run(func(context.Context) {})})
	if s.Ticks {
		add = append(add, jobs.Job{Name: "tick", Schedule: jobs.Every(time.Second), Misfire: jobs.MisfireAll, Do: run(func(ctx context.Context) {
			select { // long enough that a run elsewhere would overlap with it
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		})})
	}
	for i := range s.Long {
		add = append(add, jobs.Job{Name: longJob(i), Schedule: jobs.Manual(), Do: run(func(ctx context.Context) { <-ctx.Done() })})
	}
	if err := sched.Add(add...); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return sched.Run(ctx)
}

// players are processes of one group, and what they tell.
type players struct {
	b    *testing.B
	spec spec

	mu     sync.Mutex
	events []told
	all    []*player
}

type told struct {
	event
	by *player
}

type player struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}
	// killed is when it was, by the clock of the events; 0: it was not.
	killed int64
}

func newPlayers(b *testing.B, s spec) *players {
	p := &players{b: b, spec: s}
	b.Cleanup(p.stop)
	return p
}

// stop lets those that live end.
func (p *players) stop() {
	for _, one := range p.all {
		_ = one.in.Close()
	}
	for _, one := range p.all {
		<-one.done
	}
}

func (p *players) start() *player {
	p.b.Helper()
	text, err := json.Marshal(p.spec)
	if err != nil {
		p.b.Fatal(err)
	}
	one := &player{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	one.cmd.Env = append(os.Environ(), playerVariable+"="+string(text))
	one.cmd.Stderr = os.Stderr
	if one.in, err = one.cmd.StdinPipe(); err != nil {
		p.b.Fatal(err)
	}
	out, err := one.cmd.StdoutPipe()
	if err != nil {
		p.b.Fatal(err)
	}
	err = subprocess.Go(one.cmd, func() {
		defer close(one.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				p.mu.Lock()
				p.events = append(p.events, told{e, one})
				p.mu.Unlock()
			}
		}
		_ = one.cmd.Wait() // it may have been killed
	})
	if err != nil {
		p.b.Fatal(err)
	}
	p.all = append(p.all, one)
	return one
}

// find returns the first event that matches, from the one with that index on.
func (p *players) find(from int, match func(told) bool) (told, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events[min(from, len(p.events)):] {
		if match(e) {
			return e, true
		}
	}
	return told{}, false
}

func (p *players) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events)
}

// wait returns the first event that matches, from the one with that index on.
func (p *players) wait(from int, what string, match func(told) bool) (found told) {
	p.b.Helper()
	until(p.b, what, func() (ok bool) {
		found, ok = p.find(from, match)
		return ok
	})
	return found
}

func (p *players) waitFor(one *player, what string) told {
	p.b.Helper()
	return p.wait(0, what, func(e told) bool { return e.by == one && e.What == what })
}

// kill ends a player at once, and returns when it was told to.
func (p *players) kill(one *player) time.Time {
	p.b.Helper()
	at := time.Now()
	p.mu.Lock()
	one.killed = at.UnixNano()
	p.mu.Unlock()
	if err := one.cmd.Process.Kill(); err != nil {
		p.b.Fatal(err)
	}
	return at
}

// check returns how many ticks of the job were started twice, how many starts found
// a run of it under way in another process, and how many ticks between the first
// and the last have neither a start nor a row in the ledger. A tick with a row alone
// was claimed by a process that was killed before it could start it: it is recorded
// as interrupted.
func (p *players) check(control jobs.Group, job string, every time.Duration) (doubled, overlapping, lost int) {
	p.b.Helper()
	records, err := control.Runs(p.b.Context(), jobs.Filter{Job: job, Limit: 100_000})
	if err != nil {
		p.b.Fatal(err)
	}
	rows := map[int64]bool{}
	for _, r := range records {
		rows[r.Tick.UnixNano()] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	starts := map[int64]int{}
	var last told
	var first, newest int64
	over := int64(0) // when the last run that began has ended
	for _, e := range p.events {
		if e.Job != job {
			continue
		}
		switch e.What {
		case "start":
			starts[e.Tick]++
			if starts[e.Tick] > 1 && e.Attempt == 1 {
				doubled++
			}
			if over == 0 && last.by != nil && last.by != e.by && (last.by.killed == 0 || last.by.killed > e.At) {
				overlapping++
			}
			if first == 0 {
				first = e.Tick
			}
			newest = max(newest, e.Tick)
			last, over = e, 0
		case "end":
			if e.by == last.by {
				over = e.At
			}
		}
	}
	for at := first; at <= newest && first != 0; at += int64(every) {
		if starts[at] == 0 && !rows[at] {
			lost++
		}
	}
	return doubled, overlapping, lost
}

// ended is how many long runs have ended in a process that was not killed.
func (p *players) ended() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.What == "end" && e.by.killed == 0 && strings.HasPrefix(e.Job, "long-") {
			n++
		}
	}
	return n
}

func (p *players) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d players, %d events", len(p.all), len(p.events))
}
