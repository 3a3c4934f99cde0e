package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns a terminal of that size: the side that a user has, and the program's.
func openTerminal(t *testing.T, width, height uint16) (user, program *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that closing it ends a reading
		t.Fatal(err)
	}
	user = os.NewFile(uintptr(fd), "user")
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// On a terminal, top draws frames in the place of each other until Ctrl-C, and leaves the screen as it was.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("run succeeded")
	user, program := openTerminal(t, 60, 12)
	cmd := exec.Command(os.Args[0], "top", "--config", path, "--interval", "500ms")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	drawn := make(chan string)
	go func() {
		defer close(drawn)
		buffer := make([]byte, 4096)
		for {
			n, err := user.Read(buffer)
			if n > 0 {
				drawn <- string(buffer[:n])
			}
			if err != nil { // the program has ended
				return
			}
		}
	}()
	var text bytes.Buffer
	late := time.After(limit)
	for strings.Count(text.String(), toTop) < 3 {
		select {
		case some := <-drawn:
			text.WriteString(some)
		case <-late:
			t.Fatalf("%q", text.String())
		}
	}
	if _, err := user.WriteString("\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	for some := range drawn {
		text.WriteString(some)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	got := text.String()
	if !strings.HasPrefix(got, enterScreen) || !strings.HasSuffix(strings.TrimPrefix(got, "^C"), leaveScreen) || !strings.Contains(got, "group billing") {
		t.Errorf("%q", got)
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
