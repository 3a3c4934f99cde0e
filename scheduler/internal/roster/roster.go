// Package roster tells the replicas of a group of one another.
package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

const (
	// tellEvery is how often a replica tells that it is still there, and looks at the
	// others. It takes two statements, which is less than one in 100 s, and a replica
	// counts for three times as long. The leader asks as often whether the database is still fit.
	tellEvery = 210 * time.Second
	// tellFirst is after what time it does so again at first; the times then double. One that was started
	// after it was seen last may be taken for it, started again: see [jobs.Roster.Gone].
	tellFirst = 10 * time.Second
	// struckAfter is how long a replica that does not tell any more is kept.
	struckAfter = 3 * jobs.ReplicaLife
	// troubleAfter is how long that may fail before the log says so: when the database is
	// away, the election says so at once.
	troubleAfter = 2 * time.Minute
	// deniedEvery is how often a replica tries that may not tell.
	deniedEvery = 10 * time.Second
)

// Config is what a roster tells, and where.
type Config struct {
	DB      store.Replicas              // nil where the store has none
	Check   func(context.Context) error // of the database; nil: the store has none
	Group   string
	Owner   string
	Version string
	Labels  jobs.Labels
	MaxRuns int
	// FollowerOnly: it never leads.
	FollowerOnly bool
	Jobs         func() map[string]jobs.ScheduleHash
	// Lends is what this replica tells of jobs that are not among those of the leader ([jobs.Replica].Lent). Nil: nothing.
	Lends   func(leader map[string]jobs.ScheduleHash) map[string]string
	Log     *zap.Logger
	Timeout time.Duration // of a statement
	// Told is called after this replica has told of new jobs, or for the first time, and Seen after each look.
	Told, Seen func()
}

// Roster tells the others which jobs this replica has, and compares with theirs. It
// decides nothing: without it, this replica leads and fires as with it. The methods but Run are
// safe for concurrent use.
type Roster struct {
	Config
	poke chan struct{} // of capacity 1: to tell and look soon

	list  uint64 // that was told last
	told  map[string]jobs.ScheduleHash
	lent  map[string]string
	said  string // the differences that the log has
	unfit string // what the log has of the database
	fails struct {
		since time.Time // zero: the last attempt worked
		said  bool
	}

	mu     sync.Mutex
	last   jobs.Roster
	denied error // the database does not let this replica tell, now
}

// New returns a roster that has told nothing yet.
func New(c Config) *Roster { return &Roster{Config: c, poke: make(chan struct{}, 1)} }

// Poke has the roster told and read soon: the jobs have changed, or the leader has.
func (r *Roster) Poke() {
	select {
	case r.poke <- struct{}{}:
	default: // it is to be soon already
	}
}

