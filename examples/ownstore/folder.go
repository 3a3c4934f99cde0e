//go:build darwin || freebsd || linux

package ownstore

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// locked calls f with the clock and what names the folder, while no other call has it, of this process or another one. The
// lock is the system's: it ends with the process.
func (s *Store) locked(ctx context.Context, doing string, f func(now time.Time, server string) error) error {
	if err := s.alone(ctx, f); err != nil {
		return fmt.Errorf("ownstore: %s: %w", doing, err)
	}
	return nil
}

func (s *Store) alone(ctx context.Context, f func(now time.Time, server string) error) error {
	folder, err := lock(ctx, s.folder)
	if err != nil {
		return err
	}
	defer folder.Close() // and unlock it
	is, err := folder.Stat()
	if err != nil {
		return err
	}
	// A copy of the folder counts as another server: it may lack what replicas have seen.
	server := fmt.Sprint("folder ", is.Sys().(*syscall.Stat_t).Ino)
	return f(time.Now().UTC().Truncate(time.Microsecond), server)
}

// lock opens a folder and waits for its lock. The system's wait ends with no context, so a goroutine waits, and gives back
// what comes too late.
func lock(ctx context.Context, path string) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(folder.Fd()), syscall.LOCK_EX) }()
	select {
	case err := <-locked:
		if err == nil {
			return folder, nil
		}
		return nil, errors.Join(err, folder.Close())
	case <-ctx.Done():
		go func() { <-locked; folder.Close() }()
		return nil, ctx.Err()
	}
}

// read reads a file. Where there is none, the value stays as it is.
func (s *Store) read(name string, value any) error {
	data, err := os.ReadFile(filepath.Join(s.folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return gob.NewDecoder(bytes.NewReader(data)).Decode(value)
}

// write replaces a file. After a crash there is either the old one or the new one, and the new one once write has returned.
func (s *Store) write(name string, value any) error {
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(value); err != nil {
		return err
	}
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path+".new", data.Bytes(), 0o600); err != nil {
		return err
	}
	if err := sync(path + ".new"); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return sync(s.folder)
}

// sync waits until what was written to a file or a folder is on the disk.
func sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
