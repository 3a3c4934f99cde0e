package e2e

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/workertest"
)

// After the primary was killed, and its replica was promoted, workers that know
// both find the new one, and a leader is back within TTL + 1 s. Replication is
// asynchronous: only ticks whose claims had not reached the replica run twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			primary, replica := dbtest.Replicated(t, kind)
			executeOn(t, openDatabase(t, primary.DSN("")), "CREATE DATABASE app")
			c := workertest.New(t, kind, (&url.URL{
				Scheme: "mysql", User: url.User("root"), Host: primary.Addr() + "," + replica.Addr(), Path: "/app",
			}).String())
			c.StartThree()
			leader := c.Leader()
			old := leader.Token()
			c.Target.WaitForHold(old)
			c.Target.WaitForTick(old)

			admin := openDatabase(t, replica.DSN("app"))
			waitForReplica(t, admin, old)
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			ended := leader.WaitFor("run cancelled", func(e workertest.Event) bool { return e.Token == old && e.Job == "hold" })
			if !strings.Contains(ended.Cause, "lease: lost") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}

			stop := map[string]string{dbserver.MariaDB: "STOP SLAVE", dbserver.MySQL: "STOP REPLICA"}[replica.Kind()]
			executeOn(t, admin, stop)
			c.ForgetTicksBut(claimedTicks(t, admin))
			executeOn(t, admin, "SET GLOBAL read_only = OFF")
			promoted := time.Now()
			next := c.WaitForLeaderAfter(old)
			if gap := next.At.Sub(promoted); gap > workertest.Back {
				t.Errorf("no leader for %v after the promotion", gap)
			}
			c.Target.WaitForTick(next.Token)
			c.Finish()
		})
	}
}

// waitForReplica waits until the replica knows of the term and of a claim.
func waitForReplica(t *testing.T, admin *sql.DB, token uint64) {
	t.Helper()
	const query = "SELECT COUNT(*) FROM cronlease_fence JOIN cronlease_run USING (token) WHERE token = ?"
	for end := time.Now().Add(workertest.Patience); ; <-time.After(10 * time.Millisecond) {
		var n int
		if err := admin.QueryRowContext(t.Context(), query, token).Scan(&n); err == nil && n > 0 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("the replica has no claim under token %d: %v", token, err)
		}
	}
}

// claimedTicks are the ticks of the job "tick" that the server knows of.
func claimedTicks(t *testing.T, admin *sql.DB) map[string]bool {
	t.Helper()
	rows, err := admin.QueryContext(t.Context(), "SELECT tick FROM cronlease_run WHERE job = 'tick'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ticks := map[string]bool{}
	for rows.Next() {
		var micros int64
		if err := rows.Scan(&micros); err != nil {
			t.Fatal(err)
		}
		ticks[time.UnixMicro(micros).UTC().Format(time.RFC3339Nano)] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ticks
}

func openDatabase(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() }) // its server may have gone
	return db
}

func executeOn(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), workertest.Patience)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
