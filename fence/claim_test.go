package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
)

// claims holds an error's claim against what is stored: nothing, unless it says otherwise.
func (s *scene) claims(what string, err, want error) {
	s.t.Helper()
	n := s.stored()
	unfenced, unknown := errors.Is(err, fence.ErrUnfenced), errors.Is(err, fence.ErrUnknown)
	nothing := errors.Is(err, fence.ErrFenced) || errors.Is(err, fence.ErrBroken)
	switch {
	case err == nil && n == 0:
		s.t.Errorf("%s: no error, and nothing is stored", what)
	case err != nil && n > 0 && (nothing || !unfenced && !unknown):
		s.t.Errorf("%s: %d rows are stored, after %v", what, n, err)
	case nothing && (unfenced || unknown):
		s.t.Errorf("%s: it says that nothing is stored, and that something may be: %v", what, err)
	case !errors.Is(err, want):
		s.t.Errorf("%s: %v, want %v", what, err, want)
	}
	s.exec("DELETE FROM effect")
}

// What has happened to a holder by the time that its transaction is to be committed.
var fates = map[string]func(s *scene, end context.CancelCauseFunc){
	"still the holder": func(*scene, context.CancelCauseFunc) {},
	"replaced":         func(s *scene, _ context.CancelCauseFunc) { s.takeOver("next") },
	"context over":     func(_ *scene, end context.CancelCauseFunc) { end(errors.New("enough")) },
	"term over":        func(_ *scene, end context.CancelCauseFunc) { end(lease.ErrLost) },
}

// under runs work with the context of a holder, and ends that as fate says when work asks for it.
func (s *scene) under(fate func(*scene, context.CancelCauseFunc), work func(ctx context.Context, end func()) error) error {
	s.t.Helper()
	s.hold.Owner, s.hold.Token = "me", s.takeOver("me")
	hold, trusted := s.hold, true
	hold.Trusted = func() bool { return trusted }
	ctx, cancel := context.WithCancelCause(lease.WithHold(soon(s.t), hold))
	defer cancel(nil)
	return work(ctx, func() {
		fate(s, func(cause error) {
			trusted = !errors.Is(cause, lease.ErrLost)
			cancel(cause)
		})
	})
}

// Commit finds out that the database had ended the transaction, and says that something
// may be stored, whatever else has happened to the holder.
func TestCommitOfWhatIsStored(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		for name, fate := range fates {
			for _, before := range []bool{true, false} {
				s.claims(name, s.under(fate, func(ctx context.Context, end func()) error {
					tx, err := s.db.BeginTx(soon(t), nil)
					if err != nil {
						return err
					}
					if err := s.insert(tx, 1); err != nil {
						return err
					}
					switch s.kind {
					case sqlite:
						if _, err := tx.Exec("INSERT OR ROLLBACK INTO effect VALUES (1, 1)"); err == nil {
							t.Error("a key twice")
						}
					case postgres:
						if _, err := tx.Exec("COMMIT"); err != nil {
							return err
						}
					default:
						s.exec("DROP TABLE IF EXISTS ddl")
						if _, err := tx.Exec("CREATE TABLE ddl (id INTEGER)"); err != nil {
							return err
						}
					}
					if before {
						end()
					}
					if err := s.insert(tx, 2); err != nil {
						return err
					}
					if !before {
						end()
					}
					return fence.Commit(ctx, tx)
				}), fence.ErrUnfenced)
			}
		}
	})
}

// A caller that has ended its transaction itself is not told what it has stored.
func TestCommitAfterACommit(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		err := s.under(fates["replaced"], func(ctx context.Context, end func()) error {
			tx, err := s.db.BeginTx(soon(t), nil)
			if err == nil {
				err = s.insert(tx, 1)
			}
			if err := errors.Join(err, tx.Commit()); err != nil {
				return err
			}
			end()
			return fence.Commit(ctx, tx)
		})
		if !errors.Is(err, sql.ErrTxDone) || errors.Is(err, fence.ErrFenced) || errors.Is(err, fence.ErrBroken) {
			t.Error(err)
		}
	})
}

