package mysqlconn_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

func TestManyWriters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variables map[string]string
		want      bool
	}{
		{map[string]string{}, false},
		{map[string]string{"wsrep_on": "OFF"}, false},
		{map[string]string{"wsrep_on": "ON"}, true},
		{map[string]string{"group_replication_single_primary_mode": "ON"}, false},
		{map[string]string{"group_replication_single_primary_mode": "OFF"}, true},
	} {
		if got := mysqlconn.NewServer(c.variables).ManyWriters(); got != c.want {
			t.Errorf("%v: %v", c.variables, got)
		}
	}
}

// The server's clock is stepped for one session only, which is what a statement
// sees of a step.
func TestServerIsTheSameAfterAClockStep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		c, err := db.Open(t).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		seen := map[uint64]bool{}
		for _, clock := range []string{"DEFAULT", "1000000000", "1900000000", "DEFAULT"} {
			if _, err := c.ExecContext(t.Context(), "SET timestamp = "+clock); err != nil {
				t.Fatal(err)
			}
			started, err := mysqlconn.Started(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			seen[started] = true
		}
		if len(seen) != 1 {
			t.Errorf("the server was started at %v", seen)
		}
	})
}
