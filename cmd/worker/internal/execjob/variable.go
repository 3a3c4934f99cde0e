//go:build unix

package execjob

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// maxValue is the largest value that a file may hold: Linux takes 128 KiB for a
// variable, its name included.
const maxValue = 64 << 10

// values are the variables as a program gets them.
func values(variables []Variable) ([]string, error) {
	var env []string
	for _, v := range variables {
		if v.File != "" {
			var err error
			if v.Value, err = readValue(v.File); err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
		}
		env = append(env, v.Name+"="+v.Value)
	}
	return env, nil
}

// readValue reads the value that a file holds. It never waits, since neither a
// timeout nor the end of the term could end that. No error shows a part of it.
func readValue(file string) (string, error) {
	data, err := plainfile.Read(file, maxValue)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsRune(string(data), 0):
		return "", errors.New(file + ": has a zero byte: expected text")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}
