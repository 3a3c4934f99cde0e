//go:build darwin || freebsd || linux

package ownstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/ledger"
)

// fileOf is the file of a group's ledger. Not every file system tells Billing from billing, or has names of 128 bytes.
func fileOf(group string) string { return fmt.Sprintf("ledger-%x", sha256.Sum256([]byte(group))) }

// rows are those of the ledgers in a folder.
type rows struct{ *Store }

// Do implements [ledger.Rows]. Acquire writes the fence under the same lock, so it comes before or after.
func (s rows) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	return s.locked(ctx, need.Doing, func(now time.Time, server string) error {
		all, content := leases{}, ledger.NewContent()
		if err := cmp.Or(s.read(leasesFile, &all), s.read(fileOf(group), content)); err != nil {
			return err
		}
		tx := content.Page(need, now, server)
		tx.Fence = all[group].Fence
		f(tx)
		content.Take(tx)
		return s.write(fileOf(group), content)
	})
}

// view shows a ledger: see [ledger.Viewer].
func (s *Store) view(ctx context.Context, group, doing string, _ []jobs.Key, f func(*ledger.View) error) (answer error) {
	err := s.locked(ctx, doing, func(now time.Time, server string) error {
		content := ledger.NewContent()
		if err := s.read(fileOf(group), content); err != nil {
			return err
		}
		answer = f(&ledger.View{Content: content, Now: now, Server: server})
		return nil
	})
	return cmp.Or(err, answer)
}
