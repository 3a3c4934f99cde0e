package zkstore_test

import (
	"testing"

	"github.com/cronlease/cronlease/store"
)

// A write of a lock that is past what is expected is refused without a transaction, which is what most unlocks begin with that others wait for.
func TestOutdatedWriteCostsNoTransaction(t *testing.T) {
	t.Parallel()
	const root = "/outdated"
	s, client := open(t, shared.Addr(), root), dial(t, shared.Addr())
	r, err := s.ReadLocks(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	write := func(expect, version uint64, want bool) {
		t.Helper()
		done, err := s.WriteLocks(t.Context(), r.Server, []store.LockWrite{{Name: "stock", Expect: expect, Version: version, Queue: []byte{byte(version)}}})
		if err != nil || done[0] != want {
			t.Fatalf("version %d after %d: %v, %v, want %t", version, expect, done, err, want)
		}
	}
	// Each transaction of a store writes its clock.
	transactions := func() int32 {
		t.Helper()
		_, stat, err := client.Get(root + "/clock")
		if err != nil {
			t.Fatal(err)
		}
		return stat.Version
	}
	write(0, 1, true)
	write(1, 2, true)
	before := transactions()
	write(1, 3, false)
	if n := transactions() - before; n != 0 {
		t.Errorf("a write that expects version 1 of a row of version 2 took %d transactions", n)
	}
	write(2, 3, true)
}
