package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/cronlease/cronlease/jobs"
)

// addFailures finds how many runs in a row had failed when a job was paused, of those
// that are: pause_after pauses a job by that count.
func addFailures(ctx context.Context, g jobs.Group, snapshot jobs.Snapshot, list []jobStatus) error {
	for i := range list {
		s := &list[i]
		pauses := snapshot.Pauses[s.Name]
		if !s.Paused || len(pauses) == 0 {
			continue
		}
		// More runs than these do not tell more.
		records, err := g.Runs(ctx, jobs.Filter{Job: s.Name, Limit: 500})
		if err != nil {
			return err
		}
		began := pauses[len(pauses)-1].Began
		records = slices.DeleteFunc(records, func(r jobs.Record) bool { return r.State.Over() && r.Finished.After(began) })
		s.Failures, _ = jobs.FailedInARow(records, pauses)
	}
	return nil
}

// afterFailures is what is said of a paused job whose last runs have failed.
func (s jobStatus) afterFailures() string {
	switch s.Failures {
	case 0:
		return ""
	case 1:
		return ", after a failure"
	default:
		return fmt.Sprintf(", after %d failures", s.Failures)
	}
}
