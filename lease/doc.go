// Package lease says what it means that replicas contend for a row in a database,
// so that one of them at a time holds it, and how far that can be relied on. It has
// the words, the argument, the timing, and what work finds in its context. The
// protocol runs in packages election, scheduler and locks; a store keeps the rows
// in one kind of database (package store).
//
// # Words
//
// A group is a name that replicas contend for. An owner is one start of one
// process. The lease is the row that says who holds the group, under which
// token, until when. A term is one owner's uninterrupted time as holder; its
// token, a fencing token, only ever grows and never repeats. A heartbeat is a
// renewal. The trust deadline is the local moment after which a holder must not
// act any more, whatever the database says. The fence row repeats owner and
// token, is written by takeovers only, and is what fenced work is compared with.
//
// # What is guaranteed
//
//  1. Tokens strictly grow, and no token is ever given to a second owner, also
//     after the row is deleted, the database is restored from a backup, or a
//     failover loses the last writes (unless the new server's clock is behind
//     the lost term's token and the acquirer has not seen that term).
//  3. A fenced transaction of a replaced holder cannot commit (package fence).
//  4. The context of a term is cancelled, with a cause that says why, before
//     another replica can hold the lease, and early enough that work which
//     stops within Grace has stopped by then. This assumes that the process is
//     running and that clock rates agree within Drift, pair by pair. It assumes
//     nothing about how clocks are set, and holds when the database's clock is
//     stepped (though not twice, in opposite directions, between two readings
//     of a follower). One server takes the writes; where several do, as in a
//     Galera cluster, the replicas use one of them, or the servers' clocks agree.
//     A scheduler keeps this promise for each job: before another replica can
//     start that job.
//  5. A leader is back within TTL + 1 s of a crash if another replica was
//     watching (otherwise within TTL + 1 s of the next replica's start), at once
//     after a clean stop, and within TTL + 1 s of the database coming back,
//     however long it was away. Connections that were opened while the database was away may stay
//     dead when it is back, as behind an address that has moved: with mysqlstore a leader
//     may then be back up to the DSN's timeout (10 s) later. A scheduler is back sooner
//     after the death of its leader's process: see "Taking over early". A login that the
//     server has refused is retried later than that, so that retries do not lock the
//     account: docs/database.md has the bound.
//
// The numbers are those of the project's list; 2 and 6 are about claims and
// ticks, and rest on the token, as 3 does.
//
// What is not guaranteed: a lease is not mutual exclusion. A process that is
// paused can act for an instant after it wakes, and what it wrote before can
// arrive late. Whatever must never be written by an old term has to compare the
// token.
//
// # Why tokens only grow (guarantee 1)
//
// A new token is the largest of the compared one + 1, the highest that the
// acquirer has ever seen + 1, and the microseconds since 1970 by the database's
// clock. The first makes it grow while rows are kept; the other two make it
// grow when they were lost. It is written into lease and fence by the statement
// that compares them, so two acquirers cannot get one token: the second finds
// another row. Rows are never deleted; a release only marks. The one exception
// are the groups of package locks, one for each start of a process: the rows of
// those that have ended are deleted, and no process uses the name again.
//
// # Why no two terms overlap (guarantee 4)
//
// The holder counts from before it sends. A statement that is confirmed to have
// renewed the lease at local time s, sent, is trusted until
//
//	s + TTL - Drift*TTL - Grace
//
// and the row's time of renewal, which the server sets when the statement
// begins, cannot be earlier than s. Elapsed time is the larger of what the
// monotonic and the wall clock say, so after a sleep of the machine the trust
// has ended (unless its wall clock was set back meanwhile by as much as it
// slept: a program has no portable way to detect that).
//
// A follower takes an unreleased lease only when one heartbeat has been in the
// row for the row's own TTL, by the follower's monotonic clock. It may begin to
// count before it saw the heartbeat only as far as two clocks agree on it: when
// a reading first shows a heartbeat, its age is what the database's clock says,
// less what that clock may have gained on the follower's own since the reading
// before (a gain is subtracted, a loss never added), and no more than the time
// since that reading. Without a reading before, or with none of the last two
// TTLs, the age is zero, which is why a replica that starts beside a lease that
// is not released watches it for one TTL first.
//
// So holder and follower count the same TTL from the same statement, the holder
// from before and the follower from after, each on a clock whose rate agrees
// with the other's within Drift: the holder's context ends Grace before the
// follower can act.
//
//	holder    s──────────── trusted ─────────────┤·· Grace ··┤ drift
//	row          └ renewed_at                                │
//	follower        └ sees it ─── the row's TTL ─────────────────┤ takes it
//
// The acquire compares token and heartbeat, so a renewal in between makes it
// fail. A released lease can be taken at once, on the connection whose reading
// showed it. After the database's identity has changed, a replica takes nothing
// for one TTL, since the holder's last writes may be missing there; the same
// goes for a row that is behind what this replica has seen, or behind its fence.
// That TTL is the longest of the row's, this replica's, and the newest term's. It
// cannot know of a longer one, if the failover lost the acquire of a term that it has
// not seen: where a failover may lose commits, all replicas need the same TTL.
//
// A replica that a hand-over signal has woken does not read first, where the store
// can do without ([store.DirectHandover]): its acquire compares that the row is
// released. That is a reading and an acquire in one. On the connection of an earlier
// reading, which shows the same start of the same server, it compares the newest
// term that this replica has seen and a heartbeat no older than the newest, so the
// row is not behind; the fence has the same token; and the replica is neither in
// quarantine nor barred by what the earlier reading showed of the clocks. So what it
// takes, a reading at that moment would have let it take. Nothing but an acquire
// changes a released row, so it needs no exact heartbeat. The new token tells the
// database's clock, which is judged before the term begins.
//
// # Taking over early
//
// When a leader's process dies, its connection to the database ends, and the
// replica that is next in line for the hand-over signal learns of it within
// milliseconds. That is a hint and no proof: the connection of a leader that lives
// can be cut. A scheduler acts on it all the same, and takes the lease before its
// time, because it needs less than a lease promises. Each start of a run is claimed
// under the group's newest token, so from the acquire on the replaced leader claims
// nothing. Only what it has claimed may begin and go on, until its trust ends. Hence:
//
//   - A run that is open under an older token is left alone until the heartbeat that
//     the acquire compared has stood for the row's TTL, by the taker's own clock:
//     until the lease could have been taken without the hint. By then the run's
//     context has ended. Meanwhile its job starts nothing. Its row stays open, so that
//     the next leader has to leave it alone, too, if this one ends. All other jobs go
//     on.
//   - The row then has the new leader's heartbeats, and says nothing of the old one's.
//     The replica that takes it next counts from those, which is later, and for a TTL
//     that is no shorter than that of the row before: the acquire sees to that.
//   - A released lease is taken at once, and then nothing is left alone. So a term that
//     was taken early releases its lease only when that time is over, or when the
//     ledger has no open run under an older token. Else it lets the lease expire.
//   - A run that the ledger does not have cannot be left alone, and a failover may have
//     lost its claim. So the hint counts for terms alone that were acquired on this very
//     start of this very server: the leader shows its term on no other one, and
//     nowhere any more once another server has answered it. The ledger is read there
//     as well, after the acquire.
//   - If a run is open, the taker first waits until the next heartbeat is overdue: a
//     leader that only lost that connection keeps its lease and its run.
//
// Elections without a scheduler, and locks, have no claims. Their leases are never
// taken early.
//
// # Why late and lost answers do no harm
//
// Every statement compares all that it expects, so it applies at most once, and
// not at all once its time is over:
//
//   - A renewal compares the last confirmed heartbeat and writes a number that
//     is used once. If its answer is lost, the row tells by that number whether
//     it ran, and trust counts from when that statement was sent. If it runs
//     late, after its successor, it finds another heartbeat.
//   - An acquire that runs late finds another heartbeat, or makes its owner the
//     holder without its knowledge: the owner's next look either adopts the
//     term, trusted from when the acquire was sent, or releases it by its token.
//     One without a reading before it waits for a release, so it can run late when
//     that release comes late. Its term is never adopted, only released.
//   - A release compares owner and token, and is harmless when repeated. One that
//     passes the hand-over signal too is repeated without it.
//
// A missing answer is never taken for an answer. A renewal may succeed after the
// row's time has passed, as long as no other replica has taken the lease; it
// never brings back a term whose trust has ended, and then only keeps others out
// while work drains.
//
// # The end of a term
//
//	stop starting work → cancel the context, with the cause
//	  → keep renewing while work drains, for a TTL at most
//	  → release, on a context of its own
//
// Work that has not drained by then keeps the lease from being released: it
// expires, and the holder passes the hand-over signal and does not campaign while
// the work runs.
//
// A holder that leaves by its own wish may let work finish first, for as long as it
// likes: it starts nothing new and keeps the lease, its trust and its heartbeats. To
// give the lease away while work goes on would leave that work unbounded: its token
// would be stale, so that its fenced transactions could not commit, and the rule that a
// taker leaves open runs alone ends a TTL after the last heartbeat.
//
// # What happens when
//
//   - The holder's process dies: followers wait until its last heartbeat is a
//     TTL old, but for those of a scheduler (see "Taking over early").
//   - It is paused: the same; when it wakes, [Hold.Trusted] says no at once,
//     and the context ends as soon as its timer runs. Timers count by the
//     monotonic clock, so if the whole machine slept, that is a quarter of Grace
//     later at most.
//   - The database is away for less than the trust that is left: nothing. For
//     longer: the term ends with [ErrLost] by the trust deadline. All replicas
//     keep trying.
//   - The database is restarted, or another server answers: a holder goes on
//     if its row is still as it left it; no replica takes a lease for one TTL.
//     A scheduler's holder starts nothing there before it has read the ledger,
//     and its term ends if that lacks what it knows to be in it.
//   - The row is deleted, rewound or restored: its holder's next heartbeat finds
//     out and the term ends; followers watch the row for one TTL. One case
//     cannot be detected: the row is put back within a term, to a heartbeat
//     that is newer than what a follower has seen. That follower counts from
//     the old heartbeat, and may lead before the holder's next heartbeat finds
//     out. Tokens, claims and fences hold there too.
//   - The database's clock is stepped: nothing.
//   - Another process has the same owner name, which takes a copied random
//     number: they follow each other like any two, since each knows the
//     heartbeats that it wrote, and the one that waits logs it as an error. This
//     does not cover a copy of a whole running machine, which knows the same
//     heartbeats.
//
// # Timing
//
// See [Timing], which has the relation between the times, their defaults and
// limits.
package lease
