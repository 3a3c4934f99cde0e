// Package redisstore keeps leases, ledgers and locks in Redis or Valkey, for packages election, scheduler and locks. Redis 6.2 or later is
// best; 5.0 is the least.
//
//	store, err := redisstore.Open("redis://user:password@host:6379/0")
//	s, err := scheduler.New(store, "billing")
//
// [Open] has the other forms of a URL: for sentinels, a cluster, and TLS. The client writes what it notices, such as a
// connect that fails, to standard error by itself, for all clients of a program: package logging of go-redis turns that
// off, as the worker does.
//
// There is nothing to migrate: a group's keys appear when it is first used.
//
// # What it guarantees
//
// Each operation is one script, which the server runs as a whole and alone, with its own clock. Every write of a holder
// compares the group's token in the script that writes, so that a replaced term writes nothing: nothing can come
// between the comparison and the write. What is not hot, such as a pause, a cancel request, or the jobs of a term, is
// two: one reads rows, and one writes others if those rows, and the token, are still the same. If they are not, the
// operation begins anew. It need not for what a leader writes all the time, so it ends soon beside a busy one. Nothing
// is rolled back when a command of a script fails, so a script reads all that it needs before it writes. A server
// without memory, a replica, and one that cannot reach its replicas refuse a script at its first write.
//
// All of that holds as long as the server keeps what it has acknowledged. Two things lose some of it:
//
//   - A crash. Without appendonly yes and appendfsync always, the server loses its last writes, with everysec those of about a second, and
//     without an append-only file all since its last snapshot.
//   - A failover. Replication is asynchronous: a replica that is promoted lacks what had not reached it, and a primary that is cut off goes on
//     to take writes until it knows. min-replicas-to-write and min-replicas-max-lag bound for how long; WAIT does not undo a write that has
//     reached no replica, and this package does not use it.
//
// Where claims are lost, a tick may run twice, and where outcomes are lost, a run may be run again. Where a lease is
// lost, two terms may overlap until the first one finds out, at its next heartbeat; what [Store.Do] has stored
// meanwhile may be lost with it. Tokens never repeat all the same: those of new terms come from the server's clock, as
// long as that does not go back by more than was lost. Whatever keeps the highest token that it has seen refuses the
// earlier term. If no tick may ever run twice, keep the ledger in a database that loses no commits. [Store.Examine]
// says how a server is set up.
//
// A server is known by the history that it goes on with (master_replid), which is a new one whenever a process starts, or is promoted, as a
// primary. Replicas of a service that meet another server do not conclude from its rows that a leader is gone, and sit out the TTL. A lease
// that was read on one is not taken on another.
//
// A cluster keeps all of a store in one slot, so on one server. While the slot moves to another one, every operation
// fails, with an error that matches [lease.ErrNotReady]: either server has some of the keys only. A leader whose TTL is
// longer than the move goes on.
//
// Keys never expire. A server that evicts keys without an expiry is refused ([Store.Check]). Nobody else may write to
// keys that begin with the store's name.
//
// # What it costs
//
// The server does nothing else while a script runs. Claims and moves of more than 200 rows are several scripts, and
// lists look at 500 rows in each, as does Declare, with which a term begins, at 500 jobs. One is as long as the group
// is large: Load, which reads all jobs and all runs that are not over. For 10,000 jobs it takes tens of milliseconds,
// as it does for 10,000 such runs, which is how many a job may have before it takes no more requests ([jobs.MaxOpen]).
// A run that has not been pruned takes most of a kilobyte. go test -bench . ./store/redisstore measures it.
//
// # Keys
//
// Each begins with the name of the store ([WithName]), which has a hash tag, so that a cluster keeps all of a store in
// one slot: {cronlease} unless it was given another one. TICK is the microseconds since 1970 plus 10^18 in 19 digits,
// TRIGGER and TOKEN are numbers in 20, and STATE is the number of a [jobs.State]. Sorted sets have the score 0 where
// none is named: their entries sort as texts, since scores are floating-point numbers that would round instants.
//
//	lease:GROUP                        hash        the lease
//	fence:GROUP                        hash        owner and token that writes are compared with
//	groups                             sorted set  all groups that have a lease
//	ledger:GROUP                       hash        number of requests and of entries of the audit, who declared last, pauses of the group
//	jobs:GROUP                         hash        of each job since when, schedule since when, paused, last start, last end, gone since
//	                                               when, pauses, and schedule, in one text, as a term reads all of them at once
//	cursors:GROUP                      hash        of each job its newest scheduled tick
//	failing:GROUP                      set         the jobs whose last run that says whether the job works has failed
//	run:GROUP JOB TICK TRIGGER         hash        a run, with its arguments
//	attempts:GROUP JOB TICK TRIGGER    hash        of each attempt at it how it ended, and what it printed (MessagePack)
//	runs:GROUP JOB                     sorted set  TICK TRIGGER of the runs of a job
//	all:GROUP                          sorted set  TICK JOB TRIGGER of all runs
//	in:GROUP STATE                     sorted set  TICK JOB TRIGGER of those in a state
//	audit:GROUP                        list        entries of the audit (MessagePack)
//	terms:GROUP                        sorted set  TOKEN of the terms
//	term:GROUP                         hash        of each TOKEN the term (MessagePack)
//	going:GROUP                        sorted set  TOKEN of those of which no end is known
//	replicas:GROUP                     set         owners of the replicas that have told of themselves
//	replica:GROUP OWNER                hash        such a replica, with its jobs
//	lock:NAME                          string      version of a lock, when it was written, its holders and waiters
//	locks                              sorted set  all locks that have a row
//	idle                               sorted set  locks that were left without holders and waiters, by when; some are held again
//	floor                              string      the highest version of a lock that was pruned
//
// Beside them are channels: free:GROUP tells of releases, and asked:GROUP of requests and that what is open has
// changed. notify:ADDRESS wakes a process that waits for locks, and the process of a term listens to
// present:GROUP:TOKEN:SERVER, which shows that it is connected.
package redisstore
