// Package plan decides what becomes of the ticks and runs of a job: which ticks are due, what a claim of them
// says, which run may start, and what follows from how a run ended. It is the half of a scheduler that knows
// schedules and policies. It has no context, no clock, no lock and no goroutine: an instant, what the ledger
// has, and how runs ended go in; claims, and what to do with a run, come out. Package scheduler is the other
// half: it writes the claims, and runs what may start.
//
// # Why each tick becomes one row
//
// [Job.Claim] is the only thing that moves the next tick on, from one tick to the first that is not due. All
// ticks in between are in the claims that it returns, in their order, as a claim of their own or in the count of
// one (Missed). Until these have their answer, [Job.Hold] lets nothing else be claimed. A claim that the ledger
// refuses puts the next tick back to the first that the ledger does not have, and [Job.Hold] keeps it there
// until the ledger has been read. So no tick is left out, and the ledger's key keeps any from becoming two rows.
package plan
