package dbserver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// cluster returns a running cluster and connections to each node.
func cluster(t *testing.T) ([]*dbserver.Server, []*sql.DB, *dbserver.Galera) {
	t.Helper()
	path, err := dbserver.Find(t.Context(), dbserver.MariaDB)
	if err != nil {
		t.Fatalf("%v: run `make test`, or scripts/install-databases", err)
	}
	g, err := dbserver.NewGalera(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var dbs []*sql.DB
	for _, s := range g.Nodes() {
		dbs = append(dbs, connect(t, s))
	}
	return g.Nodes(), dbs, g
}

// synced waits until each of the nodes belongs to a cluster of that size.
func synced(t *testing.T, size int, nodes ...*dbserver.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, s := range nodes {
		if err := s.WaitSynced(ctx, size); err != nil {
			t.Fatal(err)
		}
	}
}

// causal makes a read or an insert see what was committed on any node before, tables too.
const causal = "SET STATEMENT wsrep_sync_wait = 7 FOR "

func TestGaleraNodesComeBack(t *testing.T) {
	t.Parallel()
	nodes, dbs, _ := cluster(t)
	rows := 0
	insert := func(node int) {
		t.Helper()
		rows++
		execute(t, dbs[node], causal+fmt.Sprintf("INSERT INTO d.t VALUES (%d)", rows))
	}
	count := func() {
		t.Helper()
		for i, db := range dbs {
			if got, want := text(t, db, causal+"SELECT COUNT(*) FROM d.t"), strconv.Itoa(rows); got != want {
				t.Errorf("node %d has %s rows, want %s", i, got, want)
			}
		}
	}
	execute(t, dbs[0], "CREATE DATABASE d", "CREATE TABLE d.t (n INT PRIMARY KEY) ENGINE=InnoDB")
	for node := range nodes {
		insert(node)
	}
	count()

	for _, end := range []func() error{
		nodes[1].Kill,
		func() error { return nodes[1].Stop(t.Context()) },
		func() error { // nothing left: it gets all from another node
			return errors.Join(nodes[1].Kill(), os.Remove(filepath.Join(nodes[1].Folder(), "data", "grastate.dat")))
		},
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		synced(t, 2, nodes[0], nodes[2])
		insert(0)
		if err := nodes[1].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synced(t, 3, nodes...)
		count()
	}

	if err := nodes[0].Pause(); err != nil {
		t.Fatal(err)
	}
	synced(t, 2, nodes[1], nodes[2])
	insert(1)
	if err := nodes[0].Resume(); err != nil {
		t.Fatal(err)
	}
	synced(t, 3, nodes[1], nodes[2], nodes[0])
	count()
}

func TestGaleraStartsAgain(t *testing.T) {
	t.Parallel()
	nodes, dbs, g := cluster(t)
	execute(t, dbs[0], "CREATE DATABASE d", "CREATE TABLE d.t (n INT PRIMARY KEY) ENGINE=InnoDB")
	for i, kill := range [][]int{
		{0, 1, 2}, // one begins anew
		{0, 2},    // one of three is no majority
	} {
		// Only one of them has the last row, unless the others were quick.
		execute(t, dbs[1], causal+fmt.Sprintf("INSERT INTO d.t VALUES (%d)", i+1))
		for _, node := range kill {
			if err := nodes[node].Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for node, db := range dbs {
			if got, want := text(t, db, causal+"SELECT COUNT(*) FROM d.t"), strconv.Itoa(i+1); got != want {
				t.Errorf("node %d has %s rows, want %s", node, got, want)
			}
		}
	}
}

func TestGaleraInTheWrongState(t *testing.T) {
	t.Parallel()
	path, err := dbserver.Find(t.Context(), dbserver.MariaDB)
	if err != nil {
		t.Fatal(err)
	}
	g, err := dbserver.NewGalera(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	node := g.Nodes()[0]
	if err := node.Start(t.Context()); err == nil {
		t.Error("a node started before its cluster")
	}
	if err := node.WaitSynced(t.Context(), 0); !errors.Is(err, dbserver.ErrNotRunning) {
		t.Errorf("wait for a node before its start: %v, want ErrNotRunning", err)
	}
	for range 2 {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := g.Start(t.Context()); !errors.Is(err, dbserver.ErrClosed) {
		t.Errorf("Start after Close: %v, want ErrClosed", err)
	}
}
