package mysqlstore_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// On a server whose defaults are not those of others, statements are committed as on any other one. With completion_type=CHAIN each COMMIT
// begins another transaction.
func TestServerDefaults(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		server := dbtest.Private(t, db.Kind, "--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE")
		ledgerConforms(t, variants[0], func(t testing.TB) dbtest.Database { return dbtest.FreshOn(t, server.Kind(), server.DSN("")) }, false)
	})
}
