package sqlitestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// childFile names the file that a child process contends for a lease in.
const childFile = "CRONLEASE_TEST_SQLITE_FILE"

// child takes and renews one lease as often as it can, and prints its terms,
// until it cannot print any more, or its input ends.
func child(path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	owner := keeper.NewOwner("child")
	for err == nil {
		err = childTerm(ctx, s, owner)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, s.Close())
}

func childTerm(ctx context.Context, s *sqlitestore.Store, owner string) error {
	rs, err := s.Read(ctx, "group")
	if err != nil {
		return err
	}
	token, err := s.Acquire(ctx, store.Acquire{Read: rs[0], Owner: owner, Heartbeat: 1, TTL: time.Second})
	if errors.Is(err, store.ErrChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Println(owner, token); err != nil {
		return err
	}
	for heartbeat := uint64(1); heartbeat < 4; heartbeat++ {
		n, err := s.Renew(ctx, store.Renew{Owner: owner, Heartbeat: heartbeat + 1, Leases: []store.Renewal{{Group: "group", Token: token, Heartbeat: heartbeat}}})
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// process is a child.
type process struct {
	*exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
}

func start(t *testing.T, variable, path string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(soon(t), self)}
	p.Env = append(os.Environ(), variable+"="+path)
	p.Stderr = os.Stderr
	if p.input, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(output)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Several processes contend for one lease, and some of them are killed: tokens
// strictly grow, each has one owner, and the file stays whole.
func TestProcesses(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	if err := s.Prepare(soon(t), "group", time.Second); err != nil {
		t.Fatal(err)
	}
	owners := map[uint64]string{}
	last := map[string]uint64{}
	terms := func(p *process, n int) {
		for range n {
			if !p.output.Scan() {
				t.Fatalf("a child ended: %v", p.output.Err())
			}
			var owner string
			var token uint64
			if _, err := fmt.Sscan(p.output.Text(), &owner, &token); err != nil {
				t.Fatalf("%q: %v", p.output.Text(), err)
			}
			if other, ok := owners[token]; ok {
				t.Errorf("token %d belongs to %s and %s", token, other, owner)
			}
			owners[token] = owner
			if token <= last[owner] {
				t.Errorf("token %d of %s after %d", token, owner, last[owner])
			}
			last[owner] = token
		}
	}

	var all []*process
	for range 4 {
		all = append(all, start(t, childFile, path))
	}
	for round := range 4 {
		for _, p := range all {
			terms(p, 10)
		}
		victim := all[round]
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var ended *exec.ExitError
		if err := victim.Wait(); !errors.As(err, &ended) {
			t.Fatalf("a killed child ended with %v", err)
		}
		all[round] = start(t, childFile, path)
	}
	for _, p := range all {
		terms(p, 10)
		if err := p.input.Close(); err != nil {
			t.Fatal(err)
		}
		for p.output.Scan() { // until it has ended
		}
		if err := p.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
	}

	rs, err := s.Read(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	for token := range owners {
		if token > rs[0].Lease.Token {
			t.Errorf("token %d is above the last one, %d", token, rs[0].Lease.Token)
		}
	}
	if *rs[0].Fence != (store.Fence{Owner: rs[0].Lease.Owner, Token: rs[0].Lease.Token}) {
		t.Errorf("fence %v beside lease %v", rs[0].Fence, rs[0].Lease)
	}
	var state string
	if err := s.DB().QueryRowContext(soon(t), "PRAGMA integrity_check").Scan(&state); err != nil || state != "ok" {
		t.Errorf("integrity check: %s, %v", state, err)
	}
}
