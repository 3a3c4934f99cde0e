package dbserver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/mysqlerr"
)

// aheadBy reads how far a server's clock is ahead of the machine's.
func aheadBy(t *testing.T, db *sql.DB) time.Duration {
	t.Helper()
	micros, err := strconv.ParseInt(text(t, db, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.UnixMicro(micros))
}

// isAhead checks a server's clock.
func isAhead(t *testing.T, db *sql.DB, want time.Duration) {
	t.Helper()
	// The machine is busy: an answer may be late, and never early.
	if got := aheadBy(t, db); got > want || got < want-10*time.Second {
		t.Errorf("the clock is %v ahead, want %v", got, want)
	}
}

// writers change rows until the test ends, and wait for each other's. It returns how many changes there were.
func writers(t *testing.T, db *sql.DB) *atomic.Int64 {
	t.Helper()
	execute(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT) ENGINE=InnoDB",
		"INSERT INTO d.t VALUES (0, 0), (1, 0), (2, 0), (3, 0)")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	n := new(atomic.Int64)
	for i := range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := db.ExecContext(context.WithoutCancel(ctx), "UPDATE d.t SET n = n + 1 WHERE id IN (0, ?)", i)
				if mysqlerr.Number(err) == mysqlerr.LockWaitTimeout { // a step may end a wait
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	return n
}

// goOn waits until there are more of them.
func goOn(t *testing.T, n *atomic.Int64, what string) {
	t.Helper()
	const enough = 50
	from, end := n.Load(), time.Now().Add(patience)
	for tick := time.NewTicker(10 * time.Millisecond); n.Load() < from+enough; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: %d changes in %v", what, n.Load()-from, patience)
		}
	}
}

var steps = []time.Duration{time.Hour, -time.Hour, 1500 * time.Millisecond, -24 * time.Hour, 0}

func TestStepClock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, err := dbserver.New(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := server.StepClock(time.Hour); !errors.Is(err, dbserver.ErrNoClock) {
			t.Errorf("step of a clock that is the machine's: %v, want ErrNoClock", err)
		}
		if err := errors.Join(server.FakeClock(), server.StepClock(time.Minute), server.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		db := connect(t, server)
		isAhead(t, db, time.Minute)
		t.Run("under load", func(t *testing.T) {
			n := writers(t, db)
			for _, offset := range steps {
				if err := server.StepClock(offset); err != nil {
					t.Fatal(err)
				}
				isAhead(t, db, offset)
				goOn(t, n, fmt.Sprintf("after a step to %v", offset))
			}
		})
		if err := server.StepClock(-time.Hour); err != nil {
			t.Fatal(err)
		}
		sum := text(t, db, "SELECT SUM(n) FROM d.t")
		for _, end := range []func() error{server.Kill, func() error { return server.Stop(t.Context()) }} {
			if err := errors.Join(end(), server.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			isAhead(t, db, -time.Hour)
			if got := text(t, db, "SELECT SUM(n) FROM d.t"); got != sum {
				t.Errorf("%s changes after a restart, want %s", got, sum)
			}
		}
	})
}

func TestStepClockOfNodes(t *testing.T) {
	t.Parallel()
	path, err := dbserver.Find(t.Context(), dbserver.MariaDB)
	if err != nil {
		t.Fatal(err)
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
	nodes := g.Nodes()
	for _, s := range nodes {
		if err := s.FakeClock(); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, other := connect(t, nodes[0]), connect(t, nodes[1])
	n := writers(t, db)
	for _, offset := range steps {
		if err := nodes[0].StepClock(offset); err != nil {
			t.Fatal(err)
		}
		isAhead(t, db, offset)
		isAhead(t, other, 0)
		goOn(t, n, fmt.Sprintf("after a step of one node to %v", offset))
	}
	synced(t, len(nodes), nodes...)
}
