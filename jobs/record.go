package jobs

import (
	"cmp"
	"time"
)

// Record is a run as the ledger has it.
type Record struct {
	Key
	State State
	// Owner and Token name the term that claimed it or moved it last, or the replica's session that it was assigned to; empty
	// and zero for a manual run that no term has taken up yet.
	Owner string
	Token uint64
	// Attempt counts the starts, and those that came to nothing: 0 while there was none. See [Record.Begun].
	Attempt int
	// Claimed, Started (the last attempt) and Finished are by the database's
	// clock; zero where it has not come to that. Where that clock was set back, Started stays that of an earlier attempt. Where consecutive skipped ticks share
	// a row, Claimed is that of the first of them, and Finished of the last.
	Claimed, Started, Finished time.Time
	// Due is when a waiting run may start, by the database's clock. It stays when
	// the run starts and ends, and is zero for a run that never waited.
	Due time.Time
	// Missed counts the ticks right before this one that were not run and have
	// no row of their own; from 10,000 on it means that there were at least so
	// many.
	Missed int
	// Error says why it did not succeed; at most 2000 bytes.
	Error string
	// CancelAsked: the run was asked to end.
	CancelAsked bool
	// HasArgs: the run has arguments, which [Control].Args reads.
	HasArgs bool
	// Backfill is what the backfill that the run belongs to has to do after it, as the
	// scheduler writes it; empty for all other runs.
	Backfill string
	Details
}

// RunToken is [Run].Token of the newest attempt: what a receiver of tokens has of it. In a group whose runs are spread
// it is not Token, which is that of the replica's session.
func (r Record) RunToken() uint64 { return cmp.Or(r.Fencing, r.Token) }

// Begun counts the attempts that have begun.
func (r Record) Begun() int { return r.Attempt - r.Unbegun }

// Details are what the ledger keeps of a run and compares nowhere: stores keep them as one text.
// So a field that is added here needs no change of any store.
type Details struct {
	// Unbegun counts those of [Record].Attempt that ended before they began, with the term of
	// their leader. No limit of attempts counts them.
	Unbegun int `json:"unbegun,omitempty"`
	// Fencing is the fencing token of the newest attempt that was assigned to a replica: [Run.Token]. Zero: it is [Record].Token.
	Fencing uint64 `json:"fencing,omitempty"`
	// Failing is [Known.Failing] at the newest assignment, by the ends that there were until Judged, in microseconds since 1970.
	Failing bool  `json:"failing,omitempty"`
	Judged  int64 `json:"judged,omitempty"`
	// Shards is how many parts the run has begun with ([Job].Shards). Zero: it has not, or is not divided.
	Shards int `json:"shards,omitempty"`
	// FailedOn is the replica whose attempt failed last: the next attempt goes to another one, if any can have it.
	FailedOn string `json:"failed_on,omitempty"`
	// Cluster is that of [Snapshot.Cluster] that took the newest assignment: the run starts on no other.
	Cluster string `json:"cluster,omitempty"`
	// Each names the replicas that Shards parts are for ([Job].Everywhere), as the scheduler writes it. Empty: for any.
	Each string `json:"each,omitempty"`
}

// Opened is the last term that declared its jobs.
type Opened struct {
	// Token is zero where none did, or where that is not known.
	Token uint64
	// At is when it did, by the database's clock; zero where Token is.
	At time.Time
	// Spread is the mode of the group: its runs are spread over all replicas.
	Spread bool
	// Cluster is that of [Snapshot.Cluster] that took the declaration, if the term assigns runs to replicas, and else empty. After a
	// switch of the mode it tells that of the last term, until the next one has declared.
	Cluster string
}

// Assigns reports whether the last term assigned runs to replicas, whatever mode the group was switched to since.
func (o Opened) Assigns() bool { return o.Cluster != "" }

// HasMode reports whether the group is known to be spread over its replicas, or not to be.
func (o Opened) HasMode() bool { return o.Token != 0 || o.Spread }

// Snapshot is what a term that begins has to know.
type Snapshot struct {
	// Now is the database's clock at the reading.
	Now time.Time
	// Changes is the number that the ledger counts requests with, at the reading.
	Changes uint64
	// Server is the identity of the database server that answered, as that of a
	// reading of the lease.
	Server string
	// Cluster stands for all servers of which none lacks what another one has confirmed. Empty: Server is the only one.
	Cluster string
	// Paused: the whole group is paused.
	Paused bool
	// Opened is the last term that declared its jobs.
	Opened Opened
	// Jobs are all that the ledger knows of the group, by name.
	Jobs map[string]Known
	// Pauses are the newest pauses of each job, and of the whole group under the
	// empty name, oldest first: at most 64 of each.
	Pauses map[string][]Pause
	// Open are the runs that are not over, in the order of their ticks.
	Open []Record
}

