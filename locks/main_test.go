package locks_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(holderVariable); dsn != "" {
		fmt.Fprintln(os.Stderr, holdUntilKilled(dsn))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
