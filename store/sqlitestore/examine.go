package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/commits"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

// examineLimit is what one thing of an examination may take.
const examineLimit = 15 * time.Second

// From these sizes on files are worth a word.
const (
	muchLog  = 256 << 20
	manyRuns = 5_000_000
	freeDisk = 1 << 30
	fullDisk = 1 << 20 // below this, writes fail
)

// Examine implements [store.Examiner].
func (s *Store) Examine(ctx context.Context, ttl time.Duration) []store.Finding {
	ttl = cmp.Or(ttl, 15*time.Second)
	var found []store.Finding
	for _, step := range []struct {
		check string
		look  func(context.Context, time.Duration) (store.Finding, error)
	}{{"file", s.examineFile}, {"commits", s.examineCommits}, {"growth", s.examineGrowth}, {"disk", s.examineDisk}} {
		limited, cancel := context.WithTimeout(ctx, examineLimit)
		f, err := step.look(limited, ttl)
		cancel()
		switch {
		case err != nil && len(found) > 0 && found[0].Grade == store.Problem:
			f = store.Finding{Grade: store.Unknown, Text: "not looked at: see file"} // which has said why
		case err != nil:
			f = failedFinding(err)
		}
		f.Check, f.Text = step.check, strings.Join(strings.Fields(f.Text), " ")
		found = append(found, f)
	}
	return found
}

// failedFinding is what an error says. Those that say that the database is unfit name the
// cure in their last part, before what the operating system says of the file.
func failedFinding(err error) store.Finding {
	f := store.Finding{Grade: store.Unknown, Text: "could not be looked at: " + err.Error()}
	if !errors.Is(err, lease.ErrSetup) {
		return f
	}
	f.Grade, f.Text = store.Problem, err.Error()
	for _, prefix := range []string{"sqlitestore: ", "check database: ", lease.ErrNotReady.Error() + ": ", lease.ErrSetup.Error() + ": "} {
		f.Text = strings.TrimPrefix(f.Text, prefix)
	}
	if system := new(fs.PathError); errors.As(err, &system) {
		f.Text = strings.TrimSuffix(f.Text, ": "+system.Error())
	}
	if i := strings.LastIndex(f.Text, ": "); i >= 0 {
		f.Text, f.Cure = f.Text[:i], f.Text[i+2:]
	}
	return f
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

// examineCommits measures how long a commit takes, with a row of a group that cannot be.
func (s *Store) examineCommits(ctx context.Context, ttl time.Duration) (store.Finding, error) {
	const group, owner = "", "worker doctor"
	run := func(statement string, args ...any) error {
		_, err := database{s}.Exec(ctx, "measure commits", sqlledger.Statement{Text: statement, Args: append([]any{group, owner}, args...)})
		return err
	}
	if err := run(s.tables.Enlist, 0, 1, 0, "", []byte{}); err != nil {
		return store.Finding{}, err
	}
	took, err := commits.Measure(func() error { return run(s.tables.Refresh) })
	if err != nil {
		return store.Finding{}, err
	}
	if err := run(s.tables.Strike, 0); err != nil {
		return store.Finding{}, err
	}
	return judgeCommits(took, ttl), nil
}

// judgeCommits compares them with what a heartbeat may take.
func judgeCommits(took commits.Times, ttl time.Duration) store.Finding {
	f := store.Finding{Text: fmt.Sprintf("median %v, slowest %v", took.Median.Round(10*time.Microsecond), took.Slowest.Round(10*time.Microsecond))}
	grade, heartbeat := took.Grade(ttl)
	if f.Grade = grade; grade != store.Good {
		f.Text = fmt.Sprintf("commits are slow beside what a heartbeat may take (%v): %s", heartbeat, f.Text)
		f.Cure = "look at the disk, and for a program that keeps the file's write lock; or give leases a longer TTL"
	}
	return f
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
