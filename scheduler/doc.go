// Package scheduler fires the jobs of a group on the one replica that holds the
// group's lease, or has it spread their runs over all of them ([WithSpread]). No gocron type is in its API.
//
// A term begins: it reads the ledger and declares its jobs; then a fresh gocron scheduler is built
// for its schedules and started, as an alarm clock. An alarm, or a sweep each second, makes the term
// look at which ticks are due; a run's context is derived from the term's. A term
// ends: the contexts of its runs are cancelled with the cause, the gocron
// scheduler is shut down, the runs are awaited, and only then is the lease
// released. A run that does not stop is named in the log and never lets this
// replica lead again while it runs.
//
// The list of jobs may change at any time ([Scheduler.Add], [Scheduler.Replace],
// [Scheduler.Remove], [Scheduler.Set], [WithProvider]). Each replica has its own; the
// leader takes a change into its term once the ledger knows of it.
//
// When the leader's process dies, the next replica takes over before the lease's
// time is up, and leaves alone what the old term may still run: package lease says why
// that is safe, and [WithFullTTL] turns it off.
//
// # Why it is safe
//
//   - Each tick becomes one row: package plan says why (its comment). A claim without an answer is repeated
//     under the same id.
//   - No tick is lost when another replica takes over: its term goes on from the newest tick that the ledger has,
//     and what lies behind that goes through the misfire policy.
//   - None is lost when the database fails over: claims and moves go only to the server whose ledger the term has
//     read (failover.go). Another one is read first, and if it lacks something, the term ends.
//   - None runs twice after tables were restored: package memory notices, and the group is paused (restore.go).
//   - A replaced leader claims and moves nothing: each claim and move has the term's token, which the store compares in the
//     statement ([store.ErrReplaced]). Its runs' contexts have ended before another replica can hold the lease:
//     package lease says why. Runs that an early takeover may meet are left alone until then (term.leave).
//   - A paused process starts nothing: every start of a run reads the trust deadline from the clocks, because the
//     context of a process that was paused can look alive for a moment after it.
//
// # Runs on all replicas
//
// In a group that is spread ([WithSpread]), the leader claims each tick and assigns the run to a replica. The replica starts
// it, and records its end, under a lease of its own: its session. docs/model/spread.pml is the model of what follows.
//
//   - A run starts once. A start compares the session's fence, and that the run is assigned to that session, with the
//     attempt of that assignment. A run that is taken from a replica counts an attempt, so a late start finds another one.
//   - The leader assigns the next run of a job when the one before is over in the ledger. An assignment without an answer
//     counts as made. A change of leader cancels nothing: the next leader finds in the ledger which runs are assigned.
//   - Runs of a session are taken up when it is over: another replica has taken its lease, by the rules of package lease. Then the
//     contexts of its runs have ended, and its fence has moved, so that nothing starts under it any more (package crew).
//   - A replica whose start got no answer repeats it. The leader wakes one again that has not begun a run, and each replica reads its assignments once in a TTL.
//   - A fenced transaction compares the session and the row of its run: an attempt can be over long before its session.
//   - After a failover, a run starts only on the server that took its assignment, and the leader assigns nothing for
//     a TTL: by then each replica has ended the runs that the other server lacks, or does not trust its session any more.
//   - The fencing tokens of a job grow over replicas and leaders: a token is an instant of the database's clock, a start is
//     stamped with it or later, and the next one comes after the latest start that the ledger has.
//
// # Where to read
//
// Package plan (internal/plan) decides what becomes of ticks and runs, and says why each tick becomes one
// row; outbox decides what a statement has, and memory whether the ledger has gone back. The files here carry
// that out. Read term.go, env.go and loop.go first, and then the way of a tick: alarms.go, claim.go, run.go,
// slots.go, attempt.go, standing.go, writer.go. Packages tickclock, watchdog, roster and termnotes stand alone.
//
// In this order, from the outside in, what a file uses stands in a later one, but for a few calls back, such as
// from the end of a run to what may be claimed then:
//
//   - a replica: scheduler.go, clock.go, provider.go, here.go, restore.go, health.go, session.go (what it was assigned)
//   - its term: open.go, loop.go, drain.go; changes of its jobs: relist.go, absent.go, declare.go; what it
//     reads: reader.go, control.go
//   - the way of a tick: alarms.go, found.go (what the ledger has as open), pauseafter.go, claim.go,
//     away.go (what is assigned to replicas), choice.go (to which), run.go, inhand.go, slots.go and keys.go (what may start), standing.go (its end), follow.go,
//     notify.go, failover.go, writer.go (its statements), attempt.go (the job itself), shards.go, wake.go (signals)
//   - what these share: prune.go, term.go, entry.go (a job), env.go (what never changes), skips.go, running.go,
//     heartbeat.go, sentinel.go, mode.go, lend.go (jobs that the leader lacks), list.go, signal.go
package scheduler
