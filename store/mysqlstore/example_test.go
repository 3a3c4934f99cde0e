package mysqlstore_test

import (
	"database/sql"
	"fmt"
	"log"

	"github.com/cronlease/cronlease/store/mysqlstore"
)

// Open dials nothing: the first call of a method does.
func ExampleOpen() {
	store, err := mysqlstore.Open("mysql://worker:secret@db:3306/billing", mysqlstore.WithTablePrefix("lease_"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store)
	// Output: mysqlstore(worker@tcp(db:3306)/billing, tables lease_*)
}

// New is for a service that has a pool already. It dials nothing either.
func ExampleNew() {
	db, err := sql.Open("mysql", "worker:secret@tcp(db:3306)/billing")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := mysqlstore.New(db)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(store.Close()) // closes the store's own connections, and not the pool
	// Output: <nil>
}

// Of several hosts, the one that takes writes is used, and followed over a
// failover.
func ExampleOpen_severalHosts() {
	store, err := mysqlstore.Open("mysql://worker:secret@db1,db2:3307/billing")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store)
	// Output: mysqlstore(worker@tcp(db1:3306,db2:3307)/billing, tables cronlease_*)
}
