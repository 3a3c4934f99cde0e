package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// fakeStore keeps its rows on no server, which stands for MySQL.
type fakeStore struct {
	store.Leases // nothing but Read is called
	check        func() bool
	fence        *store.Fence
	failed       error // of a read
}

func (*fakeStore) FenceDialect() store.Dialect { return store.MySQL }

func (s *fakeStore) CheckHold(context.Context, store.Querier, lease.Hold) (bool, error) {
	return s.check(), nil
}

func (s *fakeStore) Read(context.Context, ...string) ([]store.Reading, error) {
	if s.failed != nil {
		return nil, s.failed
	}
	return []store.Reading{{Fence: s.fence}}, nil
}

// under is a context of the store's lease.
func (s *fakeStore) under(ctx context.Context) context.Context {
	return lease.WithHold(ctx, lease.Hold{Store: s, Name: group, Owner: "me", Token: 7})
}

// held answers a check.
func held() bool { return true }

// number is an answer of the server.
func number(n uint16) error { return &mysql.MySQLError{Number: n} }

// inTransaction answers as a server does within a transaction.
func inTransaction(text string) error {
	if text == "SET TRANSACTION READ WRITE" {
		return number(mysqlerr.InTransaction)
	}
	return nil
}

// A refused Commit gives the pool its session back as it was.
func TestSessionAfterARefusedCommit(t *testing.T) {
	t.Parallel()
	d := &oldDriver{answer: inTransaction}
	db := sql.OpenDB(newDriver{d})
	defer db.Close()
	s := &fakeStore{check: func() bool { return false }}
	err := commit(s.under(t.Context()), db, func(*sql.Tx) error { return nil })
	if !errors.Is(err, fence.ErrFenced) {
		t.Error(err)
	}
	for i, part := range []string{"begin", "SET TRANSACTION", "SET @cronlease_wait_timeout", "ROLLBACK AND NO CHAIN", "SET SESSION wait_timeout = @cronlease_wait_timeout", "rollback"} {
		if i >= len(d.sent) || !strings.HasPrefix(d.sent[i], part) {
			t.Fatalf("sent %q, where %s should be the next", d.sent, part)
		}
	}
}

// A guard looks whether the connection is there before it sends COMMIT, and before nothing
// else. After COMMIT the transaction is over.
func TestConnectionBeforeCommit(t *testing.T) {
	t.Parallel()
	d := &oldDriver{fail: map[string]error{"SET TRANSACTION READ WRITE": number(mysqlerr.InTransaction)}}
	db := sql.OpenDB(fence.Guard(newDriver{d}))
	defer db.Close()
	s := &fakeStore{check: held}
	work := func(tx *sql.Tx) error { _, err := tx.Exec("INSERT"); return err }
	if err := commit(s.under(t.Context()), db, work); err != nil {
		t.Error(err)
	}
	lost := func(tx *sql.Tx) error {
		d.fail["reset"] = driver.ErrBadConn
		d.sent = nil
		return work(tx)
	}
	err := commit(s.under(t.Context()), db, lost)
	if !errors.Is(err, fence.ErrBroken) || errors.Is(err, fence.ErrUnknown) {
		t.Error(err)
	}
	if slices.ContainsFunc(d.sent, func(text string) bool { return strings.HasPrefix(text, "COMMIT") }) || !slices.Contains(d.sent, "INSERT") {
		t.Errorf("sent %q", d.sent)
	}
}

// What a killed statement answers is no success, and its error is not lost.
func TestAnswerToAKill(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"no error": nil, "an error": number(mysqlerr.Interrupted)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			killed := make(chan struct{}, 1)
			killer := sql.OpenDB(newDriver{&oldDriver{answer: func(text string) error {
				if strings.HasPrefix(text, "KILL QUERY") {
					select {
					case killed <- struct{}{}:
					default: // it is repeated
					}
				}
				return nil
			}}})
			defer killer.Close()
			db := sql.OpenDB(newDriver{&oldDriver{answer: func(text string) error {
				if text != "UPDATE" {
					return nil
				}
				cancel()
				select {
				case <-killed:
				case <-time.After(patience):
					t.Error("it is not killed")
				}
				return answer
			}}})
			defer db.Close()
			var sent error
			err := fence.Do((&fakeStore{check: held}).under(ctx), db, func(tx *sql.Tx) error {
				_, sent = tx.ExecContext(ctx, "UPDATE")
				return sent
			}, fence.WithKill(killer, patience))
			if !errors.Is(err, context.Canceled) || !errors.Is(sent, context.Canceled) || answer != nil && !errors.Is(sent, answer) || answer == nil && sent != context.Canceled { //nolint:errorlint // nothing else is in it
				t.Errorf("%v, of the statement %v", err, sent)
			}
		})
	}
}

