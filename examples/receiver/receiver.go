package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strconv"
)

// Receiver is a service that jobs call, with an effect of its own: it counts
// deliveries. A call of a replica that has been replaced has none.
type Receiver struct{ db *sql.DB }

// errOld says that a newer term has called before.
var errOld = errors.New("the token is older than one that was here before")

// Setup creates the tables.
func (r *Receiver) Setup(ctx context.Context) error {
	_, err := r.db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS term (grp TEXT PRIMARY KEY, token INTEGER NOT NULL);
		CREATE TABLE IF NOT EXISTS delivery (id INTEGER PRIMARY KEY, job TEXT NOT NULL, tick TEXT NOT NULL, token INTEGER NOT NULL);`)
	return err
}

// admit lets a token in that is not older than any other of its group, and
// remembers it, in one statement: two calls at once cannot both find an old one.
func admit(ctx context.Context, tx *sql.Tx, group string, token int64) error {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO term (grp, token) VALUES (?, ?)
		ON CONFLICT (grp) DO UPDATE SET token = excluded.token WHERE excluded.token >= token`, group, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return errOld
}

// deliver admits the token and does the work, in one transaction: what was let
// in is done before a newer token can be.
func (r *Receiver) deliver(ctx context.Context, group string, token int64, job, tick string) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := admit(ctx, tx, group, token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO delivery (job, tick, token) VALUES (?, ?, ?)", job, tick, token); err != nil {
		return err
	}
	return tx.Commit()
}

// ServeHTTP implements [http.Handler] for the worker's http jobs.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	h := request.Header
	token, err := strconv.ParseInt(h.Get("Cronlease-Token"), 10, 64)
	if err != nil || h.Get("Cronlease-Group") == "" {
		http.Error(w, "no group and token", http.StatusBadRequest)
		return
	}
	switch err := r.deliver(request.Context(), h.Get("Cronlease-Group"), token, h.Get("Cronlease-Job"), h.Get("Cronlease-Tick")); {
	case errors.Is(err, errOld):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, "not delivered", http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
