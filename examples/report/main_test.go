package main

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheNextLeaderFinishesTheReport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		var out strings.Builder
		if err := run(t.Context(), db.DSN, &out); err != nil {
			t.Fatal(err)
		}
		var first, second int
		if _, err := fmt.Sscanf(out.String(), "attempt 1 wrote %d parts\nattempt 2 wrote %d parts\n", &first, &second); err != nil {
			t.Fatalf("%v: %q", err, out.String())
		}
		// The replica that is stopped may store one more part before it notices.
		if first+second != parts || first < 3 || first > 4 {
			t.Errorf("got %q", out.String())
		}
	})
}
