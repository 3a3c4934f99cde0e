package mysqlstore_test

import (
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
