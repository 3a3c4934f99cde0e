package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cronlease/cronlease/internal/zkserver"
)

// startZooKeeper starts a private server, and returns the configuration of a worker on it.
func startZooKeeper(t *testing.T, jobs string) (server *zkserver.Server, path string) {
	t.Helper()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server = zkserver.New(program, "-Dzookeeper.forceSync=no")
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "worker.yaml")
	text := fmt.Sprintf("database: zk://app:${CANARY}@%s/apps/billing\ngroup: billing\nlease: {ttl: 4s}\njobs:\n%s", server.Addr(), jobs)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return server, path
}

// Every command works on ZooKeeper, and workers take over from each other.
func TestCommandsOnZooKeeper(t *testing.T) {
	t.Parallel()
	server, path := startZooKeeper(t, everyKindOfJob)
	everyCommand(t, path, "zk://app@"+server.Addr()+"/apps/billing", "server", "ensemble", "commits", "transactions", "clock", "leader", "replicas")
}
