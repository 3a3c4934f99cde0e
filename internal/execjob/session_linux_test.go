package execjob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// headlessCommand makes the test program one whose first thread has ended, which /proc shows like a dead process. It
// has a process group of its own, and says its number.
const headlessCommand = "test-headless"

func init() {
	if len(os.Args) > 1 && os.Args[1] == headlessCommand {
		runtime.LockOSThread() // to the first one
	}
}

// beHeadless is called by the first thread.
func beHeadless() {
	_ = syscall.Setpgid(0, 0)
	ended := make(chan struct{})
	go func() {
		<-ended
		for { // until the thread has ended
			stat, _ := os.ReadFile("/proc/self/stat")
			if strings.Contains(string(stat), ") Z ") {
				break
			}
			<-time.After(time.Millisecond)
		}
		fmt.Fprintln(os.NewFile(9, "pipe"), os.Getpid())
		<-time.After(10 * time.Minute)
	}()
	close(ended)
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

// A process lives on when its first thread has ended.
func TestGuardKilledBesideHeadless(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `"`+os.Args[0]+`" `+headlessCommand+` & read x <&8; kill -KILL $PPID; sleep 600`)
	headless, err := strconv.Atoi(f.line())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(headless, syscall.SIGKILL) }() // ESRCH: as it should be
	if err := f.write("go on\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.pipe.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(f.lines); err != nil {
		t.Fatalf("the job survives its guard: %v", err)
	}
	if err := f.wait(); err == nil || !strings.Contains(err.Error(), "the guard of the job was killed") {
		t.Errorf("got %v", err)
	}
}

// namespaceCommand makes the test program the first process of a namespace, where it chooses the numbers of processes.
const namespaceCommand = "test-namespace"

// While the worker is suspended, the job dies with its guard, and its number may become another process's.
func TestGuardKilledAndNumberTaken(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	first := exec.CommandContext(ctx, os.Args[0], namespaceCommand, fifo)
	first.Stdout, first.Stderr = &out, &out
	first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
	}
	if err := first.Start(); err != nil {
		t.Skipf("this test needs namespaces of users and processes: %v", err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	t.Log(strings.TrimSpace(out.String()))
}

func takeNumber(fifo string) error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Printf("not tried: mount /proc: %v\n", err)
		return nil
	}
	worker := exec.Command(os.Args[0], workerCommand, "sh", "-c", `echo $PPID $$ >"$0"; exec sleep 600`, fifo)
	if err := worker.Start(); err != nil {
		return err
	}
	line, err := os.ReadFile(fifo)
	if err != nil {
		return err
	}
	var guard, group int
	if _, err := fmt.Sscan(string(line), &guard, &group); err != nil {
		return err
	}
	if err := syscall.Kill(worker.Process.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	if _, err := syscall.Wait4(worker.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
		return err
	}
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		return err
	}
	// The kernel kills the job, which becomes a child of this process before that.
	for {
		if _, err = syscall.Wait4(group, nil, 0, nil); !errors.Is(err, syscall.ECHILD) && !errors.Is(err, syscall.EINTR) {
			break
		}
		<-time.After(time.Millisecond)
	}
	if err != nil {
		return err
	}
	var other *exec.Cmd
	for other == nil || other.Process.Pid != group { // threads take numbers too
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(group-1)), 0); err != nil {
			return err
		}
		other = exec.Command("sleep", "600")
		other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := other.Start(); err != nil {
			return err
		}
	}
	if err := worker.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	_ = worker.Wait() // it says how the run ended, by exit code 1
	_ = other.Process.Signal(syscall.SIGTERM)
	_ = other.Wait() // it was asked to end
	if how := other.ProcessState.Sys().(syscall.WaitStatus).Signal(); how != syscall.SIGTERM {
		return fmt.Errorf("another process, which had got the number of the job, ended by %v", how)
	}
	fmt.Println("another process that has the job's number lives on")
	return nil // what is left dies with this process, the first of its namespace
}
