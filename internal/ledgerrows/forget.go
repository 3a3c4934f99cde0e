package ledgerrows

import "time"

// PruneGone calls prune, which deletes runs of a job that is to be forgotten, until it finds
// none, while the job is gone since that instant: a leader may declare it again in between.
// What is left is for the statement that forgets the job, which looks by itself whether it
// is gone.
func PruneGone(gone time.Time, since func() (time.Time, error), prune func() (int, error)) error {
	for {
		at, err := since()
		if err != nil || gone.IsZero() || !at.Equal(gone) {
			return err
		}
		if n, err := prune(); err != nil || n == 0 {
			return err
		}
	}
}
