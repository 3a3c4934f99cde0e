package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/cronlease/cronlease/internal/workertest"
)

// roles are what the test program is when the variable of that name is set: a process that a test has started. Each gets
// the variable's value.
var roles = map[string]func(string) error{
	playerVariable:     play,
	writerVariable:     write,
	lockPlayerVariable: playLocks,
}

func TestMain(m *testing.M) {
	for variable, role := range roles {
		value := os.Getenv(variable)
		if value == "" {
			continue
		}
		if err := role(value); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", variable, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(workertest.Main(m))
}
