package zkstore_test

import (
	"bytes"
	"compress/flate"
	"crypto/sha512"
	"fmt"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/zkserver"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/zkstore"
)

// A write of a lock that is past what is expected is refused without a transaction, which is what most unlocks begin
// with that others wait for.
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

// A server, which keeps what its last 500 transactions wrote, in 128 MB, goes on when the longest queue of package locks moves on again
// and again: each grant writes it once more.
func TestLongestQueue(t *testing.T) {
	t.Parallel()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := zkserver.New(program, "-Dzookeeper.forceSync=no")
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	queue := []byte(`{"processes":[{"group":"locks/worker/host/4711/abcdefgh","token":1,"owner":"worker/host/4711/abcdefgh","started":1,"ttl":15000000000}],"places":[`)
	for i := range 4096 {
		queue = fmt.Appendf(queue, `{"id":"locks/worker/host/4711/abcdefgh.%d","granted":0,"since":%d`, i, 1_790_000_000_000_000+int64(i)*7919)
		if i < 128 { // more labels it does not have
			queue = fmt.Appendf(queue, `,"label":"%x"`, sha512.Sum512([]byte{byte(i)}))
		}
		queue = append(queue, "},"...)
	}
	s := open(t, server.Addr(), "")
	r, err := s.ReadLocks(t.Context(), "crowd")
	if err != nil {
		t.Fatal(err)
	}
	const writes = 500
	for version := uint64(1); version <= writes; version++ {
		done, err := s.WriteLocks(t.Context(), r.Server, []store.LockWrite{{Name: "crowd", Expect: version - 1, Version: version, Queue: queue}})
		if err != nil || !done[0] {
			t.Fatalf("write %d of %d bytes: %v, %v", version, len(queue), done, err)
		}
	}
	r, err = s.ReadLocks(t.Context(), "crowd")
	if err != nil || !bytes.Equal(r.Rows[0].Queue, queue) || r.Rows[0].Version != writes {
		t.Errorf("read back: %d bytes of version %d, %v", len(r.Rows[0].Queue), r.Rows[0].Version, err)
	}
	data, _, err := dial(t, server.Addr()).Get(zkstore.DefaultRoot + "/locks/crowd")
	if err != nil || len(data) > 100_000 {
		t.Errorf("the node has %d bytes for a queue of %d: %v", len(data), len(queue), err)
	}
	t.Logf("the node has %d bytes for a queue of %d", len(data), len(queue))
}

// A queue that looks like one that was made smaller, and one that unpacks to more than there can be.
func TestQueuesThatLookPacked(t *testing.T) {
	t.Parallel()
	const root = "/packed"
	s, client := open(t, shared.Addr(), root), dial(t, shared.Addr())
	r, err := s.ReadLocks(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	queue := []byte("\x00deflate\x00 is how it begins")
	if done, err := s.WriteLocks(t.Context(), r.Server, []store.LockWrite{{Name: "a", Version: 1, Queue: queue}}); err != nil || !done[0] {
		t.Fatalf("%v, %v", done, err)
	}
	if r, err = s.ReadLocks(t.Context(), "a"); err != nil || !bytes.Equal(r.Rows[0].Queue, queue) {
		t.Errorf("read back: %q, %v", r.Rows[0].Queue, err)
	}
	var bomb bytes.Buffer
	w, err := flate.NewWriter(&bomb, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 17<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, packed := range []string{"no deflate", bomb.String()} {
		if _, err := client.Set(root+"/locks/a", []byte("12345678\x00deflate\x00"+packed), -1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadLocks(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "node "+root+"/locks/a") {
			t.Errorf("a node of %d bytes that cannot be unpacked: %v", len(packed), err)
		}
	}
}

// A peek takes no transaction, but in a session that has made none yet, and where another server answers.
func TestPeekCostsNoTransaction(t *testing.T) {
	t.Parallel()
	const root = "/peek"
	s, other, client := open(t, shared.Addr(), root), open(t, shared.Addr(), root), dial(t, shared.Addr())
	read, err := s.ReadLocks(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteLocks(t.Context(), read.Server, []store.LockWrite{{Name: "stock", Version: 1}}); err != nil {
		t.Fatal(err)
	}
	peek := func(what string, of *zkstore.Store, want int32) (server string) {
		t.Helper()
		transactions := func() int32 {
			_, stat, err := client.Get(root + "/clock")
			if err != nil {
				t.Fatal(err)
			}
			return stat.Version
		}
		before := transactions()
		r, err := of.PeekLocks(t.Context(), "stock")
		if err != nil {
			t.Fatal(err)
		}
		if n := transactions() - before; n != want {
			t.Errorf("%s: %d transactions, want %d", what, n, want)
		}
		if r.Rows[0].Version != 1 {
			t.Errorf("%s: version %d", what, r.Rows[0].Version)
		}
		return r.Server
	}
	peek("the first of a session", other, 1)
	for range 3 {
		peek("another one", other, 0)
		peek("after a write", s, 0)
	}
	if err := zkstore.Turn(other); err != nil {
		t.Fatal(err)
	}
	if after := peek("another server", s, 1); after == read.Server {
		t.Error("another server has the same name")
	}
	peek("the same server", s, 0)
	zkstore.Renew(s)
	peek("another session", s, 1)
	peek("the same session", s, 0)
}

// A holder without a user unlocks for a waiter of another user, whose node it may neither read nor write; that one polls.
func TestUnlockForAnotherUser(t *testing.T) {
	t.Parallel()
	const root = "/others"
	holder := open(t, shared.Addr(), root)
	other, err := zkstore.Open("zk://alice:secret@" + shared.Addr() + root)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	n := other.Notifier()
	defer n.Close()
	read, err := holder.ReadLocks(t.Context(), "stock") // which creates the nodes for all
	if err != nil {
		t.Fatal(err)
	}
	address, err := n.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for version := uint64(1); version < 3; version++ {
		done, err := holder.WriteLocks(t.Context(), read.Server, []store.LockWrite{{Name: "stock", Expect: version - 1, Version: version, Wake: []string{address}}})
		if err != nil || !done[0] {
			t.Errorf("version %d: %v, %v", version, done, err)
		}
	}
}
