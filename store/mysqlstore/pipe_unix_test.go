//go:build unix

package mysqlstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// A file of the DSN that is a pipe without a writer is an error that names it,
// and not an attempt that never ends: no context ends an open.
func TestFilesThatArePipes(t *testing.T) {
	t.Parallel()
	db := dbtest.Fresh(t, dbtest.Kinds(t)[0])
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, parameters := range []string{
		"password_file=" + pipe, "ca=" + pipe, "cert=" + pipe + "&key=" + plain, "cert=" + plain + "&key=" + pipe,
	} {
		t.Run(parameters, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				s, err := mysqlstore.Open("app@tcp(" + db.Config(t).Addr + ")/app?" + parameters)
				if err == nil {
					err = errors.Join(s.Check(ctx), s.Close())
				}
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), pipe+": expected a regular file") {
					t.Errorf("got %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the store waits for the pipe")
				// Let it go on, so that it leaves nothing behind.
				if err := os.WriteFile(pipe, nil, 0); err != nil {
					t.Error(err)
				}
				<-done
			}
		})
	}
}
