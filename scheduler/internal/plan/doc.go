// Package plan decides what becomes of the ticks and runs of a job: which ticks are due, what a claim of them
// says, which run may start, and what follows from how a run ended. It is the half of a scheduler that knows
// schedules and policies. Its types are state of one goroutine; their methods do no I/O, wait for nothing and read no
// clock. An instant, what the ledger has, and how runs ended go in; claims, and what to do with a run, come out.
// Package scheduler is the other half: it writes the claims, and runs what may start.
//
// # Three clocks
//
// now is the present by the clock that ticks are judged by, in what is about ticks ([Job.Claim], [Job.Hold],
// [Job.Fate], [Job.Learn], [Job.PutOff]); by the database's clock in what compares with instants that it stamped
// ([Job.Locked], [Job.Wait], [LongAbsent], [Pauses]); and by this machine's in what limits notices
// ([Followers.OfEnd], [Followers.OfClaim], [Told]).
//
// # Why each tick becomes one row
//
// [Job.Claim] is the only thing that passes over ticks which have no row: it moves the next tick on to the first
// that is not due, and all ticks in between are in the claims that it returns, in their order, as a claim of
// their own or in the count of one (Missed); or their rows are in the ledger and in hand already: a copy of a
// refused claim came late. While claims have no answer, [Job.Hold] is [Asked]. [Job.Learn] and [Job.GoOn]
// compute the next tick anew from the newest one that the ledger has: after a refusal, that puts it back to the
// first that the ledger lacks, and [Job.Hold] keeps it there until the ledger has been read. So no tick is left
// out, and the ledger's key keeps any from becoming two rows.
package plan
