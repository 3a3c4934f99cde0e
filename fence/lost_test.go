package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
)

// behind is a pool whose connections go through the proxy.
func (s *scene) behind(proxy *dbtest.Proxy, wrap bool) *sql.DB {
	s.t.Helper()
	config := s.at.Config(s.t)
	config.Addr = proxy.Addr()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		s.t.Fatal(err)
	}
	if wrap {
		connector = fence.Guard(connector)
	}
	db := sql.OpenDB(connector)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// lostWays are the ways behind a proxy.
func lostWays(s *scene, proxy *dbtest.Proxy) map[string]func(ctx context.Context, fn func(*sql.Tx) error) error {
	return map[string]func(ctx context.Context, fn func(*sql.Tx) error) error{
		"Do": func(ctx context.Context, fn func(*sql.Tx) error) error {
			return fence.Do(ctx, s.behind(proxy, false), fn)
		},
		"Commit": func(ctx context.Context, fn func(*sql.Tx) error) error {
			return commit(ctx, s.behind(proxy, false), fn)
		},
		"Commit of a guarded one": func(ctx context.Context, fn func(*sql.Tx) error) error {
			return commit(ctx, s.behind(proxy, true), fn)
		},
	}
}

// Without an answer to COMMIT the outcome is unknown: the error says so, and is no
// refusal. Without an answer to an earlier statement, nothing is stored.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		proxy := dbtest.NewProxy(t, s.at.Config(t).Addr)
		id := 0
		for name, run := range lostWays(s, proxy) {
			for _, c := range []struct {
				text   string
				order  func(string) <-chan struct{}
				stored int
				want   error
			}{
				{"COMMIT", proxy.DropReply, 1, fence.ErrUnknown},
				{"COMMIT", proxy.DropRequest, 0, fence.ErrUnknown},
				{"INSERT", proxy.DropReply, 0, fence.ErrBroken},
				{"wait_timeout = 2", proxy.DropReply, 0, fence.ErrBroken},
				{"LOCK IN SHARE MODE", proxy.DropReply, 0, fence.ErrBroken},
				{"LOCK IN SHARE MODE", proxy.DropRequest, 0, fence.ErrBroken},
				// It is stored by then.
				{"wait_timeout = @cronlease", proxy.DropReply, 1, nil},
			} {
				s.exec("DELETE FROM effect")
				c.order(c.text)
				id++
				err := run(s.ctx(), func(tx *sql.Tx) error {
					err := s.insert(tx, id)
					if err != nil && c.text == "INSERT" {
						return nil // careless
					}
					return err
				})
				proxy.Pass()
				if !errors.Is(err, c.want) || errors.Is(err, fence.ErrFenced) {
					t.Errorf("%s without %q: %v, want %v", name, c.text, err, c.want)
				}
				if c.stored == 0 {
					// The server may need a moment to see that its client has gone.
					s.exec("SELECT 1")
				}
				s.wantStored(c.stored)
			}
		}
	})
}

// A COMMIT without an answer does not outlive its context for long.
func TestCommitIntoABlackHole(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		for _, name := range []string{"Do", "Commit", "Commit of a guarded one"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proxy := dbtest.NewProxy(t, s.at.Config(t).Addr)
				ctx, cancel := context.WithCancelCause(s.ctx())
				checked := make(chan struct{})
				hold := s.hold
				hold.Store = &pausing{s.store, func() {
					proxy.BlackHole()
					close(checked)
				}}
				done := make(chan error, 1)
				go func() {
					done <- lostWays(s, proxy)[name](lease.WithHold(ctx, hold), func(*sql.Tx) error { return nil })
				}()
				<-checked
				// Long enough for COMMIT to be sent, which the test cannot see.
				<-time.After(300 * time.Millisecond)
				cancel(errors.New("enough"))
				select {
				case err := <-done:
					if !errors.Is(err, fence.ErrUnknown) {
						t.Error(err)
					}
				case <-soon(t).Done():
					t.Error("it does not return")
					proxy.Close()
					<-done
				}
			})
		}
	})
}

// After Do, a guarded connection is in no transaction any more.
func TestGuardedConnectionAfterDo(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		db := s.guarded()
		db.SetMaxOpenConns(1)
		for _, statement := range []string{"CREATE TABLE more (id INTEGER)", "DROP TABLE more"} {
			if err := fence.Do(s.ctx(), db, func(*sql.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(soon(t), statement); err != nil {
				t.Error(err)
			}
		}
	})
}
