package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cronlease/cronlease/lease"
)

// Check implements [store.Checker]. It changes nothing, and refuses a file that
// is missing, cannot be written, is on a network file system, has tables of
// another version, or no write-ahead log. Each of these errors matches
// [lease.ErrSetup] and says what to do; tables that are missing or old match
// [lease.ErrNotReady] too.
func (s *Store) Check(ctx context.Context) error {
	return s.do(ctx, "check database", func(ctx context.Context, c *sql.Conn, _ opened) error {
		if name, remote := networkFS(s.path); remote {
			return fmt.Errorf("%w: it is on a network file system (%s), where locks fail: put it on a local disk", lease.ErrSetup, name)
		}
		least, level, err := s.versions(ctx, s.own)
		switch {
		case err != nil:
			return err
		case least > len(steps):
			return fmt.Errorf("%w: %s", lease.ErrSetup, versionProblem(least, level))
		case level < len(steps):
			return fmt.Errorf("%w: %s", lease.ErrNotReady, versionProblem(least, level))
		}
		gaps, err := readGaps(ctx, c)
		if err != nil {
			return err
		}
		if len(gaps) > 0 {
			return fmt.Errorf("%w: %s: run Migrate (worker migrate), which makes what is missing or says why not", lease.ErrNotReady, joinGaps(gaps))
		}
		var mode string
		if err := c.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
			return err
		}
		if mode != "wal" {
			return fmt.Errorf("%w: its journal mode is %s: run PRAGMA journal_mode = WAL", lease.ErrSetup, mode)
		}
		// Gets the lock for writing, and writes nothing.
		_, err = exec(ctx, c, s.sql.release, "", "", 0)
		return err
	})
}
