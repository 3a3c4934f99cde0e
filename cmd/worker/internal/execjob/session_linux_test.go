package execjob_test

import (
	"bufio"
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

// headlessCommand makes the test program one whose first thread has ended, which /proc shows like a dead process. It has a process group of its
// own, and says its number.
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
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintln(os.NewFile(9, "pipe"), os.Getpid())
		time.Sleep(10 * time.Minute)
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
	if err := f.pipe.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(f.lines); err != nil {
		t.Fatalf("the job survives its guard: %v", err)
	}
	if err := f.wait(); err == nil || !strings.Contains(err.Error(), "the guard of the job was killed") {
		t.Errorf("got %v", err)
	}
}

// While the worker is suspended, the job dies with its guard, and its number may become another process's.
func TestGuardKilledAndNumberTaken(t *testing.T) {
	const last = "/proc/sys/kernel/ns_last_pid"
	fifo := filepath.Join(t.TempDir(), "fifo")
	worker := exec.Command(os.Args[0], append([]string{workerCommand}, shell(t, `echo $PPID $$ >&9; read x <&8`, fifo)...)...)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait() // it ends with an error
	}()
	lines := bufio.NewReader(listen(t, fifo))
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var guard, group int
	if _, err := fmt.Sscan(line, &guard, &group); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(worker.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(worker.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v %v", status, err)
	}
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); !errors.Is(syscall.Kill(group, 0), syscall.ESRCH); time.Sleep(time.Millisecond) {
		if time.Since(begin) > limit {
			t.Skip("nothing here reaps orphans")
		}
	}
	var other *exec.Cmd
	for range 1000 {
		if err := os.WriteFile(last, []byte(strconv.Itoa(group-1)), 0); err != nil {
			t.Skipf("may not choose the number of a process: %v", err)
		}
		one := exec.Command("sleep", "600")
		one.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := one.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = one.Process.Kill() }()
		if one.Process.Pid == group {
			other = one
			break
		}
		_ = one.Process.Kill()
		_ = one.Wait() // it was killed
	}
	if other == nil {
		t.Skip("other processes take the number")
	}
	if err := syscall.Kill(worker.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Process.Wait(); err != nil { // the run is over
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, group, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	_ = other.Process.Signal(syscall.SIGTERM)
	_ = other.Wait() // it was asked to end
	if how := other.ProcessState.Sys().(syscall.WaitStatus).Signal(); how != syscall.SIGTERM {
		t.Errorf("another process, which had the number of the job, ended by %v", how)
	}
}
