package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// playerVariable makes the test program a player, on the database of its value.
const playerVariable = "CRONLEASE_TEST_PLAYER"

// play campaigns; a line of standard input stops the campaign, and with it the
// term, and the next line begins another one. It prints what happens with the
// time of it, and ends with its standard input.
func play(dsn string) error {
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		return err
	}
	defer store.Close()
	say := func(what string) { fmt.Println(what, time.Now().UnixNano()) }
	lines := bufio.NewScanner(os.Stdin)
	for more := true; more; {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- election.Run(ctx, store, "players", func(ctx context.Context, _ election.Term) error {
				say("leading")
				<-ctx.Done()
				say("stopped")
				return nil
			}, election.WithObserver(func(s election.State) {
				if s.Role == election.Following && s.Owner != "" {
					say("following")
				}
			}))
		}()
		more = lines.Scan()
		stop()
		if err := <-done; err != nil {
			return err
		}
		more = more && lines.Scan()
	}
	return nil
}

// player is such a process.
type player struct {
	in     io.WriteCloser
	events *bufio.Scanner
}

func startPlayer(b *testing.B, dsn string) *player {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playerVariable+"="+dsn)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("player: %v", err)
		}
	})
	return &player{in, bufio.NewScanner(out)}
}

// toggle stops its campaign, or begins another.
func (p *player) toggle(b *testing.B) {
	b.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		b.Fatal(err)
	}
}

// waitFor returns when the event happened.
func (p *player) waitFor(b *testing.B, want string) time.Time {
	b.Helper()
	for p.events.Scan() {
		var what string
		var at int64
		if _, err := fmt.Sscan(p.events.Text(), &what, &at); err != nil {
			b.Fatalf("%q: %v", p.events.Text(), err)
		}
		if what == want {
			return time.Unix(0, at)
		}
	}
	b.Fatalf("the player ended before %q: %v", want, p.events.Err())
	return time.Time{}
}
