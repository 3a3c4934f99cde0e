package dbserver_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
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
		dbtest.Refused(t, addr)
	})
}

func subtest(t *testing.T) string { return t.Name()[strings.LastIndexByte(t.Name(), '/')+1:] }
