// Package election keeps one leader among the replicas that campaign for a
// group. It is usable by itself, for anything that wants one leader:
//
//	err := election.Run(ctx, store, "indexer", func(ctx context.Context, term election.Term) error {
//		return index.Serve(ctx) // ctx ends with the term
//	})
//
// The guarantees, and why they hold, are those of package lease: tokens grow,
// a term's context ends before the next term can begin, and a leader is back
// within TTL + 1 s. Like every lease, this one cannot stop a process that was
// paused from acting for an instant when it wakes: hand [Term.Token] to what
// the leader writes to, and let it refuse older ones.
//
// # States
//
//	           the lease was taken             the context ended, by the
//	           by the rules of package lease   deadline, Resign or a stop
//	Following ───────────────────────▶ Leading ───────────────────────▶ Draining
//	    ▲                                                                  │
//	    └──────────────────────────────────────────────────────────────────┘
//	      the leading function has returned, and the lease is released
//
// A follower sleeps until the lease's time would be up, reads it, and sleeps
// again: about one statement per TTL, and one a minute at least. A clean
// hand-over does not wait for that: where the store has a signal for it ([store.HandoverSignals]),
// the leader keeps it for its term and the followers wait for it, each on a
// connection of its own. The signal only says "look now"; the row decides. Where the
// store can ([store.DirectHandover]), the release passes the signal in one statement,
// and the follower that it wakes takes the lease without looking first. If that fails,
// it looks, and again soon: the signal stays free until a leader has it.
// That a leader's process has died shortens the wait for schedulers alone, whose work
// is claimed: see package lease.
package election