// Commit is not for the transaction of Do, which stores nothing of it and says why.
func TestCommitInDo(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		for _, lookAway := range []bool{false, true} {
			err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
				err := s.insert(tx, 1)
				if err == nil {
					err = fence.Commit(s.ctx(), tx)
				}
				if lookAway {
					return nil
				}
				return err
			})
			if err == nil || err.Error() != "fence: Do commits: return nil from the function to commit, and an error to roll back" {
				t.Error(err)
			}
			s.wantStored(0)
		}
	})
}

// A procedure that commits and then fails, even as after a deadlock, or whose answer is lost, may
// have stored something: the error says so, whatever else has happened to the holder.
func TestProcedureThatStoresAndFails(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.exec("CREATE PROCEDURE fails() BEGIN COMMIT; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END")
		s.exec("CREATE PROCEDURE commits() COMMIT")
		proxy := dbtest.NewProxy(t, s.at.Config(t).Addr)
		for _, statement := range []string{"CALL fails()", "CALL commits()"} {
			for name, fate := range fates {
				for way, run := range lostWays(s, proxy) {
					if way == "Commit" {
						continue // without a guard nobody looks
					}
					for _, lookAway := range []bool{false, true} {
						var sent error
						err := s.under(fate, func(ctx context.Context, end func()) error {
							return run(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
								if err := s.insert(tx, 1); err != nil {
									return err
								}
								if statement == "CALL commits()" {
									proxy.DropReply(statement)
								}
								_, sent = tx.Exec(statement)
								proxy.Pass()
								end()
								if lookAway {
									return nil
								}
								return sent
							})
						})
						s.claims(statement+", "+name+", "+way, err, fence.ErrUnfenced)
						if !errors.Is(sent, fence.ErrUnfenced) {
							t.Errorf("%s itself: %v", statement, sent)
						}
					}
				}
			}
		}
	})
}

// A statement that runs others may go back to a savepoint of before, or release it: the transaction
// goes on.
func TestSavepointsOfTheCaller(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.exec("CREATE PROCEDURE back() BEGIN ROLLBACK TO SAVEPOINT mine; INSERT INTO effect VALUES (9, 1); END")
		s.exec("CREATE PROCEDURE releases() RELEASE SAVEPOINT mine")
		s.exec("CREATE PROCEDURE nothing() DO 1")
		s.exec("CREATE PROCEDURE commits() COMMIT")
		for _, w := range []way{ways[0], ways[1], ways[3]} {
			for statement, want := range map[string]struct {
				stored int
				err    error
			}{"CALL back()": {2, nil}, "CALL releases()": {2, nil}, "CALL nothing()": {2, nil}, "CALL commits()": {1, fence.ErrUnfenced}} {
				err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
					for _, send := range []string{"SAVEPOINT mine", "INSERT INTO effect VALUES (1, 1)", statement, "SAVEPOINT again", "CALL nothing()", "ROLLBACK TO again"} {
						if _, err := tx.Exec(send); err != nil {
							return err
						}
					}
					return s.insert(tx, 2)
				})
				if !errors.Is(err, want.err) {
					t.Errorf("%s, %s: %v", w.name, statement, err)
				}
				s.wantStored(want.stored)
				s.exec("DELETE FROM effect")
			}
		}
	})
}

// The context of a statement that runs others ends together with the statement: whether the transaction
// is there is asked all the same.
func TestContextEndsWithACall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	d := &oldDriver{answer: func(text string) error {
		if text == "CALL a()" {
			cancel()
		}
		return nil
	}}
	db := sql.OpenDB(fence.Guard(newDriver{d}))
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "CALL a()"); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	want := []string{"begin", "SAVEPOINT cronlease_begin", "SAVEPOINT cronlease_guard", "CALL a()", "RELEASE SAVEPOINT cronlease_guard", "commit"}
	if !slices.Equal(d.sent, want) {
		t.Errorf("sent %q, want %q", d.sent, want)
	}
}

