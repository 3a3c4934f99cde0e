package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Locks of an open file description: the system drops them when the last process
// that has it open ends, however it ends, and nothing else does, such as closing the
// file elsewhere in the process. The numbers are those of fcntl(2).
const (
	getLock = 36
	setLock = 37
)

var _ store.PresenceSignal = (*signal)(nil)

// presence is the term that a signal shows: a lock in the file beside the database,
// on a byte that only this term has.
type presence struct {
	mu   sync.Mutex
	file *os.File // has the lock; nil: none
	at   int64
}

// see finds out which replicas are present, by the locks of their processes.
func (s *Store) see(ctx context.Context, c connection, group string, roster *jobs.Roster) error {
	server, err := s.server(ctx, c)
	if err != nil {
		return err
	}
	for i := range roster.Replicas {
		r := &roster.Replicas[i]
		if r.Owner == roster.Leader {
			continue
		}
		present, err := isShown(s.path, placeOf(server, group, store.ReplicaToken(r.Owner)))
		if err != nil {
			return err
		}
		r.SetPresence(present)
	}
	return nil
}

// Announce implements [store.PresenceSignal].
func (b *signal) Announce(ctx context.Context, token uint64, server string) error {
	return b.store.do(ctx, "announce a term", func(ctx context.Context, c *sql.Conn, of opened) error {
		now, err := b.store.server(ctx, connection{c, of})
		if err != nil {
			return err
		}
		b.shown.mu.Lock()
		defer b.shown.mu.Unlock()
		if now != server && !store.IsReplicaToken(token) || b.closer.Closed() != nil {
			return b.shown.drop()
		}
		return b.shown.take(b.store.path, placeOf(now, b.group, token))
	})
}

// Present implements [store.PresenceSignal].
func (b *signal) Present(ctx context.Context, token uint64) (present bool, server string, err error) {
	err = b.store.do(ctx, "look for the leader's process", func(ctx context.Context, c *sql.Conn, of opened) error {
		if server, err = b.store.server(ctx, connection{c, of}); err != nil {
			return err
		}
		present, err = isShown(b.store.path, placeOf(server, b.group, token))
		return err
	})
	return present, server, err
}

func (s *Store) server(ctx context.Context, c connection) (string, error) {
	var file string
	err := c.QueryRowContext(ctx, s.locking.file).Scan(&file)
	return c.Server(file), err
}

// hide ends what the signal shows.
func (p *presence) hide() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop()
}

func (p *presence) drop() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// take shows the term of a place and no other one. When the file was deleted, it
// does so in the one that others see.
func (p *presence) take(path string, at int64) error {
	if p.file != nil && p.at == at {
		mine, err := p.file.Stat()
		if now, statErr := os.Stat(beside(path)); err == nil && statErr == nil && os.SameFile(mine, now) {
			return nil
		}
	}
	if err := p.drop(); err != nil {
		return err
	}
	file, err := openBeside(path)
	if err != nil {
		return err
	}
	if err := lockOf(file, setLock, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}); err != nil {
		return errors.Join(err, file.Close())
	}
	p.file, p.at = file, at
	return nil
}

// placeOf is where in the file the lock of a term is.
func placeOf(server, group string, token uint64) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", server, group, token))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

// isShown reports whether any process has the lock.
func isShown(path string, at int64) (shown bool, err error) {
	file, err := os.Open(beside(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
	err = lockOf(file, getLock, &l)
	return err == nil && l.Type != syscall.F_UNLCK, err
}

func lockOf(file *os.File, command int, l *syscall.Flock_t) error {
	if err := syscall.FcntlFlock(file.Fd(), command, l); err != nil {
		return fmt.Errorf("lock in %s: %w", file.Name(), err)
	}
	return nil
}

// beside names the file with the locks. It is where SQLite has its own: beside the
// file that a symbolic link leads to.
func beside(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path + "-signal"
}

// openBeside opens the file with the locks. It creates it for those who can use the
// database.
func openBeside(path string) (*os.File, error) {
	name := beside(path)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	database, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(name, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	if of, ok := database.Sys().(*syscall.Stat_t); ok {
		_ = file.Chown(int(of.Uid), int(of.Gid)) // which only root may do
	}
	if err := file.Chmod(database.Mode().Perm()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
