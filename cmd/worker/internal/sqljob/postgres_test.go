package sqljob_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// PostgreSQL takes each value as what its column or its cast says, and what a run has started there is over when the run is.
func TestPostgres(t *testing.T) {
	t.Parallel()
	withRun(t, openPostgres(t), func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		if _, err := s.DB().ExecContext(ctx, "CREATE TABLE typed (at timestamptz, utc timestamp, token numeric, attempt smallint, args jsonb, job text, of text, session text)"); err != nil {
			t.Fatal(err)
		}
		insert := sqljob.Statement{
			Text: "INSERT INTO typed SELECT $1, $2, $3, $4, $5, $6, $7::text || coalesce($5::jsonb ->> 'day', 'none'), current_setting('client_connection_check_interval') WHERE NOT '{}'::jsonb ? 'a'",
			Args: []string{"tick", "tick", "token", "attempt", "args", "job", "attempt"},
		}
		run.Args = json.RawMessage(`{"day": 7}`)
		set := "SET LOCAL timezone = 'Asia/Tokyo'"
		if err := sqljob.New(s.DB(), []sqljob.Statement{{Text: set}, insert}, sqljob.Options{Dialect: store.PostgreSQL, Grace: patience})(ctx, run); err != nil {
			t.Fatal(err)
		}
		var got string
		const read = "SELECT concat_ws(' ', at = $1, utc = $1 AT TIME ZONE 'UTC', token, attempt, args, job, of, session) FROM typed"
		if err := s.DB().QueryRowContext(ctx, read, run.Tick).Scan(&got); err != nil || got != fmt.Sprintf(`t t %d 2 {"day": 7} note 27 1s`, run.Token) {
			t.Errorf("%q, %v", got, err)
		}

		ctx, cancel := context.WithCancelCause(ctx)
		done := make(chan error, 1)
		go func() {
			done <- start(ctx, s, run, sqljob.Statement{Text: "INSERT INTO log (token) SELECT 1 FROM pg_sleep(600)"})
		}()
		awaitActive := func(want int) {
			t.Helper()
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			for late := time.After(patience); ; <-look.C {
				var n int
				if err := s.DB().QueryRow("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT INTO log%'").Scan(&n); err != nil {
					t.Fatal(err)
				}
				if n == want {
					return
				}
				select {
				case <-late:
					t.Fatalf("%d statements are active, want %d", n, want)
				default:
				}
			}
		}
		awaitActive(1)
		cancel(jobs.ErrCancelled)
		if err := <-done; !errors.Is(err, jobs.ErrCancelled) {
			t.Error(err)
		}
		awaitActive(0)
	})
}

// What PostgreSQL has of its own is let in; the ends of the transaction are not.
func TestCheckPostgres(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" ; ":                              "empty",
		"TRUNCATE a":                       "",
		"REFRESH MATERIALIZED VIEW a":      "",
		"MERGE INTO a USING b ON true":     "",
		"DO $$ BEGIN PERFORM 1; END $$":    "",
		"CALL a()":                         "",
		"SELECT '/*! in a string */'":      "",
		"DELETE FROM a; DELETE FROM b":     "several",
		"SELECT '\\'; COMMIT; SELECT '\\'": "several",
		"COMMIT":                           "one transaction already",
		"PREPARE TRANSACTION 'a'":          "one transaction already",
		"/* /* */ */ End":                  "one transaction already",
	} {
		if err := sqljob.Check(store.PostgreSQL, text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