// Home is the cluster, or the server where there is none.
func (s Snapshot) Home() string { return cmp.Or(s.Cluster, s.Server) }

// IsOfEarlierTerm reports whether a run goes on by the ledger, and is of a term before that with the token. In a group that is spread, runs
// are of the sessions of replicas, and no term's.
func (s Snapshot) IsOfEarlierTerm(r Record, token uint64) bool {
	return r.State == Running && r.Token < token && !s.Opened.Spread && (r.Fencing == 0 || !s.Opened.Assigns())
}

// Unassigned are the runs of a group that is spread which have been due for 5 s, by the database's clock, and which no replica has, in the
// order of their ticks: of jobs that are not paused and have no other run which they may wait for.
func (s Snapshot) Unassigned() (all []Record) {
	if !s.Opened.Spread || s.Paused {
		return nil
	}
	busy := map[string]bool{}
	for _, r := range s.Open {
		busy[r.Job] = busy[r.Job] || r.Owner != ""
	}
	for _, r := range s.Open {
		if r.State == Waiting && !busy[r.Job] && !s.Jobs[r.Job].Paused && s.Now.Sub(r.Due) > 5*time.Second {
			all = append(all, r)
		}
	}
	return all
}

// RunsOf is how many runs each replica of a group that is spread was assigned, by its owner: those that go on, and
// those that it is to begin.
func (s Snapshot) RunsOf() map[string]int {
	of := map[string]int{}
	for _, r := range s.Open {
		if s.Opened.Spread && r.Owner != "" && r.Fencing > 0 {
			of[r.Owner]++
		}
	}
	return of
}

// Known is what the ledger knows of a job.
type Known struct {
	Schedule string
	// Since is when the ledger first knew the job, by the database's clock, and ScheduleSince when its
	// present schedule came into force, by the clock that the leader judged ticks by. Earlier instants are not its ticks.
	Since, ScheduleSince time.Time
	Paused               bool
	// Cursor is the newest scheduled tick that was claimed; zero when none was.
	Cursor time.Time
	// Started is the latest instant at which a run of the job was started, by
	// the database's clock, and zero when none was. It never goes back, also when
	// that clock does. It is what [Job.LockAtLeastFor]
	// counts from.
	Started time.Time
	// Finished is when a run of the job last came to its end, by a move, zero when
	// none has: what a fixed delay counts from. Ticks that were claimed as skipped
	// do not count; runs that were moved to skipped do.
	Finished time.Time
	// Failing reports whether the last run that says whether the job works has failed. It is
	// written by the move that ends the run. Runs that are skipped, cancelled on request, or of
	// a backfill say nothing. It is false until a run has failed. Leaders of releases that do
	// not know of it leave it as it is.
	Failing bool
	// Gone is since when terms do not have the job, by the database's clock; zero
	// while the last one that told has it. Leaders of releases that do not tell of
	// themselves leave it as it is.
	Gone time.Time
}

// History says which of a job's runs are kept. What is not over is always kept.
type History struct {
	// Keep is how many are kept at least, those of the newest ticks; zero: any
	// number. Runs that are not over count. A leader prunes a job after each 200 runs
	// of it that have ended, an hour after one has, and once a day, so that there are
	// more in between.
	Keep int
	// For is how long they are kept after they came to their end, which is
	// their claim for those that were claimed as skipped; zero: without limit.
	For time.Duration
}

// Filter selects runs; the zero value selects all.
type Filter struct {
	Job   string
	State State
	// Since leaves out runs whose tick is earlier, and Until those whose tick is not
	// earlier than it. Zero: no bound.
	Since, Until time.Time
	// Behind leaves out the run of this key and those that come before it in the order of
	// the answer, so that the last key of one list gives the list behind it. Its run need
	// not be there. Zero: from the newest on.
	Behind Key
	// Limit is how many are returned at most. Zero: 100.
	Limit int
}

// Key identifies a run within its group.
type Key struct {
	Job string
	// Tick is in UTC and of whole microseconds.
	Tick time.Time
	// Trigger tells runs beside the schedule from the tick of the schedule, which has 0.
	Trigger uint64
}
