package sqlledger

// Queries are the statements of a ledger. Their parameters are numbered, the group is the first one unless a comment says
// otherwise, and a key is three of them: job, tick, trigger. Instants are microseconds since 1970. A database whose triggers
// do what a statement is for leaves it empty.
type Queries struct {
	LedgerQueries
	ArchiveQueries
	ReplicaQueries
}

// LedgerQueries read and write rows: what rows may become is for package ledger to say.
type LedgerQueries struct {
	// Group reads, in one row: the clock, the server, changes, paused and pauses; owner and token of the fence row; schedule
	// and schedule_since of the job without a name. Fence reads owner and token of one.
	Group, Fence string
	// Jobs reads all jobs, JobsOf those of the names in a JSON array ($2): name, whether it is there, schedule, since,
	// schedule_since, paused, pauses, started_at, finished_at, gone_at, failing, the newest scheduled tick.
	Jobs, JobsOf string
	// These read runs: job, tick, trigger, claim id, state, owner, token, attempt, claimed_at, started_at, finished_at,
	// due_at, missed, error, cancel_asked, whether it has arguments, backfill, details. ReadRuns has a JSON array of
	// [job, tick, trigger] as its second parameter.
	OpenRuns, OpenRunsOf, ReadRuns, RunsAt, RunsLater string
	CountOpen, Args                                   string
	// PutRun inserts a run or changes it, but for what never changes in one. Judge ($2 job, then started_at, finished_at,
	// failing) writes what the end of a run says of its job.
	PutRun, Judge string
	// Rekey gives the run of a key another tick and trigger, claim id, finished_at and missed; then Rewind and DropCursor set
	// the cursor of the job to its newest tick, $3 being a tick that no run has.
	Rekey, Rewind, DropCursor           string
	PutJob, SetPaused, PutGroup, Forget string
	// For Runs: $2 the first tick, $3 the limit, $4 the last tick, $5 whether what follows counts, $6 to $8 the key that the
	// runs are behind, $9 a state, $10 a job.
	NewestRuns, NewestOfJob, NewestOfState string
	// $3 is how many are kept at most, $4 for how long; 0 is no bound. $5 is how many are deleted at most, $6 how many of the
	// oldest are looked at.
	Prune string
}

// ArchiveQueries are about what people look at later.
type ArchiveQueries struct {
	Note, Audit, AuditOfJob, Had, Oldest, DropEntry string
	PutTerm, OpenTerms, Terms, FirstTerms, DropTerm string
	Keep, Drop, Run, Attempts                       string
	Names, Newest, CutOf, CutAll, CountOf, CountAll string
}

// ReplicaQueries are about replicas. Since reads since when a job is gone, 0 if it is not.
type ReplicaQueries struct {
	Enlist, Refresh, Strike, Roster, Lists, Since string
}
