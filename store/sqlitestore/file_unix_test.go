//go:build unix

package sqlitestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cronlease/cronlease/store/sqlitestore"
)

// The files are for their owner alone, and a mode that was given them stays.
func TestFileModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lease.db")
	for _, want := range []os.FileMode{0o600, 0o640} {
		s, err := sqlitestore.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().Exec("CREATE TABLE IF NOT EXISTS a (b INTEGER)"); err != nil {
			t.Fatal(err)
		}
		tx, err := s.DB().Begin() // so that the files beside it are there
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO a VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"", "-wal", "-shm"} {
			if info, err := os.Stat(path + end); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v, want %v", path+end, info, err, want)
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
}
