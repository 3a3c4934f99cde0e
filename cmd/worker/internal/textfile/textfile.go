// Package textfile reads the texts of jobs that stand in files of their own, such
// as secrets.
package textfile

import (
	"errors"
	"strings"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// MaxSecret is the largest secret, in bytes: Linux takes 128 KiB for an
// environment variable, its name included.
const MaxSecret = 64 << 10

// Read returns the text of a file of at most so many bytes, without one line end
// behind it. It never waits, since neither a timeout nor the end of the term could
// end that. No error shows a part of the text.
func Read(file string, most int) (string, error) {
	data, err := plainfile.Read(file, most)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsRune(string(data), 0):
		return "", errors.New(file + ": has a zero byte: expected text")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}
