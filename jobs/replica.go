package jobs

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// ReplicaLife is for how long a replica counts that has not told of itself again,
	// as after its crash, where the database does not see that it is gone ([Absent]).
	// Replicas do so three times as often.
	ReplicaLife = 10 * time.Minute

	// FirstList is the least number of a list ([Replica.List]) of a replica that shows itself
	// to the database. Those of releases that do not do so count from 1.
	FirstList uint64 = 1 << 32

	// beginsWithin is how long a replica may take from the first time that it tells of
	// itself until the database sees it.
	beginsWithin = 5 * time.Second

	// LongAbsence is from when on a job that comes back starts from now: see
	// [Known.Gone]. The leaders of a rolling deployment may alternate between
	// programs that have a job and programs that do not, and then nothing of it is to
	// be lost. That is over within an hour.
	LongAbsence = time.Hour
)

// Registry knows the replicas of a group and their jobs. A [Control] may implement
// it; without it nobody knows which jobs replicas have.
type Registry interface {
	// Roster reads the replicas of the group, and who leads it. Of a replica that
	// known has with the same list, the jobs are those of known: they need not be
	// read again.
	Roster(ctx context.Context, group string, known Roster) (Roster, error)
	// GoneSince is [Known.Gone] of a job, and zero for one that the ledger does not know. It is
	// one cheap read.
	GoneSince(ctx context.Context, group, job string) (time.Time, error)
	// Forget deletes a job with its runs and pauses, if it is gone since that
	// instant ([Known.Gone]), and reports whether it was so. It is atomic: a
	// term that declares the job before makes it fail, and to one that does so later
	// the job is new. Old runs may be deleted before that, by several statements.
	Forget(ctx context.Context, group, job string, gone time.Time) (bool, error)
}

// Replica is a replica of a group, as it has told of itself. It is a plain value.
type Replica struct {
	Owner string
	// Version is that of its program; empty: not told.
	Version string
	// Since is when it first told of itself, and Seen when it last did, by the
	// database's clock.
	Since, Seen time.Time
	// Presence is [Present] while the database sees that the replica is there and could
	// lead.
	Presence Presence
	// List is a number that the replica gives to Jobs: another list has another one. It also
	// says whether the replica shows itself ([FirstList]).
	List uint64
	// Jobs are its jobs, by name.
	Jobs map[string]ScheduleHash
	// Labels are what it says of itself (scheduler.WithLabels).
	Labels Labels
	// MaxRuns is how many runs it has at a time (scheduler.WithMaxRuns). Zero: any number.
	MaxRuns int
	// FollowerOnly: it never leads (scheduler.WithFollowerOnly).
	FollowerOnly bool
	// Lent holds its declarations of jobs that the leader lacks, by name, in a group whose runs are spread. The
	// leader plans these jobs, too. Package scheduler writes and reads the texts.
	Lent map[string]string
}

// Presence says whether the database sees a replica, by its connection, session or
// process.
type Presence uint8

const (
	// PresenceUnknown: the database cannot tell, the replica is of a release that does not
	// show itself, or it is the leader, of which the lease tells.
	PresenceUnknown Presence = iota
	// Present: it is there, and could lead, unless it is FollowerOnly.
	Present
	// Absent: it is not there, or cannot lead: it has just begun or lost its connection,
	// the database does not take its writes, or its clock is wrong.
	Absent
)

// SetPresence notes whether the database sees the replica, which does not lead.
func (r *Replica) SetPresence(there bool) {
	switch {
	case there:
		r.Presence = Present
	case r.List < FirstList:
		r.Presence = PresenceUnknown
	default:
		r.Presence = Absent
	}
}

// ScheduleHash stands for the text of a schedule.
type ScheduleHash uint64

// HashSchedule returns the hash of a schedule's text.
func HashSchedule(text string) ScheduleHash {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return ScheduleHash(h.Sum64())
}

// Roster is the replicas of a group at one instant.
type Roster struct {
	// Now is the database's clock.
	Now time.Time
	// Leader is the owner of the lease; empty when there is none, or when it is released.
	Leader string
	// Replicas are in the order of their owners, also those that do not count any
	// more. Replicas of releases that do not tell of themselves are missing.
	Replicas []Replica
}

// Live are the replicas that count: those that have told of themselves lately
// ([ReplicaLife]) and are not [Roster.Gone].
func (r Roster) Live() []Replica { return slices.DeleteFunc(r.told(), r.isGone) }

