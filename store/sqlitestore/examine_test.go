package sqlitestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	wants := func(found []store.Finding, check string, grade store.Grade, text, cure string) {
		t.Helper()
		for _, f := range found {
			if f.Check == check && f.Grade == grade && strings.Contains(f.Text, text) && strings.Contains(f.Cure, cure) {
				return
			}
		}
		t.Errorf("no %v of %s with %q and cure %q in %v", grade, check, text, cure, found)
	}
	found := s.Examine(soon(t), time.Minute)
	wants(found, "file", store.Good, path, "")
	wants(found, "growth", store.Good, "0 runs", "")
	if len(found) != 4 {
		t.Errorf("%v", found)
	}
	var left int
	if err := s.DB().QueryRow("SELECT count(*) FROM cronlease_replica").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left: %v", left, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	found = s.Examine(soon(t), time.Microsecond)
	wants(found, "file", store.Warning, "can be written by other users", "chmod 600")
	wants(found, "commits", store.Problem, "commits are slow", "longer TTL")
	run(t, s.DB(), "DROP TABLE cronlease_replica")
	found = s.Examine(soon(t), 0)
	wants(found, "file", store.Problem, "cronlease_replica", "run Migrate (worker migrate)")
	wants(found, "commits", store.Unknown, "see file", "") // it is said once
	found = open(t, filepath.Join(t.TempDir(), "none.db")).Examine(soon(t), 0)
	wants(found, "file", store.Problem, "the file does not exist", "run Migrate (worker migrate)")
	for _, check := range []string{"commits", "growth", "disk"} {
		wants(found, check, store.Unknown, "see file", "")
	}

	all := []store.Finding{sqlitestore.JudgeGrowth(10, 1<<20, 300<<20), sqlitestore.JudgeGrowth(6_000_000, 1<<30, 0), sqlitestore.JudgeDisk(100 << 20), sqlitestore.JudgeDisk(1 << 10)}
	wants(all, "", store.Warning, "the write-ahead log has 300 MiB", "end the program")
	wants(all, "", store.Warning, "there are 6000000 runs", "history.keep")
	wants(all, "", store.Warning, "100 MiB are free", "make room")
	wants(all, "", store.Problem, "0 MiB are free", "make room")
}
