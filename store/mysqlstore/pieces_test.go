package mysqlstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// With the smallest max_allowed_packet that is usual, the longest schedules and
// errors of a full call fit; with a smaller one the error says what to set.
func TestSmallPackets(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind, "--max-allowed-packet=1M")
			db := dbtest.FreshOn(t, kind, server.DSN(""))
			s := migrated(t, db.DSN)
			h := holder(t, s, "billing", "me")
			var declared []store.Declared
			var claims []store.Claim
			for n := range 500 {
				name := fmt.Sprintf("job-%03d", n)
				declared = append(declared, store.Declared{Name: name, Schedule: strings.Repeat("'", 1900)})
				claims = append(claims, store.Claim{Key: key(name, 1), State: jobs.Running, Error: strings.Repeat("'", store.MaxError)})
			}
			if err := s.Declare(soon(t), h, declared); err != nil {
				t.Fatal(err)
			}
			claimed, err := s.Claim(soon(t), h, id(), claims)
			if err != nil {
				t.Fatal(err)
			}
			var moves []store.Move
			for i, c := range claimed {
				if !c.Mine || c.Error != claims[i].Error {
					t.Fatalf("claim %d: %+v", i, c)
				}
				moves = append(moves, store.Move{Key: c.Key, From: c.State, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Failed, Error: claims[i].Error})
			}
			if moved, err := s.Move(soon(t), h, moves); err != nil || !moved[499] {
				t.Fatalf("%v, %v", moved, err)
			}

			exec(t, db.Open(t), "SET GLOBAL max_allowed_packet = 8192")
			// The server closes the connection behind its answer, which may be lost by that.
			small := open(t, db.DSN)
			eventually(t, "an error that names max_allowed_packet", func() bool {
				_, err := small.Claim(soon(t), h, id(), claims)
				if err == nil {
					t.Fatal("a claim above max_allowed_packet succeeded")
				}
				return strings.Contains(err.Error(), "max_allowed_packet")
			})
		})
	}
}
