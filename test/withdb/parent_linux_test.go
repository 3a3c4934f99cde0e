package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEverythingEndsWithTheParent(t *testing.T) {
	t.Parallel()
	program, environment, tmp := self(t)
	// The shell is the parent; what follows withdb keeps the shell from becoming it.
	w := startWithdb(t, "sh", environment, tmp, "-c", `"$0" "$@"; exit 1`, program, "--", "sh", "-c", tell+`sleep 1000`)
	addrs := w.ready(t)
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.end(t)
	gone(t, addrs)
}

func TestKeepOutlivesTheParent(t *testing.T) {
	t.Parallel()
	program, environment, tmp := self(t)
	// The command ends when the test says so, by opening the pipe and closing it.
	w := startWithdb(t, "sh", environment, tmp, "-c", `"$0" "$@"; exit 1`, program, "-keep", "--",
		"sh", "-c", `mkfifo "$TMPDIR/end"; `+tell+`cat "$TMPDIR/end"; echo done`)
	addrs := w.ready(t)
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Wait(); err == nil {
		t.Fatal("the shell ended by itself")
	}
	fifos, err := filepath.Glob(filepath.Join(tmp, "*", "end"))
	if err != nil || len(fifos) != 1 {
		t.Fatalf("pipes %v, %v, want one", fifos, err)
	}
	pipe, err := os.OpenFile(fifos[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	if out, err := io.ReadAll(w.out); err != nil || !strings.Contains(string(out), "done\n") {
		t.Errorf("%v; the command did not go on to its end:\n%s", err, out)
	}
	gone(t, addrs)
}
