// Package memstore keeps leases, ledgers and locks in the memory of one process: for tests,
// examples, and programs that run alone. It is the store that runs inside testing/synctest
// bubbles.
package memstore

import (
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// Store is a database in memory: a [store.Jobs] and a [store.Locks], with
// [store.Archive], [store.Replicas], [store.Heartbeats], [store.RequestSignals],
// [store.HandoverSignals] and [store.Notifiers]. It is safe for concurrent use.
// Replicas in one process share a Store.
type Store struct{ contract }

// contract is what memdb has for users. The rest of it is for this module's tests.
type contract interface {
	store.Jobs
	store.Archive
	store.Replicas
	store.Heartbeats
	store.RequestSignals
	store.Locks
	store.HandoverSignals
	store.Notifiers
}

// New returns an empty store.
func New() *Store { return &Store{memdb.New()} }
