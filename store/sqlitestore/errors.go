package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cronlease/cronlease/lease"
)

// explain names the file, and the cure where there is one. An error that an
// operator has to mend matches [lease.ErrSetup], and [lease.ErrNotReady] too where
// another process may be about to mend it.
func (s *Store) explain(ctx context.Context, err error) error {
	if problem, kind := s.problem(ctx, err); problem != "" {
		return fmt.Errorf("%s: %w: %s: %w", s.path, kind, problem, err)
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		if e.Code() == sqlite3.SQLITE_IOERR_WRITE { // SQLite reports a full disk only for ENOSPC
			return fmt.Errorf("%s: it cannot grow, or be written: its disk fails, or a quota or a limit on its size is reached: %w", s.path, err)
		}
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("%s: no space left: free some on its disk: %w", s.path, err)
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return fmt.Errorf("%s: another process is writing: %w", s.path, err)
		}
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

// problem says what is wrong with the file and what cures it, if it is known, and
// which kind of error that is.
func (s *Store) problem(ctx context.Context, err error) (text string, kind error) {
	code := 0
	var e *sqlite.Error
	if errors.As(err, &e) {
		code = e.Code() & 0xff
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		switch code {
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		case sqlite3.SQLITE_ERROR:
			least, level, err := s.versions(ctx, s.own)
			if err == nil && level < len(steps) {
				return versionProblem(least, level), lease.ErrNotReady
			}
			if gaps, err := readGaps(ctx, s.own); err == nil && len(gaps) > 0 {
				return joinGaps(gaps) + ": run Migrate (worker migrate)", lease.ErrNotReady
			}
			return "", nil
		default:
			return "", nil
		}
	}
	dir := filepath.Dir(s.path)
	file, fileErr := os.Stat(s.path)
	_, dirErr := os.Stat(dir)
	switch {
	case errors.Is(dirErr, fs.ErrNotExist):
		return fmt.Sprintf("its directory does not exist: create it (mkdir -p %q)", dir), lease.ErrSetup
	case fileErr == nil && file.IsDir():
		return "it is a directory: give the path of a file", lease.ErrSetup
	case code == sqlite3.SQLITE_NOTADB, code == sqlite3.SQLITE_CORRUPT:
		return "it is not an SQLite database, or a damaged one: give another path, or restore the file", lease.ErrSetup
	case errors.Is(fileErr, fs.ErrNotExist) && code == 0:
		return "the file does not exist: run Migrate (worker migrate), which makes it, or mend its path", lease.ErrNotReady
	}
	return fmt.Sprintf("it cannot be written: the process needs to write the file, those beside it with -wal and -shm, and the directory %q", dir), lease.ErrSetup
}

func versionProblem(least, level int) string {
	switch newest := len(steps); {
	case level == 0:
		return "it has no lease tables: run Migrate (worker migrate)"
	case level < newest:
		return fmt.Sprintf("its tables are of version %d, and this program needs %d: run Migrate (worker migrate)", level, newest)
	default:
		return fmt.Sprintf("its tables are of version %d, for programs that know version %d, and this one knows versions up to %d: update the program",
			level, least, newest)
	}
}
