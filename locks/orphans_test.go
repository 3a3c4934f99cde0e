package locks_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// holderVariable makes this test program hold locks in the database it names, until
// it is killed.
const holderVariable = "CRONLEASE_LOCKS_HOLDER"

const holderLocks = 64

// holderTiming is short, and long enough for a machine that has much to do.
var holderTiming = lease.Timing{TTL: 5 * time.Second}

func holdUntilKilled(dsn string) error {
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		return err
	}
	client, err := locks.New(store, locks.WithTiming(holderTiming))
	if err != nil {
		return err
	}
	for i := range holderLocks {
		if _, err := client.Mutex(fmt.Sprint("order/", i)).Lock(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println("holds")
	select {} // its heartbeats go on
}

// The rows of a killed process are deleted although their names are never used
// again; those of a live process are not.
func TestRowsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		client := onServer(t, db, locks.WithTiming(holderTiming))
		kept := take(t, client, 1)
		defer release(t, kept)

		holder := exec.CommandContext(t.Context(), os.Args[0])
		holder.Env = append(os.Environ(), holderVariable+"="+db.DSN)
		holder.Stderr = os.Stderr
		out, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		said, ended := make(chan string, 1), make(chan struct{})
		err = subprocess.Go(holder, func() {
			defer close(ended)
			line, _ := bufio.NewReader(out).ReadString('\n') // empty where it has ended
			said <- line
			_ = holder.Wait() // it is killed
		})
		if err != nil {
			t.Fatal(err)
		}
		if line := <-said; line == "" {
			t.Fatal("the holder has ended")
		}

		pool := db.Open(t)
		const held = "SELECT COUNT(*) FROM cronlease_lock WHERE queue LIKE '%granted%'"
		clean := func() {
			if err := client.Clean(t.Context()); err != nil {
				t.Log(err) // a slow answer
			}
		}
		again := time.NewTicker(holderTiming.TTL / 5)
		defer again.Stop()
		for began := time.Now(); time.Since(began) < holderTiming.TTL*3/2; <-again.C {
			clean()
		}
		if n := count(t, pool, held); n != holderLocks+1 {
			t.Errorf("%d locks are held while their processes live, want %d", n, holderLocks+1)
		}
		if err := holder.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		for began := time.Now(); count(t, pool, held) > 1; <-again.C {
			clean()
			if time.Since(began) > time.Minute {
				t.Fatalf("%d locks are held a minute after the kill", count(t, pool, held))
			}
		}
		if _, err := pool.ExecContext(t.Context(), "UPDATE cronlease_lock SET written_at = written_at - INTERVAL 1 HOUR"); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); count(t, pool, "SELECT COUNT(*) FROM cronlease_lock WHERE name LIKE 'order/%'") > 0; <-again.C {
			if time.Since(began) > time.Minute {
				t.Fatal("the rows are not deleted")
			}
		}
		if !kept[0].Trusted() {
			t.Error("the lock of the process that lives was lost")
		}
	})
}
