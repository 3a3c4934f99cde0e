package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// awaitProcess waits for the end of a process that is not ours.
func awaitProcess(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return errors.New("still runs")
		default:
			return nil
		}
	}
}

// A killed demo takes its replicas along: otherwise they would run without end.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	demo := exec.Command(os.Args[0], "demo")
	demo.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	stdout, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	var replicas []*os.Process
	for lines := bufio.NewScanner(stdout); len(replicas) < 3 && lines.Scan(); {
		if _, after, ok := strings.Cut(lines.Text(), "starts (pid "); ok {
			pid, err := strconv.Atoi(strings.TrimSuffix(after, ")"))
			if err != nil {
				t.Fatal(err)
			}
			replica, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, replica)
		}
	}
	if err := demo.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = demo.Wait() // it was killed
	if len(replicas) != 3 {
		t.Fatalf("%d replicas", len(replicas))
	}
	for _, replica := range replicas {
		if err := awaitProcess(replica.Pid); err != nil {
			t.Errorf("replica %d: %v", replica.Pid, err)
			_ = replica.Kill()
		}
		_ = replica.Release()
	}
}

// In a group that is spread, a follower is killed in the middle of its long runs, which start again elsewhere.
func TestDemoSpread(t *testing.T) {
	t.Parallel()
	demo := exec.Command(os.Args[0], "demo", "--spread", "--for", "16s", "--kill-every", "4s")
	demo.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := demo.CombinedOutput()
	text := string(out)
	_, after, found := strings.Cut(text, "was cut off with ")
	replica, _, _ := strings.Cut(after, ":")
	if err != nil || !found || !strings.Contains(after, "work-") || strings.Contains(after, "was not killed") ||
		!strings.Contains(text, replica+", a follower") || !strings.Contains(text, "\nLong runs: ") {
		t.Errorf("%v:\n%s", err, text)
	}
}
