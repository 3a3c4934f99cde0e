//go:build unix

package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// readOnlyFile names the file that a child process may only read.
const readOnlyFile = "CRONLEASE_TEST_SQLITE_READ_ONLY_FILE"

func init() { children[readOnlyFile] = useReadOnlyFile }

// useReadOnlyFile reports how the methods say that the file cannot be written.
func useReadOnlyFile(path string) error {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for what, err := range map[string]error{"Check": s.Check(ctx), "Prepare": s.Prepare(ctx, "group", time.Second)} {
		if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "cannot be written") {
			return fmt.Errorf("%s: error %w, want ErrSetup that names the file and says what has to be written", what, err)
		}
	}
	return s.Close()
}

// A process of another user runs this, because root may write any file.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	for _, name := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chmod(name, 0o755); err != nil { //nolint:gosec // for the other user
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if err := useReadOnlyFile(path); err != nil {
			t.Error(err)
		}
		return
	}
	// By this name, because the other user may not see the directory of the binary.
	c := exec.CommandContext(soon(t), "/proc/self/exe")
	c.Env = append(os.Environ(), readOnlyFile+"="+path)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if output, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
