package mysqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// Pause implements [jobs.Control]. A group may be paused before its first job
// is known.
func (s *Store) Pause(ctx context.Context, group, job string) error {
	if job == "" {
		return s.setPaused(ctx, "pause", group, job, s.runs.pauseGroup.Render(group))
	}
	return s.setPaused(ctx, "pause", group, job, s.runs.pauseJob.Render(group, job))
}

// Resume implements [jobs.Control].
func (s *Store) Resume(ctx context.Context, group, job string) error {
	if job == "" {
		return s.setPaused(ctx, "resume", group, job, s.runs.resumeGroup.Render(group))
	}
	return s.setPaused(ctx, "resume", group, job, s.runs.resumeJob.Render(group, job))
}

// ResumeSkipping implements [jobs.Control].
func (s *Store) ResumeSkipping(ctx context.Context, group, job string) error {
	if job == "" {
		return s.setPaused(ctx, "resume", group, job, s.runs.resumeGroupSkipping.Render(group))
	}
	return s.setPaused(ctx, "resume", group, job, s.runs.resumeJobSkipping.Render(group, job))
}

// setPaused runs a statement that changes nothing when it is so already.
func (s *Store) setPaused(ctx context.Context, op, group, job, statement string) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	return s.onLedger(ctx, mysqlconn.Write, op, func(ctx context.Context, c *conn) error {
		n, err := c.Changed(ctx, statement)
		if err != nil || n > 0 || job == "" {
			return err
		}
		n, err = c.Count(ctx, s.runs.isJob.Render(group, job))
		if err == nil && n == 0 {
			return noJob(group, job)
		}
		return err
	})
}

// Trigger implements [jobs.Control]. After an error it may have asked for a run
// or not; [Store.Runs] tells.
func (s *Store) Trigger(ctx context.Context, group, job string) (jobs.Key, error) {
	key := jobs.Key{Job: job, Trigger: 1 + uint64(rand.Uint32N(1<<32-1))}
	err := s.onLedger(ctx, mysqlconn.Write, "trigger", func(ctx context.Context, c *conn) error {
		done, err := c.Change(ctx, s.runs.trigger.Render(key.Trigger, group, job))
		if err != nil {
			return err
		}
		if done.Rows == 0 {
			return noJob(group, job)
		}
		key.Tick = time.UnixMicro(done.LastID).UTC()
		return nil
	})
	if err != nil {
		return jobs.Key{}, err
	}
	return key, nil
}

// Cancel implements [jobs.Control].
func (s *Store) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if checkKey(key) != nil {
		return noRun(group, key) // the table cannot have it
	}
	tick := key.Tick.UnixMicro()
	return s.onLedger(ctx, mysqlconn.Write, "cancel", func(ctx context.Context, c *conn) error {
		n, err := c.Changed(ctx, s.runs.cancel.Render(group, key.Job, tick, key.Trigger))
		if err != nil || n > 0 {
			return err
		}
		// There is none, or its end was asked for before, which is no change.
		n, err = c.Count(ctx, s.runs.isOpen.Render(group, key.Job, tick, key.Trigger))
		if err == nil && n == 0 {
			return noRun(group, key)
		}
		return err
	})
}

func noJob(group, job string) error {
	return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
}

func noRun(group string, key jobs.Key) error {
	return fmt.Errorf("%w: tick %s of job %q in group %q", jobs.ErrNoRun, key.Tick.UTC().Format(time.RFC3339Nano), key.Job, group)
}