// A guard around another one sets the first savepoint for both.
func TestFirstSavepointOfTwoGuards(t *testing.T) {
	t.Parallel()
	d := &oldDriver{}
	db := sql.OpenDB(fence.Guard(newDriver{d}))
	defer db.Close()
	err := fence.Do((&fakeStore{check: held}).under(t.Context()), db, func(tx *sql.Tx) error {
		_, err := tx.Exec("CALL a()")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	const first = "SAVEPOINT cronlease_begin"
	if n := len(d.sent) - len(slices.DeleteFunc(slices.Clone(d.sent), func(text string) bool { return text == first })); n != 1 {
		t.Errorf("%d of %s: sent %q", n, first, d.sent)
	}
}

// A first savepoint that was refused is not there.
func TestRefusedSavepointOfTwoGuards(t *testing.T) {
	t.Parallel()
	const first = "SAVEPOINT cronlease_begin"
	d := &oldDriver{fail: map[string]error{first: number(mysqlerr.CommandDenied)}}
	db := sql.OpenDB(fence.Guard(newDriver{d}))
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(first); err == nil {
		t.Error("it was not refused")
	}
	clear(d.fail)
	d.sent = nil
	if _, err := tx.Exec("CALL a()"); err != nil || !slices.Contains(d.sent, first) {
		t.Errorf("sent %q: %v", d.sent, err)
	}
	_ = tx.Rollback()
}

// When nothing tells what a statement did to the transaction, the error has what it
// answered, if that was an error.
func TestNothingTells(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"no error": nil, "an error": number(mysqlerr.DuplicateKey)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost := errors.New("lost")
			d := &oldDriver{fail: map[string]error{"CALL a()": answer, "RELEASE SAVEPOINT cronlease_guard": lost}}
			db := sql.OpenDB(fence.Guard(newDriver{d}))
			defer db.Close()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = tx.Exec("CALL a()")
			if !errors.Is(err, fence.ErrUnfenced) || !errors.Is(err, lost) || answer != nil && !errors.Is(err, answer) || strings.Contains(err.Error(), "%!") {
				t.Error(err)
			}
			_ = tx.Rollback()
		})
	}
}

// A process that stood still after its check for as long as the server waits does not send
// COMMIT, and for any shorter time it does.
func TestStoodStill(t *testing.T) {
	t.Parallel()
	for still, want := range map[time.Duration]error{time.Second: fence.ErrBroken, time.Second - 1: nil} {
		synctest.Test(t, func(t *testing.T) {
			d := &oldDriver{answer: inTransaction}
			db := sql.OpenDB(newDriver{d})
			defer db.Close()
			s := &fakeStore{check: func() bool {
				<-time.After(still)
				return true
			}}
			err := commit(s.under(t.Context()), db, func(*sql.Tx) error { return nil }, fence.WithBound(time.Second))
			if !errors.Is(err, want) {
				t.Errorf("after %v: %v", still, err)
			}
			if sent := slices.ContainsFunc(d.sent, func(text string) bool { return strings.HasPrefix(text, "COMMIT") }); sent != (want == nil) {
				t.Errorf("after %v: sent %q", still, d.sent)
			}
		})
	}
}

// The error of a replaced holder names the present one, as far as that can be read.
func TestNextHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   lease.HoldKind
		fence  store.Fence
		failed error
		owner  string
		token  uint64
	}{
		"another one":                {fence: store.Fence{Owner: "next", Token: 8}, owner: "next", token: 8},
		"the same token":             {fence: store.Fence{Owner: "next", Token: 7}, owner: "next", token: 7},
		"the same owner":             {fence: store.Fence{Owner: "me", Token: 8}, owner: "me", token: 8},
		"itself":                     {fence: store.Fence{Owner: "me", Token: 7}},
		"one that cannot be read":    {failed: errors.New("away")},
		"of a lock, which is no row": {kind: lease.HoldLock, fence: store.Fence{Owner: "next", Token: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := sql.OpenDB(newDriver{&oldDriver{answer: inTransaction}})
			defer db.Close()
			s := &fakeStore{check: func() bool { return false }, fence: &c.fence, failed: c.failed}
			ctx := lease.WithHold(t.Context(), lease.Hold{Store: s, Kind: c.kind, Name: group, Owner: "me", Token: 7})
			err := commit(ctx, db, func(*sql.Tx) error { return nil })
			var fenced *fence.FencedError
			if !errors.As(err, &fenced) || fenced.Owner != c.owner || fenced.Token != c.token {
				t.Errorf("%v, want %s under %d", err, c.owner, c.token)
			}
		})
	}
}

// A transaction that gets no connection before its context ends says whether the pool had none left.
func TestWaitForAConnection(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"the pool is used up": 1, "the pool has more": 2, "the pool has no limit": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := slowDriver{newDriver{&oldDriver{}}}
				db := sql.OpenDB(d)
				defer db.Close()
				db.SetMaxOpenConns(most)
				other, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				ended := errors.New("ended")
				ctx, cancel := context.WithTimeoutCause((&fakeStore{check: held}).under(t.Context()), slowly/2, ended)
				defer cancel()
				err = fence.Do(ctx, db, func(*sql.Tx) error { return nil })
				waited, all := strings.Contains(err.Error(), ": it waited for a connection, "), strings.Contains(err.Error(), "all of the pool (1): raise pool_size")
				if usedUp := most == 1; !errors.Is(err, ended) || !errors.Is(err, context.DeadlineExceeded) || waited != usedUp || all != usedUp {
					t.Error(err)
				}
			})
		})
	}
}

// slowDriver takes long to connect.
type slowDriver struct{ newDriver }

const slowly = time.Second

func (d slowDriver) Connect(ctx context.Context) (driver.Conn, error) {
	select {
	case <-time.After(slowly):
		return d.newDriver.Connect(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
