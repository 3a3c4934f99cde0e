package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/examining"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

// From these sizes on files are worth a word.
const (
	muchLog  = 256 << 20
	manyRuns = 5_000_000
	freeDisk = 1 << 30
	fullDisk = 1 << 20 // below this, writes fail
)

// Examine implements [store.Examiner].
func (s *Store) Examine(ctx context.Context, ttl time.Duration) []store.Finding {
	return examining.Run(ctx, ttl, failedFinding,
		examining.Step{Check: "file", Look: s.examineFile}, examining.Step{Check: "commits", Look: s.examineCommits},
		examining.Step{Check: "growth", Look: s.examineGrowth}, examining.Step{Check: "disk", Look: s.examineDisk})
}

// failedFinding is what an error says. Those that say that the database is unfit name the
// cure in their last part, before what the operating system says of the file.
func failedFinding(err error, _ bool) (f store.Finding, over bool) {
	text := err.Error()
	if system := new(fs.PathError); errors.As(err, &system) {
		text = strings.TrimSuffix(text, ": "+system.Error())
	}
	return examining.Refused(err, text, "sqlitestore: ", "check database: "), false
}

func (s *Store) examineFile(ctx context.Context, _ time.Duration) (store.Finding, error) {
	if err := s.Check(ctx); err != nil {
		return store.Finding{}, err
	}
	f := store.Finding{Text: s.path + ", tables complete, write-ahead log"}
	if info, err := os.Stat(s.path); err == nil && info.Mode().Perm()&0o022 != 0 {
		f.Grade, f.Text, f.Cure = store.Warning, s.path+" can be written by other users", "chmod 600 "+s.path
	}
	return f, nil
}

func (s *Store) examineCommits(ctx context.Context, ttl time.Duration) (store.Finding, error) {
	took, err := sqlledger.MeasureCommits(ctx, database{s}, &s.tables.ReplicaQueries)
	if err != nil {
		return store.Finding{}, err
	}
	return took.Finding(ttl, "commits", "look at the disk, and for a program that keeps the file's write lock"), nil
}

func (s *Store) examineGrowth(ctx context.Context, _ time.Duration) (store.Finding, error) {
	var runs int
	err := s.do(ctx, "count runs", func(ctx context.Context, c *sql.Conn, _ opened) error {
		return c.QueryRowContext(ctx, "SELECT count(*) FROM cronlease_run").Scan(&runs)
	})
	if err != nil {
		return store.Finding{}, err
	}
	return judgeGrowth(runs, fileSize(s.path), fileSize(s.path+"-wal")), nil
}

func judgeGrowth(runs int, size, log int64) store.Finding {
	f := store.Finding{Text: fmt.Sprintf("%d runs, %d KiB, log %d KiB", runs, size>>10, log>>10)}
	switch {
	case log > muchLog:
		f.Grade, f.Cure = store.Warning, "end the program that has read the file for so long without a pause"
		f.Text = fmt.Sprintf("the write-ahead log has %d MiB: a reader keeps it from being emptied", log>>20)
	case runs > manyRuns:
		f.Grade, f.Cure = store.Warning, "keep less history (history.keep, history.for)"
		f.Text = fmt.Sprintf("there are %d runs", runs)
	}
	return f
}

func (s *Store) examineDisk(context.Context, time.Duration) (store.Finding, error) {
	free, err := freeSpace(s.path)
	if err != nil {
		return store.Finding{}, err
	}
	return judgeDisk(free), nil
}

func judgeDisk(free int64) store.Finding {
	f := store.Finding{Text: fmt.Sprintf("%d MiB are free", free>>20)}
	if free < freeDisk {
		f.Grade, f.Cure = store.Warning, "make room: no lease can be renewed on a full disk"
		if free < fullDisk {
			f.Grade = store.Problem
		}
	}
	return f
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // there is none
	}
	return info.Size()
}
