package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Archive is what a ledger keeps and reads for people alone: no leader needs it. A
// [Control] may implement it; [Group] has its methods. All of them are plain reads, each
// bounded by its filter.
type Archive interface {
	// Audit reads the actions, the newest first: see [Group.Audit].
	Audit(ctx context.Context, group string, filter AuditFilter) ([]AuditEntry, error)
	// Terms reads the terms, the newest first: see [Group.Terms].
	Terms(ctx context.Context, group string, filter TermFilter) ([]Term, error)
	// Attempts reads the attempts at a run: see [Group.Attempts].
	Attempts(ctx context.Context, group string, key Key) ([]Attempt, error)
	// Names reads the names of all jobs: see [Group.Names].
	Names(ctx context.Context, group string) (Names, error)
	// LoadOf reads some jobs, as Load of [Control] does all: see [Group.LoadOf].
	LoadOf(ctx context.Context, group string, names []string) (Snapshot, error)
	// Newest reads the newest runs of some jobs: see [Group.Newest].
	Newest(ctx context.Context, group string, of Newest) (map[string][]Record, error)
	// Counts counts runs: see [Group.Counts].
	Counts(ctx context.Context, group string, filter CountFilter) (Counts, error)
}

var errNoArchive = fmt.Errorf("jobs: the store keeps no archive: %w", errors.ErrUnsupported)

func (g Group) archive() (Archive, error) {
	if g.ledger == nil {
		return nil, errNoLedger
	}
	archive, ok := g.ledger.(Archive)
	if !ok {
		return nil, errNoArchive
	}
	return archive, nil
}

const (
	// MaxOf is for how many jobs [Group.LoadOf], [Group.Newest] and [Group.Counts] read at once.
	MaxOf = 500
	// MaxBuckets is how many buckets one [CountFilter] has at most.
	MaxBuckets = 10_000
	// MaxCounted is how many runs one call of [Group.Counts] counts for sure: if there are
	// more, each job has the same share of it. Where all jobs are counted together, it is
	// that of each state.
	MaxCounted = 20_000
)

// Names are those of the jobs of a group.
type Names struct {
	// All are the names of the jobs that the ledger knows, in order.
	All []string
	// Paused is how many of them are paused, each by itself.
	Paused int
}

// Names reads the names of the jobs that the ledger knows, and no more of them: to find those
// of which [Group.LoadOf] shall read the rest. The error matches [errors.ErrUnsupported] if
// the store cannot.
func (g Group) Names(ctx context.Context) (Names, error) {
	archive, err := g.archive()
	if err != nil {
		return Names{}, err
	}
	return archive.Names(ctx, g.name)
}

// LoadOf is Load of some jobs, at most [MaxOf]: the snapshot knows no others, and has the
// pauses of these and of the group. The runs that are not over are those of all jobs. In a
// group of thousands it takes a fraction of the time. Unknown names are left out. The error
// matches [errors.ErrUnsupported] if the store cannot.
func (g Group) LoadOf(ctx context.Context, names []string) (Snapshot, error) {
	archive, err := g.archive()
	if err != nil {
		return Snapshot{}, err
	}
	return archive.LoadOf(ctx, g.name, names)
}

// CheckNames says what is wrong with the names that LoadOf is called with.
func CheckNames(names []string) error {
	if len(names) > MaxOf {
		return fmt.Errorf("jobs: load %d jobs: at most %d", len(names), MaxOf)
	}
	return nil
}

// Newest selects the newest runs of each of some jobs.
type Newest struct {
	// Jobs are at most [MaxOf].
	Jobs []string
	// Since leaves out earlier ticks, and Until those that are not earlier than it.
	// Zero: no bound.
	Since, Until time.Time
	// Over leaves out runs that are not over.
	Over bool
	// Limit is how many are read of each job. Zero: 1.
	Limit int
}

// Newest reads the newest runs of each of some jobs, newest first: the last outcomes of a
// page of jobs, or what a timeline shows of them. Jobs without such runs are missing from
// the answer. The error matches [errors.ErrUnsupported] if the store cannot.
func (g Group) Newest(ctx context.Context, of Newest) (map[string][]Record, error) {
	archive, err := g.archive()
	if err != nil {
		return nil, err
	}
	return archive.Newest(ctx, g.name, of)
}

// CountFilter selects which runs are counted, and into which buckets.
type CountFilter struct {
	// Jobs are counted each by itself, at most [MaxOf]. Empty: all runs of the group are
	// counted together, under the empty name.
	Jobs []string
	// Since and Until bound the ticks, the second exclusively. Both have to be set.
	Since, Until time.Time
	// Every is the width of a bucket: the first begins at Since. At least a millisecond,
	// and so that there are at most [MaxBuckets].
	Every time.Duration
}

// Count is how many runs there are of a job in a bucket, in a state.
type Count struct {
	// Job is empty where all are counted together.
	Job string
	// From is the beginning of the bucket.
	From  time.Time
	State State
	Runs  int
}

// Counts are the answer of [Group.Counts].
type Counts struct {
	// List has the counts above zero, by job, bucket and state.
	List []Count
	// Cut names the jobs that have more runs than were counted ([MaxCounted]), with the
	// instant from which on the counts are complete: earlier ticks are left out. Where
	// all jobs are counted together, the name is empty.
	Cut map[string]time.Time
}

// Counts counts runs by job, bucket of their ticks and state, for timelines that have
// no room for each run. The error matches [errors.ErrUnsupported] if the store cannot.
func (g Group) Counts(ctx context.Context, filter CountFilter) (Counts, error) {
	archive, err := g.archive()
	if err != nil {
		return Counts{}, err
	}
	return archive.Counts(ctx, g.name, filter)
}

// Check says what is wrong with the filter.
func (f CountFilter) Check() error {
	switch {
	case len(f.Jobs) > MaxOf:
		return fmt.Errorf("jobs: counts of %d jobs: at most %d", len(f.Jobs), MaxOf)
	case f.Every < time.Millisecond || f.Every%time.Microsecond != 0:
		return fmt.Errorf("jobs: counts of every %v: must be at least 1ms, and of whole microseconds", f.Every)
	case !f.Until.After(f.Since):
		return fmt.Errorf("jobs: counts from %v to %v: the end must be later than the beginning", f.Since, f.Until)
	case f.Since.IsZero() || (f.Until.Sub(f.Since)-1)/f.Every >= MaxBuckets:
		return fmt.Errorf("jobs: counts from %v to %v, of every %v: at most %d", f.Since, f.Until, f.Every, MaxBuckets)
	}
	return nil
}

// Check says what is wrong with the selection.
func (n Newest) Check() error {
	if len(n.Jobs) > MaxOf {
		return fmt.Errorf("jobs: the newest runs of %d jobs: at most %d", len(n.Jobs), MaxOf)
	}
	return nil
}
