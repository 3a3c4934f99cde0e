package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbserver"
)

// waitForNoStatement waits until no session runs a statement that begins like
// this: the list shows one for a moment longer than its answer takes.
func (s *scene) waitForNoStatement(prefix string) {
	s.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for ctx := soon(s.t); ; <-look.C {
		n, err := dbserver.Sessions(ctx, s.db, "info LIKE ? AND db = DATABASE()", prefix+"%")
		if err != nil {
			s.t.Errorf("%d statements %s go on: %v", n, prefix, err)
			return
		}
		if n == 0 {
			return
		}
	}
}

// With WithKill a statement ends on the server when its context does, in
// whatever way it is sent.
func TestKill(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		ended := errors.New("ended")
		for name, send := range map[string]func(ctx context.Context, tx *sql.Tx) error{
			"exec": func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effect SELECT 1, SLEEP(600)")
				return err
			},
			"one that does not notice the end of its connection": func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effect SELECT 1, BENCHMARK(100000000000, SHA2(1, 256))")
				return err
			},
			"query": func(ctx context.Context, tx *sql.Tx) error {
				var n int
				return tx.QueryRowContext(ctx, "INSERT INTO effect SELECT 1, SLEEP(600)").Scan(&n)
			},
			"prepared": func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effect SELECT 1, SLEEP(?)", 600)
				return err
			},
			"prepared query": func(ctx context.Context, tx *sql.Tx) error {
				var n int
				return tx.QueryRowContext(ctx, "INSERT INTO effect SELECT 1, SLEEP(?)", 600).Scan(&n)
			},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(s.ctx())
				defer cancel(nil)
				go func() {
					s.waitForStatement("INSERT INTO effect")
					cancel(ended)
				}()
				var sent error
				err := fence.Do(ctx, s.db, func(tx *sql.Tx) error {
					sent = send(ctx, tx)
					return sent
				}, fence.WithKill(nil, patience))
				if !errors.Is(err, ended) || !errors.Is(sent, context.Canceled) || strings.Contains(sent.Error(), "%!") {
					t.Errorf("%v, of the statement %v", err, sent)
				}
				s.waitForNoStatement("INSERT INTO effect")
				s.wantStored(0)
			})
		}
	})
}

// A server that does not end a statement is not waited for.
func TestKillIsBounded(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		pool := s.at.Open(t)
		pool.SetMaxOpenConns(1)
		only, err := pool.Conn(soon(t)) // no connection is left for the kill
		if err != nil {
			t.Fatal(err)
		}
		defer only.Close()
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		go func() {
			s.waitForStatement("INSERT INTO effect")
			cancel()
		}()
		err = fence.Do(ctx, s.db, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effect SELECT 1, SLEEP(1)")
			return err
		}, fence.WithKill(pool, 50*time.Millisecond))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.wantStored(0)
	})
}

// A session that goes back to its pool is as it was; with WithClose none does.
func TestSessionsOfKillAndClose(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		pool := s.at.Open(t)
		pool.SetMaxOpenConns(1)
		ctx, cancel := context.WithTimeout(s.ctx(), patience)
		defer cancel()
		failed := errors.New("failed")
		for _, outcome := range []error{nil, failed} {
			for _, closes := range []bool{false, true} {
				options := []fence.Option{fence.WithKill(s.db, patience)}
				if closes {
					options = append(options, fence.WithClose())
				}
				var before int64
				err := fence.Do(ctx, pool, func(tx *sql.Tx) error {
					return errors.Join(tx.QueryRow("SELECT CONNECTION_ID()").Scan(&before), outcome)
				}, options...)
				if !errors.Is(err, outcome) {
					t.Error(err)
				}
				var after int64
				var released sql.NullInt64
				var limit float64
				variable := "max_statement_time"
				if s.kind == "mysql" {
					variable = "max_execution_time"
				}
				if err := pool.QueryRow("SELECT CONNECTION_ID(), @cronlease_mark, @@SESSION."+variable).Scan(&after, &released, &limit); err != nil {
					t.Fatal(err)
				}
				if (before == after) == closes || !closes && released.Int64 != 1 || limit != 0 {
					t.Errorf("outcome %v, closes %v: connection %d, then %d; released %v, limit %v", outcome, closes, before, after, released, limit)
				}
			}
		}
		if err := fence.Do(ctx, pool, func(*sql.Tx) error { return nil }, fence.WithKill(nil, 0)); err == nil {
			t.Error("a kill without time")
		}
	})
}
