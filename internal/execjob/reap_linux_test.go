package execjob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/cronlease/cronlease/internal/execjob"
)

// initCommand makes the test program the parent of orphans, as the first process
// of a container is: it reaps those that a shell leaves behind while it runs a
// job, and says when none is left.
const initCommand = "test-init"

func runInit() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*limit) // for more than 50 programs
	defer cancel()
	go execjob.ReapOrphans(ctx)
	// A killed guard cannot reap its job, whose parent is this process then, and that of what has left its session.
	leave := execjob.New([]string{"sh", "-c", "for i in 1 2 3; do setsid sleep 0.0$i & done; kill -KILL $PPID; sleep 100"},
		execjob.Options{Grace: limit, Log: zap.NewNop()})
	if err := leave(ctx, run); err == nil || !strings.Contains(err.Error(), "the guard of the job was killed") {
		return fmt.Errorf("a killed guard: %w", err)
	}
	for look := time.NewTicker(10 * time.Millisecond); ; {
		// ECHILD: there are no children, dead ones included.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, syscall.ECHILD) {
			break
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return errors.New("children are left")
		}
	}
	// How its own children end stays known.
	for range 50 {
		if err := execjob.New([]string{"sh", "-c", "exit 3"}, execjob.Options{Grace: limit, Log: zap.NewNop()})(ctx, run); err == nil || err.Error() != "exit status 3" {
			return fmt.Errorf("a job: %w", err)
		}
	}
	return nil
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	parent := exec.Command(os.Args[0], initCommand)
	parent.Stdout, parent.Stderr = &out, &out
	if err := parent.Run(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}
