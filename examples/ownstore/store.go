//go:build darwin || freebsd || linux

// Package ownstore is a store of your own, as short as one can be: it keeps leases and ledgers in the files of a folder,
// for the processes of one machine. Start from it when you write a store for another database, and read the package
// comments of store and store/ledger first.
//
//   - folder.go is the database: a lock, and files that are read and replaced as a whole. Yours has transactions instead,
//     or versions to compare.
//   - leases.go are the leases. Each method is a transaction that compares what the contract says.
//   - ledger.go is the ledger. It only loads and stores what package ledger has decided.
//
// The test runs the suites that all stores of cronlease pass. What is optional is left out: replicas poll, and nobody is
// told which jobs they have. Nothing but this store may change the folder, which is on a local disk. A process that is
// stopped while it has the lock keeps the others waiting.
package ownstore

import (
	"os"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var (
	_ store.Jobs    = (*Store)(nil)
	_ store.Archive = (*Store)(nil)
)

// Store keeps leases and ledgers in a folder. It is safe for concurrent use.
type Store struct {
	ledger.Ledger // what writes to a ledger
	ledger.Reads  // what only reads one

	folder string
}

// Open returns the store in a folder, which it makes if there is none.
func Open(folder string) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	s := &Store{folder: folder}
	s.Ledger, s.Reads = ledger.New("ownstore", rows{s}), ledger.NewReads(s.view)
	return s, nil
}
