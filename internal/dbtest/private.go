package dbtest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// Private starts a server for this test alone, to stop, kill or pause it. It ends when the test does.
//
// It needs a server program on this machine. When the tests use a given server (CRONLEASE_TEST_DSN) and there is no
// program of its kind, the private server may be of another kind: see its Kind.
func Private(tb testing.TB, kind string, options ...string) *dbserver.Server {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	server, err := dbserver.New(ctx, serverProgram(ctx, tb, kind), options...)
	if err != nil {
		tb.Fatalf("private server: %v", err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Errorf("private server: %v", err)
		}
	})
	if err := server.Start(ctx); err != nil {
		tb.Fatalf("private server: %v", err)
	}
	return server
}

// Galera starts a cluster of three MariaDB servers for this test alone, each of which takes writes. It ends when the test
// does. It takes some seconds: tests that do no harm to it share one. For silence see [dbserver.Galera]; a test that does
// not pause nodes allows many seconds, for a machine that is busy with other tests.
//
// It needs the MariaDB server program and the Galera library on this machine, whatever the environment says.
func Galera(tb testing.TB, silence time.Duration, options ...string) *dbserver.Galera {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	path, err := dbserver.Find(ctx, dbserver.MariaDB)
	if err != nil {
		tb.Fatalf("cluster: %v (run scripts/install-databases)", err)
	}
	for try := 1; ; try++ {
		cluster, err := dbserver.NewGalera(ctx, path, options...)
		if err != nil {
			tb.Fatalf("cluster: %v", err)
		}
		cluster.Silence = silence
		tb.Cleanup(func() {
			if err := cluster.Close(); err != nil {
				tb.Errorf("cluster: %v", err)
			}
		})
		if err = cluster.Start(ctx); err == nil {
			return cluster
		}
		// Nodes are told their ports before they listen there: another process may be quicker.
		if try == 3 || !strings.Contains(err.Error(), "Address already in use") {
			tb.Fatalf("cluster: %v", err)
		}
	}
}

func serverProgram(ctx context.Context, tb testing.TB, kind string) string {
	tb.Helper()
	path, err := dbserver.Find(ctx, kind)
	if err == nil {
		return path
	}
	if os.Getenv(dbserver.GivenVariable) != "" && errors.Is(err, dbserver.ErrNoProgram) {
		for _, other := range dbserver.Kinds() {
			if path, err := dbserver.Find(ctx, other); err == nil {
				tb.Logf("no %s program on this machine: the private server is %s", kind, other)
				return path
			}
		}
	}
	tb.Fatalf("this test starts a server of its own: %v (run scripts/install-databases, or set %s)", err,
		dbserver.VariableOf(kind))
	return ""
}
