package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/lease"
)

// hookedConn calls a function after each statement, before its answer is known.
type hookedConn struct {
	fullConn
	after func(text string)
}

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

func (h *hookedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	defer h.after(text)
	return h.fullConn.ExecContext(ctx, text, args)
}

func (h *hookedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	defer h.after(text)
	return h.fullConn.QueryContext(ctx, text, args)
}

type hookedConnector struct {
	driver.Connector
	after func(text string)
}

func (h *hookedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := h.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &hookedConn{raw.(fullConn), h.after}, nil
}

// The context of the transaction may end at any moment of a Commit, and database/sql then takes the session away
// from it: no session goes back to the pool with what the check has set, and the next Commit is as good as the first.
func TestSettingsAfterACommit(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		for _, stage := range []string{"nowhere", "SET TRANSACTION", "SET @cronlease", "cronlease_fence", "COMMIT AND", "SET SESSION"} {
			for _, guarded := range []bool{false, true} {
				end, ended := context.CancelFunc(func() {}), false
				var sent []string
				connector, err := mysql.NewConnector(s.at.Config(t))
				if err != nil {
					t.Fatal(err)
				}
				connector = &hookedConnector{connector, func(text string) {
					sent = append(sent, text)
					if !ended && strings.Contains(text, stage) {
						ended = true
						end()
						<-time.After(20 * time.Millisecond) // database/sql has noticed
					}
				}}
				if guarded {
					connector = fence.Guard(connector)
				}
				db := sql.OpenDB(connector)
				defer db.Close()
				db.SetMaxOpenConns(1)
				settings := func() (all string) {
					t.Helper()
					read := func() error {
						return db.QueryRow("SELECT CONCAT_WS(' ', @@SESSION.wait_timeout, @@SESSION.completion_type, @@SESSION.autocommit)").Scan(&all)
					}
					err := read()
					if !guarded && errors.Is(err, mysql.ErrInvalidConn) { // in the moment in which the server ends the session: see Commit
						err = read()
					}
					if err != nil {
						t.Errorf("%s: %v", stage, err)
					}
					return all
				}
				before := settings()
				for range 2 {
					ctx, cancel := context.WithCancel(s.ctx())
					end, ended = cancel, stage == "nowhere"
					tx, err := db.BeginTx(ctx, nil)
					if err := errors.Join(err, s.insert(tx, 1)); err != nil {
						t.Fatal(err)
					}
					sent = nil
					err = fence.Commit(lease.WithHold(soon(t), s.hold), tx)
					if len(sent) > 5 { // and the driver's own COMMIT
						t.Errorf("%s, guarded %v: it sent %q", stage, guarded, sent)
					}
					stored := s.stored()
					if !ended || stored == 0 && err == nil || stored > 0 && err != nil {
						t.Errorf("%s, guarded %v: %d stored, ended %v: %v", stage, guarded, stored, ended, err)
					}
					s.exec("DELETE FROM effect")
					// Nobody uses the pool now: a guard closes a session that ends, so that no statement finds out.
					for db.Stats().InUse > 0 {
						<-time.After(time.Millisecond)
					}
					kept := stage == "nowhere" || stage == "SET TRANSACTION" || stage == "SET SESSION"
					if open := db.Stats().OpenConnections; guarded && kept != (open == 1) {
						t.Errorf("%s: the pool has %d connections", stage, open)
					}
					cancel()
					if after := settings(); after != before {
						t.Errorf("%s, guarded %v: a session of the pool has %q after %v, and had %q", stage, guarded, after, err, before)
					}
				}
			}
		}
	})
}
