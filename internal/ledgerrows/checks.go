package ledgerrows

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// CheckKey reports a key that the tables of a ledger would not keep as it is. The
// error names the package.
func CheckKey(pkg string, k jobs.Key) error {
	if err := store.CheckName("job", k.Job); err != nil {
		return err
	}
	if !time.UnixMicro(k.Tick.UnixMicro()).Equal(k.Tick) {
		return fmt.Errorf("%s: job %q: tick %v: must be of whole microseconds", pkg, k.Job, k.Tick)
	}
	return nil
}

// CanBe reports whether a ledger may have a run of that key.
func CanBe(k jobs.Key) bool { return CheckKey("", k) == nil && k.Trigger <= math.MaxInt64 }

// CheckClaim reports a claim that no ledger takes.
func CheckClaim(pkg string, c store.Claim) error {
	switch {
	case c.State != jobs.Running && c.State != jobs.Waiting && c.State != jobs.Skipped:
		return fmt.Errorf("%s: claim of job %q: state %v: must be running, waiting or skipped", pkg, c.Job, c.State)
	case c.Missed < 0:
		return fmt.Errorf("%s: claim of job %q: missed %d: must not be negative", pkg, c.Job, c.Missed)
	case len(c.For.Owner) > store.MaxName:
		return fmt.Errorf("%s: claim of job %q: for an owner of %d bytes: at most %d", pkg, c.Job, len(c.For.Owner), store.MaxName)
	}
	if err := checkFollowers(pkg+": claim", c.Key, c.Then); err != nil {
		return err
	}
	return CheckKey(pkg, c.Key)
}

// checkFollowers reports what no ledger inserts with a run.
func checkFollowers(what string, of jobs.Key, then []store.Follower) error {
	for _, f := range then {
		of := fmt.Sprintf("%s of job %q: its follower of job %q", what, of.Job, f.Job)
		if f.Trigger == 0 {
			return fmt.Errorf("%s: must have a trigger", of)
		}
		if f.Args != nil {
			if err := jobs.CheckArgs(f.Args); err != nil {
				return fmt.Errorf("%s: %w", of, err)
			}
		}
		if err := CheckKey(of, f.Key); err != nil {
			return err
		}
	}
	return nil
}

// Extends reports whether a claim may take over an earlier row.
func Extends(c store.Claim) bool {
	return c.State == jobs.Skipped && c.Trigger == 0 && !c.Extends.IsZero() && !c.After.After(c.Extends) && len(c.Then) == 0
}

// CheckMove reports a move that no ledger takes.
func CheckMove(pkg string, m store.Move) error {
	switch {
	case m.From != jobs.Running && m.From != jobs.Waiting:
		return fmt.Errorf("%s: move of job %q: from state %v: must be running or waiting", pkg, m.Job, m.From)
	case m.To < jobs.Running || m.To > jobs.Interrupted:
		return fmt.Errorf("%s: move of job %q: to state %v: there is none", pkg, m.Job, m.To)
	case m.Verdict > store.JobFails:
		return fmt.Errorf("%s: move of job %q: verdict %d: there is none", pkg, m.Job, m.Verdict)
	case m.Attempt < 0:
		return fmt.Errorf("%s: move of job %q: attempt %d: must not be negative", pkg, m.Job, m.Attempt)
	}
	if err := checkFollowers(pkg+": move", m.Key, m.Then); err != nil {
		return err
	}
	return CheckKey(pkg, m.Key)
}

// CheckRequest reports a request that no ledger takes.
func CheckRequest(pkg, job string, r jobs.Request) error {
	if r.Args != nil {
		if err := jobs.CheckArgs(r.Args); err != nil {
			return err
		}
	}
	if len(r.Backfill) > MaxBackfill {
		return fmt.Errorf("%s: backfill of job %q: its text has %d bytes: at most %d", pkg, job, len(r.Backfill), MaxBackfill)
	}
	if !r.Tick.IsZero() && !time.UnixMicro(r.Tick.UnixMicro()).Equal(r.Tick) {
		return fmt.Errorf("%s: job %q: tick %v: must be of whole microseconds", pkg, job, r.Tick)
	}
	return nil
}

// Refuses reports whether an error is the answer that what was asked for is refused.
func Refuses(err error) bool {
	return errors.Is(err, jobs.ErrNoJob) || errors.Is(err, jobs.ErrNoRun) || errors.Is(err, jobs.ErrManyOpen)
}

// MaxBackfill bounds what a run keeps of its backfill, in bytes: mostly the text of a
// schedule.
const MaxBackfill = 20_000

// AttemptAfter is the attempt of a run after a move of that holder.
func AttemptAfter(h store.Holder, m store.Move) int {
	if m.To == jobs.Running || h.Assigns && m.To == m.From && m.Owner != "" {
		return m.Attempt + 1
	}
	return m.Attempt
}

// Plain is the key as it is read back, by which maps find it.
func Plain(k jobs.Key) jobs.Key {
	k.Tick = time.UnixMicro(k.Tick.UnixMicro()).UTC()
	return k
}

// CompareKeys is the order of the rows in a table of runs.
func CompareKeys(a, b jobs.Key) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger))
}
