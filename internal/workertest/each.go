package workertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/pgserver"
	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/internal/serverprocess"
	"github.com/cronlease/cronlease/internal/zkserver"
)

// Main runs the tests of a package with a worker that it builds for them, and returns the exit code.
func Main(m *testing.M) int {
	folder, err := os.MkdirTemp("", "cronlease-test-")
	if err == nil {
		defer os.RemoveAll(folder)
		workerProgram, err = buildWorker(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the worker:", err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// StartRedis starts a private server of Redis that ends with the test, and returns its URL.
func StartRedis(t *testing.T) string {
	t.Helper()
	program, err := redisserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := redisserver.New(program)
	start(t, server.Process)
	return "redis://" + server.Addr()
}

// StartPostgres starts a private server of PostgreSQL that ends with the test, and returns the URL of a database on it.
func StartPostgres(t *testing.T) string {
	t.Helper()
	program, err := pgserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := pgserver.New(program)
	start(t, server.Process)
	return server.URL("postgres")
}

// StartZooKeeper starts a private server of ZooKeeper that ends with the test, and returns its URL.
func StartZooKeeper(t *testing.T) string {
	t.Helper()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := zkserver.New(program, "-Dzookeeper.forceSync=no")
	start(t, server.Process)
	return "zk://" + server.Addr()
}

// start starts a server that ends with the test.
func start(t *testing.T, server *serverprocess.Process) {
	t.Helper()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each runs f beside three workers on each kind of database, and checks
// afterwards what holds in every case.
func Each(t *testing.T, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	EachWith(t, tickAndHold, f)
}

// EachWith is Each with these jobs, in YAML; {target} is the target's URL.
func EachWith(t *testing.T, jobs string, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	run := func(kind string, url func(t *testing.T) string) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := New(t, kind, url(t))
			c.jobs = jobs
			c.StartThree()
			f(t, c)
			c.Finish()
		})
	}
	for _, kind := range dbtest.Dialects(t) {
		run(kind, func(t *testing.T) string { return URL(t, dbtest.Fresh(t, kind)) })
	}
	run(SQLite, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "lease.db") })
	run("redis", StartRedis)
	run("postgres", StartPostgres)
}
