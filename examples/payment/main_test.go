package main

import (
	"database/sql"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnePaymentForOneOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		var out strings.Builder
		if err := run(t.Context(), db.DSN, &out); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "receipts R-1 and R-1, 1 charge(s), 1999 cents\n"; got != want {
			t.Errorf("got  %swant %s", got, want)
		}
	})
}

// TestReplicaThatDiedAfterTheCharge has charged, and stored nothing of it.
func TestReplicaThatDiedAfterTheCharge(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		if err := prepare(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		bank := &Bank{}
		checkout, err := Open(t.Context(), db.DSN, bank)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := checkout.Close(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := pool.Exec(`INSERT INTO example_payment (order_id, cents) VALUES (7, 500)`); err != nil {
			t.Fatal(err)
		}
		first, err := bank.Charge(t.Context(), "order-7", 500)
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := checkout.Pay(t.Context(), 7, 500)
		if charges, _ := bank.Charges(); err != nil || receipt != first || charges != 1 {
			t.Errorf("receipt %q after %q, %d charges: %v", receipt, first, charges, err)
		}
		var stored sql.NullString
		if err := pool.QueryRow(`SELECT receipt FROM example_payment WHERE order_id = 7`).Scan(&stored); err != nil || stored.String != first {
			t.Errorf("stored %v: %v", stored, err)
		}
	})
}
