// Package plainfile reads small files that a configuration names, such as
// passwords, certificates and the secrets of jobs.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// MostSecret is how large a file with a password, a key or certificates may be,
// in bytes. A system's whole list of authorities has about 250 kB.
const MostSecret = 4 << 20

// MostText is the largest secret of a job, in bytes: Linux takes 128 KiB for an
// environment variable, its name included.
const MostText = 64 << 10

// Text is [Read] for a text, which it returns without one line end behind it.
func Text(path string, most int) (string, error) {
	data, err := Read(path, most)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsRune(string(data), 0):
		return "", errors.New(path + ": has a zero byte: expected text")
	}
	return withoutEnd(data), nil
}

// withoutEnd is a text without one line end behind it.
func withoutEnd(text []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
}

// Password returns what is in a file without the end of its last line. An empty
// one is an error.
func Password(path string) (string, error) {
	text, err := Read(path, MostSecret)
	if err != nil {
		return "", err
	}
	password := withoutEnd(text)
	if password == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return password, nil
}

// Read returns what is in the file, which may have at most so many bytes. It
// never waits: a named pipe, a terminal or a device, whose reader may wait until
// there is a writer, is an error. A link to a file is followed. No error shows
// any of the content.
func Read(path string, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a regular file, not %s", path, kind(info.Mode()))
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s: expected at most %d bytes", path, most)
	}
	return data, nil
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeSocket != 0:
		return "a socket"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return "a file of another kind"
}