// A context ends within a prepared CALL that has committed: database/sql does not repeat it, which would hide what it has done.
func TestContextEndsWithinAPreparedCall(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.exec("CREATE PROCEDURE p() BEGIN COMMIT; DO SLEEP(1); END")
		db := s.guarded()
		s.takeOver("me")
		ctx, cancel := context.WithTimeout(s.ctx(), 300*time.Millisecond)
		defer cancel()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it has ended
		if err := s.insert(tx, 1); err != nil {
			t.Fatal(err)
		}
		stmt, err := tx.PrepareContext(s.ctx(), "CALL p()")
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		if _, err := stmt.ExecContext(ctx); !errors.Is(err, fence.ErrUnfenced) {
			t.Errorf("CALL: %v, with %d rows stored", err, s.stored())
		}
	})
}

// A statement of the pool cannot be used in Do, and the error says what can; it can with Commit.
func TestStatementOfThePool(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		db := s.db
		if w.name == ways[3].name {
			db = s.guarded()
			w.run = func(ctx context.Context, _ *scene, fn func(*sql.Tx) error, options ...fence.Option) error {
				return commit(ctx, db, fn, options...)
			}
		}
		stmt, err := db.Prepare(s.text("INSERT INTO effect VALUES (?, ?)"))
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		err = w.run(s.ctx(), s, func(tx *sql.Tx) error {
			_, err := tx.Stmt(stmt).Exec(1, 1) //nolint:sqlclosecheck // tx closes it
			return err
		})
		if strings.HasPrefix(w.name, "Do") {
			if err == nil || !strings.Contains(err.Error(), "tx.PrepareContext") {
				t.Error(err)
			}
			s.wantStored(0)
			return
		}
		if err != nil {
			t.Error(err)
		}
		s.wantStored(1)
	})
}

// A statement of a guard's transaction may be over only when its rows are closed, which the end of the transaction does: that it had
// committed before is said then.
func TestRowsOfAStatementThatCommits(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"fence.Commit": func(ctx context.Context, tx *sql.Tx) error { return fence.Commit(ctx, tx) },
		"tx.Commit":    func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		"tx.Rollback":  func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, s *scene) {
				s.exec("CREATE PROCEDURE commits() BEGIN COMMIT; SELECT 1; END")
				tx, err := s.guarded().BeginTx(s.ctx(), nil)
				if err := errors.Join(err, s.insert(tx, 1)); err != nil {
					t.Fatal(err)
				}
				rows, err := tx.QueryContext(s.ctx(), "CALL commits()")
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				for rows.Next() { // the status of the CALL is one more result, so that this does not close them
				}
				if err := rows.Err(); err != nil {
					t.Error(err)
				}
				if err := end(s.ctx(), tx); s.stored() != 1 || !errors.Is(err, fence.ErrUnfenced) {
					t.Errorf("%d stored: %v", s.stored(), err)
				}
			})
		})
	}
}

// Only a guard notices a procedure that commits and begins another transaction, as the comment of Commit says.
func TestProcedureThatBeginsAnother(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.exec("CREATE PROCEDURE again() BEGIN COMMIT; START TRANSACTION; END")
		for name, want := range map[string]error{"Commit": fence.ErrFenced, "Commit of a guarded one": fence.ErrUnfenced} {
			err := s.under(fates["replaced"], func(ctx context.Context, end func()) error {
				return ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })].run(ctx, s, func(tx *sql.Tx) error {
					err := s.insert(tx, 1)
					if err == nil {
						_, err = tx.Exec("CALL again()")
					}
					end()
					return err
				})
			})
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
			s.wantStored(1)
			s.exec("DELETE FROM effect")
		}
	})
}
