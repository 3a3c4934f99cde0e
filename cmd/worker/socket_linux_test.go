package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const nobody = 65534

// asNobody calls a function on a thread that belongs to another user, and ends with it.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	done := make(chan struct{})
	var run func()
	run = func() {
		runtime.LockOSThread() // and never unlocks it: nothing else may use this thread
		if unix.Gettid() == unix.Getpid() {
			go run() // the first thread stays as it is: it stands for the process
			<-done
			runtime.UnlockOSThread()
			return
		}
		defer close(done)
		if _, _, failed := syscall.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); failed != 0 {
			t.Error(failed)
			return
		}
		do()
	}
	go run()
	<-done
}

// bind listens under an abstract name, and answers whatever it is asked.
func bind(t *testing.T, name string, answer func(net.Conn)) {
	t.Helper()
	socket, err := net.Listen("unix", name)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = socket.Close() })
	if answer == nil {
		return
	}
	go func() {
		for {
			connection, err := socket.Accept()
			if err != nil {
				return
			}
			answer(connection)
			_ = connection.Close()
		}
	}()
}

func say(a answer) func(net.Conn) {
	return func(connection net.Conn) { _ = json.NewEncoder(connection).Encode(a) }
}

// Whatever names others bind, worker reload asks the workers of its user and no others.
func TestReloadBesideHostileSockets(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	prefix, err := socketPrefix(path)
	if err != nil {
		t.Fatal(err)
	}
	own := strings.ReplaceAll(path[max(0, len(path)-60):], "/", "-") // of this test
	asNobody(t, func() {
		for _, name := range []string{
			"@" + own + "\n\ny", "@" + own + "\n", "@x " + prefix + "7/A", prefix + "999997", prefix + "999996/", prefix + "x/A",
			"@\n" + prefix + "5/A", prefix + "-5/A",
		} {
			bind(t, name, nil)
		}
		bind(t, prefix+"999999/A", say(answer{Text: "run this"}))
		bind(t, prefix+"999998/A", say(answer{OK: true, Text: "nothing has changed"}))
	})
	code, out := reloadWith(t, path)
	if code != 1 || !strings.Contains(out, "no worker of root or user 0 runs with "+path) || !strings.Contains(out, fmt.Sprint("of user ", nobody)) {
		t.Errorf("exit code %d: %s", code, out)
	}
	w := startDetached(t, "run", "--config", path)
	w.awaitMessage("started")
	want := fmt.Sprintf("worker %d: nothing has changed\n", w.cmd.Process.Pid)
	if code, out := reloadWith(t, path); code != 0 || out != want {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The names in the kernel's table may be anything.
func FuzzWorkersIn(f *testing.F) {
	const line = "000000006165db3d: 00000002 00000000 00010000 0001 01 9300712 "
	const prefix = "@cronlease-worker/44b78d2d/"
	for _, name := range []string{prefix + "23229/A", prefix + "1/A\n\nx", "\n", "@x " + prefix + "2/A", prefix, prefix + "x/A", "@\x00\xff"} {
		f.Add([]byte(line + name + "\n" + line + prefix + "23229/A\n"))
	}
	f.Fuzz(func(t *testing.T, table []byte) {
		workers, _ := workersIn(bytes.NewReader(table), prefix)
		seen := map[string]bool{}
		for _, w := range workers {
			if w.pid <= 0 || !strings.HasPrefix(w.socket, prefix) || seen[w.socket] {
				t.Errorf("%+v in %q", w, table)
			}
			seen[w.socket] = true
		}
	})
}

// Two workers may have one number, in containers with one network, and nothing that was
// bound before a worker starts keeps it from its name.
func TestSocketsOfOneNumber(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	for range 2 {
		socket, err := listenForReloads(path, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
	}
	if workers, err := runningWorkers(path); err != nil || len(workers) != 2 {
		t.Errorf("%+v, %v", workers, err)
	}
}

// An answer without end is given up, before it fills the memory.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	prefix, err := socketPrefix(path)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan int, 1)
	bind(t, prefix+"1/A", func(connection net.Conn) {
		n, _ := fmt.Fprint(connection, `{"ok":false,"text":"`)
		for part := bytes.Repeat([]byte("x"), 1<<20); n < 10*mostAnswer; {
			more, err := connection.Write(part)
			if n += more; err != nil {
				break
			}
		}
		sent <- n
	})
	if _, err := (runningWorker{1, prefix + "1/A"}).ask(requestCheck, []int{os.Geteuid()}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if n := <-sent; n > 2*mostAnswer {
		t.Errorf("read %d bytes", n)
	}
}

// A user who may not reload a worker reads why.
func TestRefusedAskerIsTold(t *testing.T) {
	t.Parallel()
	path := configure(t, idle)
	w := startDetached(t, "run", "--config", path)
	w.awaitMessage("started")
	found, err := runningWorkers(path)
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	asNobody(t, func() {
		for range 100 {
			if _, err := found[0].ask(requestReload, []int{0}); err == nil || !strings.Contains(err.Error(), "only root may reload it") {
				t.Errorf("%v", err)
				return
			}
		}
	})
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A worker that cannot take a connection for a time takes requests again later.
func TestAcceptFailsForATime(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer b.Close()
	l := &fullListener{connections: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.connections <- a
	r := &reloader{}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.serve(l, zap.NewNop(), done)
	}()
	if _, err := io.ReadAll(b); err != nil { // it has been taken, and refused: a pipe has no user
		t.Error(err)
	}
	close(done)
	_ = l.Close()
	<-ended
}

// fullListener has no free file descriptor at first.
type fullListener struct {
	connections chan net.Conn
	failed      bool
	closed      chan struct{}
}

func (l *fullListener) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, syscall.EMFILE
	}
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *fullListener) Close() error   { close(l.closed); return nil }
func (l *fullListener) Addr() net.Addr { return &net.UnixAddr{} }
