//go:build unix

package plainfile_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cronlease/cronlease/internal/plainfile"
)

func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	const most = 10
	for name, size := range map[string]int{"empty": 0, "full": most, "large": most + 1} {
		if err := os.WriteFile(at(name), bytes.Repeat([]byte("s"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("full"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, c := range []struct {
		path  string
		size  int
		wrong string // in the error; empty for none
	}{
		{at("empty"), 0, ""},
		{at("full"), most, ""},
		{at("link"), most, ""},
		{at("large"), 0, "at most 10 bytes"},
		{at("pipe"), 0, "not a pipe"},
		{at("socket"), 0, "socket"},
		{os.DevNull, 0, "not a device"},
		{folder, 0, "not a directory"},
		{at("absent"), 0, "no such file"},
	} {
		data, err := plainfile.Read(c.path, most)
		switch {
		case c.wrong == "" && (err != nil || len(data) != c.size):
			t.Errorf("%s: %d bytes, %v: want %d", c.path, len(data), err, c.size)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), c.path)):
			t.Errorf("%s: %v: want the path and %q", c.path, err, c.wrong)
		case strings.Contains(fmtErr(err), "sss"):
			t.Errorf("%s: the error shows the content: %v", c.path, err)
		}
	}
}

func fmtErr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
