//go:build unix

package sqlitestore_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store/sqlitestore"
)

// fullFile names the file that a child process may not let grow.
const fullFile = "CRONLEASE_TEST_SQLITE_FULL_FILE"

func init() { children[fullFile] = fillFile }

// fillFile works within a limit on the size of files, which applies to the
// write-ahead log first. Quotas show themselves to SQLite in the same way.
func fillFile(path string) error {
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var unlimited syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &unlimited); err != nil {
		return err
	}
	limit := func(full bool) error {
		now := unlimited
		if full {
			now.Cur = 1 << 20
		}
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now)
	}
	return errors.Join(fillAndGoOn(ctx, s, "a limit on its size", limit), s.Close())
}

func TestLimitOfFileSizes(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(soon(t), self)
	cmd.Env = append(os.Environ(), fullFile+"="+migrated(t))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
