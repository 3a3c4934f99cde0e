package config

import (
	"fmt"

	"github.com/cronlease/cronlease/internal/names"
)

// readPools reads how many runs each pool of jobs may have at a time.
func readPools(v value) map[string]int {
	const what, name = "pools such as {reports: 3}", "a pool's name such as reports"
	same := func(name string) string { return name }
	check := func(key string) error {
		if !names.Valid(key) {
			return fmt.Errorf("expected %s: 1 to 128 letters, digits and . _ : / @ + -, the first a letter or a digit", name)
		}
		return nil
	}
	pools := map[string]int{}
	readNamed(v, what, name, same, check, func(v value, key string) { pools[key] = readCount(v, maxRuns) })
	return pools
}