// Read is what was read last.
func (r *Roster) Read() jobs.Roster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Run tells until ctx ends, and then takes this replica off the list.
func (r *Roster) Run(ctx context.Context) {
	if r.DB == nil {
		return
	}
	defer r.leave(context.WithoutCancel(ctx))
	wait := retry.Forever(time.Second, tellEvery)
	for began := time.Now(); ; {
		next := min(max(tellFirst, time.Since(began)), tellEvery)
		if err := r.tell(ctx); err == nil {
			r.worked()
			wait.Reset()
		} else if ctx.Err() == nil {
			r.failed(err)
			if next = wait.NextBackOff(); errors.Is(err, lease.ErrSetup) {
				next = min(next, deniedEvery) // it is ready again soon after
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-r.poke:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell tells of this replica, and reads what the others have told.
func (r *Roster) tell(ctx context.Context) error {
	now := r.Jobs()
	if r.list == 0 || !sameJobs(now, r.told) {
		r.list, r.told = max(r.list+1, jobs.FirstList), now
		if err := r.enlist(ctx); err != nil {
			r.told = nil // another try has another number
			return err
		}
	} else if err := r.bounded(ctx, func(ctx context.Context) error { return r.DB.Refresh(ctx, r.Group, r.Owner) }); err != nil {
		return err
	}
	roster, err := r.look(ctx)
	if err != nil {
		return err
	}
	if own, ok := roster.Find(r.Owner); !ok || own.List != r.list {
		// The row was deleted, as after a restore.
		if err := r.enlist(ctx); err != nil {
			return err
		}
		if roster, err = r.look(ctx); err != nil {
			return err
		}
	}
	if lent := r.lends(roster); !maps.Equal(lent, r.lent) {
		r.list, r.lent = r.list+1, lent
		if err := r.enlist(ctx); err != nil {
			r.told = nil
			return err
		}
		if roster, err = r.look(ctx); err != nil {
			return err
		}
	}
	r.compare(roster)
	if roster.Leader == r.Owner {
		r.recheck(ctx)
	}
	for _, x := range roster.Replicas {
		if idle := roster.Now.Sub(x.Seen); idle > struckAfter {
			if err := r.bounded(ctx, func(ctx context.Context) error { return r.DB.Strike(ctx, r.Group, x.Owner, struckAfter) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// lends is what this replica has to tell of the jobs that the leader lacks, or had told before, while there is none.
func (r *Roster) lends(roster jobs.Roster) map[string]string {
	leader, ok := roster.Find(roster.Leader)
	if r.Lends == nil || !ok {
		return r.lent
	}
	return r.Lends(leader.Jobs)
}

func sameJobs(a, b map[string]jobs.ScheduleHash) bool {
	if len(a) != len(b) {
		return false
	}
	for name, hash := range a {
		if other, ok := b[name]; !ok || other != hash {
			return false
		}
	}
	return true
}

func (r *Roster) enlist(ctx context.Context) error {
	err := r.bounded(ctx, func(ctx context.Context) error {
		return r.DB.Enlist(ctx, r.Group, jobs.Replica{
			Owner: r.Owner, Version: r.Version, List: r.list, Jobs: r.told, Labels: r.Labels, MaxRuns: r.MaxRuns,
			FollowerOnly: r.FollowerOnly, Lent: r.lent,
		})
	})
	if err == nil && r.Told != nil {
		r.Told()
	}
	return err
}

func (r *Roster) look(ctx context.Context) (roster jobs.Roster, err error) {
	err = r.bounded(ctx, func(ctx context.Context) error {
		roster, err = r.DB.Roster(ctx, r.Group, r.Read())
		return err
	})
	if err == nil {
		r.mu.Lock()
		r.last = roster
		r.mu.Unlock()
		if r.Seen != nil {
			r.Seen()
		}
	}
	return roster, err
}

func (r *Roster) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return do(ctx)
}

// leave takes this replica off the list, if it ever was on it. Otherwise it only stops
// to count after a while.
func (r *Roster) leave(ctx context.Context) {
	if r.Read().Now.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(r.Timeout, 2*time.Second))
	defer cancel()
	_ = r.DB.Strike(ctx, r.Group, r.Owner, 0)
}

// compare says in what this replica and the leader differ, once for each difference.
func (r *Roster) compare(roster jobs.Roster) {
	if roster.Leader == "" || !roster.LeaderTold() {
		return // what the log has stands until a leader is known
	}
	leads := roster.Leader == r.Owner
	var d jobs.Differences
	if leads {
		d = roster.Differences()
	} else {
		d = roster.DifferencesOf(r.Owner)
	}
	text := strings.Join(d.NotLed, ",") + "/" + strings.Join(d.Rescheduled, ",")
	if !d.Any() {
		text = ""
	}
	if leads && text != "" {
		text = "leading:" + text
	}
	if text == r.said {
		return
	}
	r.said = text
	if text == "" {
		r.Log.Info("the leader has the jobs of this replica, and under the same schedules")
		return
	}
	fields := []zap.Field{zap.String("leader", roster.Leader), zap.Int("not_led", len(d.NotLed)), zap.Strings("jobs", names.First(d.NotLed, names.Most)),
		zap.Int("other_schedules", len(d.Rescheduled)), zap.Strings("rescheduled", names.First(d.Rescheduled, names.Most)), zap.Strings("versions", versions(roster))}
	if leads {
		r.Log.Warn("replicas have jobs that this leader does not have, or under other schedules: what the leader has counts, "+
			"and the rest does not run while it leads. During a deployment that passes; otherwise, do two services share the group?", fields...)
		return
	}
	r.Log.Warn("the leader does not have some of this replica's jobs, or has them under other schedules: what the leader has counts, "+
		"and the rest does not run while it leads. During a deployment that passes; otherwise, do two services share the group?", fields...)
}

// recheck asks again what each replica asks when it starts: settings of the database may change while the group is at
// work, and nothing else may fail by that. What passes by itself, and what cannot be found out, is not said: whatever
// is done with the database says so.
func (r *Roster) recheck(ctx context.Context) {
	if r.Check == nil {
		return
	}
	err := r.bounded(ctx, r.Check)
	if err != nil && !keeper.Ends(err) {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == r.unfit {
		return
	}
	if r.unfit = text; err == nil {
		r.Log.Info("the database is fit again")
		return
	}
	r.Log.Warn("the database has become unfit: it may lose leases and claims, and no worker would start on it", zap.Error(err))
}

// versions are those of the live replicas.
func versions(roster jobs.Roster) []string {
	var all []string
	for _, x := range roster.Live() {
		if x.Version != "" {
			all = append(all, x.Version)
		}
	}
	slices.Sort(all)
	return names.First(slices.Compact(all), names.Most)
}

// Refusal says that this replica may not write, although the database answers: it could not lead.
func (r *Roster) Refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.denied
}

// refused notes why the database does not let this replica tell, from the second time on.
func (r *Roster) refused(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denied = err
}

func (r *Roster) worked() {
	r.refused(nil)
	if r.fails.said {
		r.Log.Info("this replica tells the others again which jobs it has")
	}
	r.fails.since, r.fails.said = time.Time{}, false
}

func (r *Roster) failed(err error) {
	now := time.Now()
	if r.fails.since.IsZero() {
		r.fails.since = now
	} else if errors.Is(err, lease.ErrSetup) {
		r.refused(fmt.Errorf("scheduler: this replica could not lead: it may not tell of itself: %w", err))
	}
	if !r.fails.said && now.Sub(r.fails.since) >= troubleAfter && !errors.Is(err, context.Canceled) {
		r.fails.said = true
		r.Log.Warn("this replica cannot tell the others which jobs it has: it tries again, and goes on without", zap.Error(err))
	}
}
