package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A second replica goes on at once after a clean stop, and within TTL + 1 s
// after a crash.
func TestHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		first := start(t, store)
		a := <-first.terms
		second := start(t, store)
		synctest.Wait()

		stopped := time.Now()
		first.stop()
		b := <-second.terms
		if gap := time.Since(stopped); gap > 50*time.Millisecond {
			t.Errorf("hand-over took %v", gap)
		}
		if b.Token() <= a.Token() {
			t.Errorf("token %d after %d", b.Token(), a.Token())
		}
		if err := <-first.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if cause := <-first.causes; !errors.Is(cause, election.ErrStopped) {
			t.Errorf("cause %v", cause)
		}
	})
}

func TestLostByUnreachableDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		cut := &flaky{Store: store}
		first := start(t, cut)
		a := <-first.terms
		second := start(t, store)
		time.Sleep(time.Minute)
		if !a.Trusted() {
			t.Fatal("a healthy leader was deposed")
		}
		cutAt := time.Now()
		cut.fail.Store(true)
		cause := <-first.causes
		lost := time.Now()
		if !errors.Is(cause, election.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		b := <-second.terms
		if overlap := time.Since(lost); overlap < 2*time.Second {
			t.Errorf("the next term began %v after the context ended, less than grace", overlap)
		}
		if gap := time.Since(cutAt); gap > 16*time.Second {
			t.Errorf("no leader for %v", gap)
		}
		if b.Token() <= a.Token() {
			t.Errorf("token %d after %d", b.Token(), a.Token())
		}
		cut.fail.Store(false)
		time.Sleep(time.Minute)
		if !b.Trusted() {
			t.Error("the second was deposed")
		}
	})
}

func TestResign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		first := start(t, store)
		<-first.terms
		second := start(t, store)
		synctest.Wait()
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cause := <-first.causes; !errors.Is(cause, election.ErrResigned) {
			t.Errorf("cause %v", cause)
		}
		<-second.terms
		if _, err := election.AskResign(t.Context(), store, "g"); err != nil {
			t.Fatal(err)
		}
		<-first.terms
		if cause := <-second.causes; !errors.Is(cause, election.ErrResigned) {
			t.Errorf("cause %v", cause)
		}
	})
}

// replica is a campaign whose terms and their ends are seen from outside.
type replica struct {
	*election.Election
	terms  chan election.Term
	causes chan error
	done   chan error
	stop   func()
}

func start(t *testing.T, store lease.Store, options ...election.Option) *replica {
	t.Helper()
	e, err := election.New(store, "g", options...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &replica{Election: e, terms: make(chan election.Term, 100), causes: make(chan error, 100), done: make(chan error, 1), stop: cancel}
	go func() {
		r.done <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
			r.terms <- term
			<-ctx.Done()
			r.causes <- context.Cause(ctx)
			return nil
		})
	}()
	return r
}