// Gone are the replicas that have told of themselves lately and are [Absent], but for
// those that began less than 5 s ago: the database may see them in a moment. Nor are those
// among them whose process was started again: a live replica of the same label and host
// that began later stands for one of them.
func (r Roster) Gone() []Replica {
	gone := slices.DeleteFunc(r.told(), func(x Replica) bool { return !r.isGone(x) })
	for _, live := range r.Live() {
		place := placeOf(live.Owner)
		i := slices.IndexFunc(gone, func(x Replica) bool { return placeOf(x.Owner) == place && live.Since.After(x.Seen) })
		if i >= 0 {
			gone = slices.Delete(gone, i, i+1)
		}
	}
	return gone
}

// placeOf is the label and the host of an owner, label/host/pid/random.
func placeOf(owner string) string { return path.Dir(path.Dir(owner)) }

func (r Roster) isGone(x Replica) bool {
	return x.Presence == Absent && r.Now.Sub(x.Since) > beginsWithin
}

// told are the replicas that have told of themselves lately.
func (r Roster) told() []Replica {
	return slices.DeleteFunc(slices.Clone(r.Replicas), func(x Replica) bool { return r.Now.Sub(x.Seen) > ReplicaLife })
}

// Standby are the live replicas that do not lead, and may: one of them takes over when the leader
// fails.
func (r Roster) Standby() []Replica {
	return slices.DeleteFunc(r.Live(), func(x Replica) bool { return x.Owner == r.Leader || x.FollowerOnly })
}

// Expired is the roster of a group whose lease has expired, or is free: the replica that
// held it does not count either.
func (r Roster) Expired() Roster {
	r.Replicas = slices.Clone(r.Replicas)
	for i := range r.Replicas {
		if r.Replicas[i].Owner == r.Leader {
			r.Replicas[i].Presence = Absent
		}
	}
	return r
}

// Find returns the replica of the owner, dead or alive.
func (r Roster) Find(owner string) (Replica, bool) {
	i := slices.IndexFunc(r.Replicas, func(x Replica) bool { return x.Owner == owner })
	if i < 0 {
		return Replica{}, false
	}
	return r.Replicas[i], true
}

// LeaderTold reports whether it is known which jobs the leader has, or that there is no
// leader. It is not known of one whose release does not tell.
func (r Roster) LeaderTold() bool {
	_, ok := r.Find(r.Leader)
	return ok || r.Leader == ""
}

// With are the owners of the replicas that have the job, also of those that are
// [Absent] for a moment.
func (r Roster) With(job string) []string {
	var owners []string
	for _, x := range r.told() {
		if _, ok := x.Jobs[job]; ok {
			owners = append(owners, x.Owner)
		}
	}
	return owners
}

// Differences are the jobs in which live replicas differ from the leader.
type Differences struct {
	// NotLed are the jobs that the leader does not have: they do not run while it leads.
	NotLed []string
	// Rescheduled are those that the leader has with another schedule, which counts.
	Rescheduled []string
}

// Any reports whether there are any.
func (d Differences) Any() bool { return len(d.NotLed)+len(d.Rescheduled) > 0 }

// Differences compares the live replicas with the leader. There are none while it is
// not known which jobs the leader has.
func (r Roster) Differences() Differences { return r.differences(r.Live()) }

// DifferencesOf compares one replica with the leader.
func (r Roster) DifferencesOf(owner string) Differences {
	x, _ := r.Find(owner)
	return r.differences([]Replica{x})
}

func (r Roster) differences(replicas []Replica) Differences {
	leader, ok := r.Find(r.Leader)
	if !ok {
		return Differences{}
	}
	notLed, rescheduled := map[string]bool{}, map[string]bool{}
	for _, x := range replicas {
		for name, hash := range x.Jobs {
			switch led, ok := leader.Jobs[name]; {
			case !ok && !x.Lends(name):
				notLed[name] = true
			case ok && led != hash:
				rescheduled[name] = true
			}
		}
	}
	return Differences{slices.Sorted(maps.Keys(notLed)), slices.Sorted(maps.Keys(rescheduled))}
}

// Lends reports whether the replica lends a job, or that whose shards the job has.
func (r Replica) Lends(job string) bool { return r.Lent[strings.TrimSuffix(job, ShardsOf(""))] != "" }

// SortReplicas puts replicas into the order of a [Roster].
func SortReplicas(replicas []Replica) {
	slices.SortFunc(replicas, func(a, b Replica) int { return cmp.Compare(a.Owner, b.Owner) })
}
