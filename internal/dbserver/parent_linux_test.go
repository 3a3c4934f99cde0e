package dbserver_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		parent := exec.CommandContext(t.Context(), self)
		// The parent cannot remove its folder: it goes with the test's.
		parent.Env = append(os.Environ(), parentVariable+"="+subtest(t), "TMPDIR="+t.TempDir())
		stdin, err := parent.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		stdout, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		lines.Scan()
		addr := lines.Text()
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
		} else {
			t.Fatalf("the parent says %q: %v", addr, err)
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait() // killed
		refused(t, addr)
	})
}

func subtest(t *testing.T) string { return t.Name()[strings.LastIndexByte(t.Name(), '/')+1:] }

// refused waits until no process listens on the address. The end of a connection alone would prove little: a server also
// closes those that do not log in.
func refused(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		conn, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			_ = conn.SetReadDeadline(end) // fails only on a closed connection
			_, err = io.Copy(io.Discard, conn)
			conn.Close()
		}
		if os.IsTimeout(err) || time.Now().After(end) {
			t.Fatalf("the server at %s still runs", addr)
		}
	}
}
