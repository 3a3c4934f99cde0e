package postgresstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/postgresstore"
)

// doScene is a store whose lease is held, a pool of pgx, and a table for what is fenced.
type doScene struct {
	*postgresstore.Store
	t    *testing.T
	pool *pgxpool.Pool
	ctx  context.Context // of the holder's work
}

func newDoScene(t *testing.T) *doScene {
	t.Helper()
	url := fresh(t)
	s := open(t, url)
	if err := errors.Join(s.Migrate(soon(t)), s.Prepare(soon(t), "g", time.Minute)); err != nil {
		t.Fatal(err)
	}
	run(t, s.DB(), "CREATE TABLE note (text text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	pool, err := pgxpool.New(soon(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d := &doScene{s, t, pool, nil}
	d.ctx = d.holding(d.take("me"))
	return d
}

func (d *doScene) take(owner string) lease.Hold {
	d.t.Helper()
	readings, err := d.Read(soon(d.t), "g")
	if err != nil {
		d.t.Fatal(err)
	}
	token, err := d.Acquire(soon(d.t), store.Acquire{Read: readings[0], Owner: owner, Heartbeat: 1, TTL: time.Minute})
	if err != nil {
		d.t.Fatal(err)
	}
	return lease.Hold{Store: d.Store, Name: "g", Owner: owner, Token: token}
}

func (d *doScene) holding(h lease.Hold) context.Context { return lease.WithHold(soon(d.t), h) }

// want fails unless the notes are these.
func (d *doScene) want(notes string) {
	d.t.Helper()
	var got string
	if err := d.DB().QueryRowContext(soon(d.t), "SELECT coalesce(string_agg(text, ' ' ORDER BY text), '') FROM note").Scan(&got); err != nil || got != notes {
		d.t.Errorf("notes %q, %v, want %q", got, err, notes)
	}
}

func note(ctx context.Context, tx pgx.Tx, text string) error {
	_, err := tx.Exec(ctx, "INSERT INTO note VALUES ($1)", text)
	return err
}

// A transaction of pgx is stored while its holder holds, with all that pgx can do in one.
func TestDo(t *testing.T) {
	t.Parallel()
	d := newDoScene(t)
	err := d.Do(d.ctx, d.pool, func(tx pgx.Tx) error {
		nested, err := tx.Begin(d.ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(note(d.ctx, nested, "gone"), nested.Rollback(d.ctx)); err != nil {
			return err
		}
		if nested, err = tx.Begin(d.ctx); err != nil {
			return err
		}
		if err := errors.Join(note(d.ctx, nested, "a"), nested.Commit(d.ctx)); err != nil {
			return err
		}
		var b pgx.Batch
		b.Queue("INSERT INTO note VALUES ('b')")
		b.Queue("INSERT INTO note VALUES ($1)", "c")
		if err := tx.SendBatch(d.ctx, &b).Close(); err != nil {
			return err
		}
		if _, err := tx.CopyFrom(d.ctx, pgx.Identifier{"note"}, []string{"text"}, pgx.CopyFromRows([][]any{{"d"}})); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(d.ctx, "SELECT count(*) FROM note").Scan(&n); err != nil || n != 4 {
			t.Errorf("%d rows, %v", n, err)
		}
		_, err = tx.Exec(d.ctx, "DO $$ BEGIN INSERT INTO note VALUES ('e'); END $$")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	d.want("a b c d e")
	conn, err := pgx.Connect(soon(t), fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(soon(t))
	if err := d.Do(d.ctx, conn, func(pgx.Tx) error { return nil }); !errors.Is(err, lease.ErrSetup) {
		t.Errorf("in another schema: %v", err)
	}
}

// What is not to be stored is not.
func TestDoStoresNothing(t *testing.T) {
	t.Parallel()
	d := newDoScene(t)
	errNo := errors.New("no")
	for name, test := range map[string]struct {
		do   func(tx pgx.Tx) error
		want error
		text string
	}{
		"an error":         {func(tx pgx.Tx) error { return errors.Join(note(d.ctx, tx, "x"), errNo) }, errNo, "no"},
		"a hidden error":   {func(tx pgx.Tx) error { _ = note(d.ctx, tx, "x"); _, _ = tx.Exec(d.ctx, "SELECT 1/0"); return nil }, postgresstore.ErrBroken, "a statement has failed"},
		"a hidden COMMIT":  {func(tx pgx.Tx) error { _ = note(d.ctx, tx, "x"); _, _ = tx.Exec(d.ctx, "/* a */ commit"); return nil }, nil, "COMMIT within a fenced transaction"},
		"ROLLBACK by text": {func(tx pgx.Tx) error { return tx.QueryRow(d.ctx, "ROLLBACK").Scan() }, nil, "ROLLBACK within"},
		"a list":           {func(tx pgx.Tx) error { _ = tx.QueryRow(d.ctx, "SELECT 1; COMMIT").Scan(); return nil }, nil, "several statements"},
		"a batch": {func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue("INSERT INTO note VALUES ('x')")
			b.Queue("COMMIT")
			return tx.SendBatch(d.ctx, &b).Close()
		}, nil, "COMMIT within"},
		"Commit":        {func(tx pgx.Tx) error { _ = note(d.ctx, tx, "x"); _ = tx.Commit(d.ctx); return nil }, nil, "Do ends the transaction"},
		"Rollback":      {func(tx pgx.Tx) error { return tx.Rollback(d.ctx) }, nil, "Do ends the transaction"},
		"a constraint":  {func(tx pgx.Tx) error { return errors.Join(note(d.ctx, tx, "x"), note(d.ctx, tx, "x")) }, nil, "SQLSTATE 23505"},
		"a lost server": {func(tx pgx.Tx) error { return errors.Join(note(d.ctx, tx, "x"), tx.Conn().Close(d.ctx)) }, postgresstore.ErrBroken, ""},
	} {
		err := d.Do(d.ctx, d.pool, test.do)
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || errors.Is(err, postgresstore.ErrUnfenced) {
			t.Errorf("%s: %v", name, err)
		}
		d.want("")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = d.Do(d.ctx, d.pool, func(tx pgx.Tx) error { _ = note(d.ctx, tx, "x"); panic("boom") })
	}()
	d.want("")
	ctx, cancel := context.WithCancelCause(d.ctx)
	err := d.Do(ctx, d.pool, func(tx pgx.Tx) error { defer cancel(errNo); return note(ctx, tx, "x") })
	if !errors.Is(err, errNo) {
		t.Errorf("a context that ends: %v", err)
	}
	d.want("")
	if err := d.Do(soon(t), d.pool, func(pgx.Tx) error { return nil }); !errors.Is(err, postgresstore.ErrNoHold) {
		t.Error(err)
	}
	if err := open(t, fresh(t)).Do(d.ctx, d.pool, func(pgx.Tx) error { return nil }); err == nil || !strings.Contains(err.Error(), "kept in another store") {
		t.Error(err)
	}
	if err := d.Do(d.ctx, d.pool, nil); err == nil || !strings.Contains(err.Error(), "is nil") {
		t.Error(err)
	}
	d.want("")
}

// A holder that was replaced stores nothing, and a takeover waits for a transaction that was checked.
func TestDoReplaced(t *testing.T) {
	t.Parallel()
	d := newDoScene(t)
	old := d.ctx
	d.ctx = d.holding(d.take("next"))
	if err := d.Do(old, d.pool, func(tx pgx.Tx) error { return note(old, tx, "x") }); !errors.Is(err, postgresstore.ErrFenced) {
		t.Errorf("under a token that is over: %v", err)
	}
	err := d.Do(d.ctx, d.pool, func(tx pgx.Tx) error {
		d.take("third") // meanwhile
		return note(d.ctx, tx, "x")
	})
	if !errors.Is(err, postgresstore.ErrFenced) {
		t.Errorf("replaced meanwhile: %v", err)
	}
	d.want("")
}

// What ends the transaction out of sight is told, since it is stored.
func TestDoUnfenced(t *testing.T) {
	t.Parallel()
	d := newDoScene(t)
	for name, end := range map[string]string{"ended": "COMMIT", "another one": "COMMIT AND CHAIN"} {
		err := d.Do(d.ctx, d.pool, func(tx pgx.Tx) error {
			_, err := tx.Conn().Exec(d.ctx, end)
			return err
		})
		if !errors.Is(err, postgresstore.ErrUnfenced) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A COMMIT whose answer does not come is of an unknown outcome, and is told so within seconds.
func TestDoUnknown(t *testing.T) {
	t.Parallel()
	d := newDoScene(t)
	run(t, d.DB(), "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NULL; END'")
	run(t, d.DB(), "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
	if err := d.Do(d.ctx, d.pool, func(tx pgx.Tx) error { return note(d.ctx, tx, "x") }); !errors.Is(err, postgresstore.ErrUnknown) {
		t.Error(err)
	}
}
