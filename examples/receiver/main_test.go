package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call does what an http job does, and returns the status.
func call(r *Receiver, group string, token int64) int {
	request := httptest.NewRequest(http.MethodPost, "/", nil)
	request.Header.Set("Cronlease-Group", group)
	request.Header.Set("Cronlease-Job", "ping")
	request.Header.Set("Cronlease-Tick", "2027-01-01T00:00:00Z")
	request.Header.Set("Cronlease-Token", strconv.FormatInt(token, 10))
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	return answer.Code
}

func deliveries(t *testing.T, r *Receiver) (n int) {
	t.Helper()
	if err := r.db.QueryRow("SELECT COUNT(*) FROM delivery").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func openIn(t *testing.T, path string) *Receiver {
	t.Helper()
	r, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	return r
}

// An older token is refused, for its group alone, and also by a receiver that was
// restarted.
func TestOlderTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receiver.db")
	for _, c := range []struct {
		group string
		token int64
		want  int
	}{
		{"billing", 10, http.StatusNoContent},
		{"billing", 10, http.StatusNoContent}, // the same term, again
		{"billing", 11, http.StatusNoContent},
		{"billing", 10, http.StatusConflict},
		{"other", 5, http.StatusNoContent},
		{"", 5, http.StatusBadRequest},
	} {
		r := openIn(t, path)
		before := deliveries(t, r)
		if got := call(r, c.group, c.token); got != c.want {
			t.Errorf("%s %d: answered %d, want %d", c.group, c.token, got, c.want)
		}
		if done := deliveries(t, r) - before; (done == 1) != (c.want == http.StatusNoContent) {
			t.Errorf("%s %d: %d deliveries", c.group, c.token, done)
		}
	}
}

// Of calls at once, each that has an effect has it before any of a newer term.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	r := openIn(t, filepath.Join(t.TempDir(), "receiver.db"))
	var all sync.WaitGroup
	for token := range int64(50) {
		all.Go(func() { call(r, "billing", 1000-token) })
	}
	all.Wait()
	if got := call(r, "billing", 999); got != http.StatusConflict {
		t.Errorf("answered %d", got)
	}
	var swapped int
	if err := r.db.QueryRow("SELECT COUNT(*) FROM delivery a JOIN delivery b ON a.id < b.id AND a.token > b.token").Scan(&swapped); err != nil || swapped > 0 {
		t.Errorf("%d times a newer term's effect came first: %v", swapped, err)
	}
}
