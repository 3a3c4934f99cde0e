package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// crash kills the process that has the lock.
func crash(ctx context.Context, t *trial) (outcome, error) {
	holder, err := t.start(short)
	if err != nil {
		return outcome{}, err
	}
	if err := holder.do(ctx, "hold"); err != nil {
		return outcome{}, err
	}
	holder.kill()
	return t.free(ctx)
}

// free checks whether another client gets the lock of a dead holder.
func (t *trial) free(ctx context.Context) (outcome, error) {
	w, err := t.open(short)
	if err != nil {
		return outcome{}, err
	}
	next, err := within(ctx, watch, func(ctx context.Context) (Held, error) { return w.Lock(ctx, t.key) })
	if err != nil {
		return outcome{}, err
	}
	if next.held == nil {
		return outcome{true, "still taken after " + round(next.took)}, nil
	}
	return outcome{false, "free after " + round(next.took)}, next.held.Unlock(ctx)
}

// pause stops the process that holds the lock, and resumes it when another client
// holds it: the first thing it then does is what it was about to do.
func pause(ctx context.Context, t *trial) (outcome, error) {
	holder, err := t.start(short)
	if err != nil {
		return outcome{}, err
	}
	if err := holder.do(ctx, "hold"); err != nil {
		return outcome{}, err
	}
	db, err := t.pool(set("innodb_lock_wait_timeout", "1"))
	if err != nil {
		return outcome{}, err
	}
	w, err := t.openOn(db, short)
	if err != nil {
		return outcome{}, err
	}
	if err := subprocess.Suspend(holder.cmd.Process); err != nil {
		return outcome{}, fmt.Errorf("stop a process: %w", err)
	}
	next, err := maintained(ctx, w, func() (attempt, error) {
		return within(ctx, watch, func(ctx context.Context) (Held, error) { return w.Lock(ctx, t.key) })
	})
	if err != nil {
		return outcome{}, err
	}
	if next.held == nil {
		return t.blocked(ctx, next)
	}
	if _, err := act(ctx, db, next.held); err != nil {
		return outcome{}, err
	}
	if err := holder.say("act"); err != nil {
		return outcome{}, err
	}
	if err := subprocess.Resume(holder.cmd.Process); err != nil {
		return outcome{}, fmt.Errorf("let a process go on: %w", err)
	}
	var accepted bool
	if err := holder.hear(ctx, "accepted %t", &accepted); err != nil {
		return outcome{}, err
	}
	verb := "refused"
	if accepted {
		verb = "accepted"
	}
	return outcome{accepted, fmt.Sprintf("another client got it after %s; when the first went on, its write was %s",
		round(next.took), verb)}, next.held.Unlock(ctx)
}

// blocked tells how long it would last.
func (t *trial) blocked(ctx context.Context, a attempt) (outcome, error) {
	o := outcome{true, "no other client got it in " + round(a.took)}
	if isError(a.why, lockWaitTimeout) {
		o.happened += ", only error 1205"
	}
	if !t.kind.session {
		o.happened += ", and nothing would end that"
		return o, nil
	}
	var timeout int
	if err := t.admin.QueryRowContext(ctx, "SELECT @@GLOBAL.wait_timeout").Scan(&timeout); err != nil {
		return outcome{}, err
	}
	o.happened += fmt.Sprintf("; wait_timeout would end it after %d s", timeout)
	return o, nil
}

// deadlocked has the holder release its lock in the transaction that writes its
// result, while a reporting transaction has locked the table and wants that result.
func deadlocked(ctx context.Context, t *trial) (outcome, error) {
	db, err := t.pool(set("innodb_lock_wait_timeout", "2"))
	if err != nil {
		return outcome{}, err
	}
	w, err := t.openOn(db, short)
	if err != nil {
		return outcome{}, err
	}
	held, err := w.Lock(ctx, t.key)
	if err != nil {
		return outcome{}, err
	}
	result, err := begin(ctx, db, "UPDATE work SET writes = writes + 1 WHERE id = 0")
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = result.Rollback() }() // mostly over by then
	// It has written more, so that the server rolls the other one back. It names its
	// rows: a range of so small a table is sometimes read by a scan of all of it,
	// which waits for the result.
	report, err := begin(ctx, t.admin, "INSERT INTO work (id) VALUES (10), (11), (12), (13), (14), (15), (16), (17), (18), (19)",
		"SELECT COUNT(*) FROM "+t.kind.table+" FOR UPDATE")
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = report.Rollback() }()
	reported := make(chan error, 1)
	go func() {
		_, err := report.ExecContext(ctx, "UPDATE work SET writes = writes + 1 WHERE id = 0")
		reported <- err
	}()
	released := held.Unlock(withTx(ctx, result))
	if released == nil {
		err = result.Commit()
	} else {
		err = result.Rollback() // what services do after an error, besides logging it
	}
	if err := errors.Join(err, <-reported); err != nil {
		return outcome{}, err
	}
	if err := report.Commit(); err != nil {
		return outcome{}, err
	}
	o, err := t.free(ctx)
	switch {
	case isError(released, deadlock):
		o.happened = "the release got error 1213; " + o.happened
	case released != nil:
		o.happened = "the release got an error; " + o.happened
	}
	return o, err
}

// begin runs statements in a new transaction.
func begin(ctx context.Context, db *sql.DB, statements ...string) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			_ = tx.Rollback()
			return nil, err
		}
	}
	return tx, nil
}
