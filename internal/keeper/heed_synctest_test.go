package keeper_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
)

// A holder learns at once that it is asked to resign, and what is asked of its ledger, also
// what was asked before it began to heed.
func TestHeed(t *testing.T) {
	for name, ledger := range map[string]bool{"with a ledger": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memdb.New()
				k, err := keeper.New(s, keeper.Config{})
				if err != nil {
					t.Fatal(err)
				}
				go func() { _ = k.Run(t.Context()) }()
				c, err := k.Candidate("g")
				if err != nil {
					t.Fatal(err)
				}
				h, _, err := c.Look(t.Context())
				if h == nil {
					t.Fatal(err)
				}
				pause := func(job string) {
					if err := s.Pause(t.Context(), "g", job); err != nil {
						t.Error(err)
					}
				}
				var known, looks atomic.Uint64
				var look func() bool
				var number func() uint64
				if ledger {
					pause("")
					number = known.Load
					look = func() bool {
						changes, err := s.Changes(t.Context(), "g")
						if err == nil && known.Swap(changes.Number) != changes.Number {
							looks.Add(1)
							return true
						}
						return false
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					h.Heed(ctx, number, look)
				}()
				want := func(n uint64) {
					t.Helper()
					synctest.Wait()
					if got := looks.Load(); ledger && got != n {
						t.Errorf("found changes %d times, want %d", got, n)
					}
				}
				want(1)
				time.Sleep(time.Second)
				if err := s.Resume(t.Context(), "g", ""); err != nil {
					t.Error(err)
				}
				want(2)
				time.Sleep(time.Second)
				if err := s.AskResign(t.Context(), "g", h.Token()); err != nil {
					t.Error(err)
				}
				asked := time.Now()
				<-h.ResignAsked()
				if after := time.Since(asked); after > 10*time.Millisecond {
					t.Errorf("noticed after %v that it is to resign", after)
				}
				cancel()
				<-done
			})
		})
	}
}
