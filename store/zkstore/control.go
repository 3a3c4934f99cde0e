package zkstore

import (
	"context"
	"encoding/json"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
)

// Pause implements [jobs.Control].
func (s *Store) Pause(ctx context.Context, group, job string) error {
	_, err := on(ctx, s, about("pause", group), doing(func(db *memdb.Store) error { return db.Pause(ctx, group, job) }))
	return err
}

// Resume implements [jobs.Control].
func (s *Store) Resume(ctx context.Context, group, job string) error {
	_, err := on(ctx, s, about("resume", group), doing(func(db *memdb.Store) error { return db.Resume(ctx, group, job) }))
	return err
}

// ResumeSkipping implements [jobs.Control].
func (s *Store) ResumeSkipping(ctx context.Context, group, job string) error {
	_, err := on(ctx, s, about("resume", group), doing(func(db *memdb.Store) error { return db.ResumeSkipping(ctx, group, job) }))
	return err
}

// Trigger implements [jobs.Control].
func (s *Store) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	if err := ledgerrows.CheckRequest("zkstore", job, r); err != nil {
		return jobs.Key{}, err
	}
	return on(ctx, s, about("trigger", group), func(db *memdb.Store) (jobs.Key, error) { return db.Trigger(ctx, group, job, r) })
}

// Cancel implements [jobs.Control].
func (s *Store) Cancel(ctx context.Context, group string, key jobs.Key) error {
	_, err := on(ctx, s, about("cancel", group), doing(func(db *memdb.Store) error { return db.Cancel(ctx, group, key) }))
	return err
}

// Args implements [jobs.Control].
func (s *Store) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	return on(ctx, s, reading("read arguments", group), func(db *memdb.Store) (json.RawMessage, error) { return db.Args(ctx, group, key) })
}

// Runs implements [jobs.Control].
func (s *Store) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	return on(ctx, s, reading("list runs", group), func(db *memdb.Store) ([]jobs.Record, error) { return db.Runs(ctx, group, filter) })
}
