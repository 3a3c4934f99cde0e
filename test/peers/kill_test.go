package peers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/test/internal/percentiles"
)

// playerVariable has a process of this test take a lock and keep it: the opener and the address.
const playerVariable = "CRONLEASE_PEER"

// play takes the lock, says so, and keeps it until the process is killed.
func play(spec string) (err error) {
	name, addr, _ := strings.Cut(spec, " ")
	all := slices.Concat(redisOpeners, zkOpeners)
	if strings.HasPrefix(name, "zk:") {
		name, all = strings.TrimPrefix(name, "zk:"), zkOpeners
	}
	i := slices.IndexFunc(all, func(o opener) bool { return o.name == name })
	if i < 0 {
		return fmt.Errorf("no way is called %q", name)
	}
	testing.Benchmark(func(b *testing.B) {
		var l *held
		if l, err = all[i].open(b, addr).lock(context.Background(), name); err != nil {
			return
		}
		fmt.Println("locked", l.token)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); { // ends with the parent
			select {
			case <-l.lost:
				fmt.Println("lost")
			case <-time.After(time.Second):
				fmt.Println("held")
			}
		}
	})
	return err
}

// player is a process that has the lock.
type player struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // that it has written; closed when it has ended
	token uint64
}

// startPlayer returns when the process has the lock. It ends with tb.
func startPlayer(tb testing.TB, o opener, addr string) *player {
	tb.Helper()
	name := o.name
	if slices.ContainsFunc(zkOpeners, func(z opener) bool { return reflect.ValueOf(z.open).Pointer() == reflect.ValueOf(o.open).Pointer() }) {
		name = "zk:" + name
	}
	p := &player{cmd: exec.Command(os.Args[0]), lines: make(chan string, 10)}
	p.cmd.Env = append(os.Environ(), playerVariable+"="+name+" "+addr)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	err = subprocess.Go(p.cmd, func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
		_ = p.cmd.Wait()
		close(p.lines)
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.kill)
	if _, err := fmt.Sscanf(<-p.lines, "locked %d", &p.token); err != nil {
		tb.Fatalf("the holder does not say that it has the lock: %v", err)
	}
	return p
}

// kill kills the process and returns when it has ended.
func (p *player) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	for range p.lines {
	}
	_ = p.in.Close()
}

// says is what the process says of its lock: held or lost.
func (p *player) says() string {
	_, _ = io.WriteString(p.in, "?\n")
	return <-p.lines
}

// BenchmarkKill is how long it takes from the SIGKILL of a lock's holder until a process that waits for it has it. A lock outlives its
// holder by 4 s with each way.
func BenchmarkKill(b *testing.B) {
	measureOnServers(b, func(b *testing.B, addr string, openers []opener) {
		const times = 3
		took := make([][]time.Duration, len(openers))
		waiters := make([]way, len(openers))
		for i, o := range openers {
			waiters[i] = o.open(b, addr)
			waiters[i].name = o.name
		}
		for b.Loop() {
			for range times {
				for i, o := range openers {
					took[i] = append(took[i], kill(b, startPlayer(b, o, addr), waiters[i]))
				}
			}
		}
		for i, o := range openers {
			percentiles.Report(b, o.name+"-", took[i])
		}
	})
}

// kill kills a process that has the lock, a second after this one has begun to wait for it.
func kill(b *testing.B, p *player, waiter way) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	got := make(chan time.Time, 1)
	go func() {
		l, err := waiter.lock(ctx, waiter.name)
		got <- time.Now()
		if err == nil {
			err = l.unlock(ctx)
		}
		if err != nil {
			b.Error(err)
		}
		close(got)
	}()
	<-time.After(time.Second)
	begin := time.Now()
	p.kill()
	took := (<-got).Sub(begin)
	<-got
	return took
}
