// Package jobs describes scheduled work: what a job is, when its ticks are, and
// what a run of it is told. It knows neither leases nor elections; the fencing
// token reaches it as a number.
//
// A tick is one planned instant of a job, always in UTC and the same on every
// replica: schedules depend on the calendar, or on what the ledger knows, never
// on when a process started. A run is the work for one tick, and may take several
// attempts.
//
// [Within] leaves ticks of a schedule out: those before and after two instants, and
// days and times that are excepted. [Job.Jitter] puts off starts, not ticks.
//
// The ledger of a store records what ran, in the same database as the lease. Its rows are
// written by the claim that gives a tick to exactly one run, and changed by
// comparisons of all that is expected. A job's newest row is its cursor: what is
// due after it is decided by the present leader, so no gap loses a tick.
//
//	claim ──▶ running ──▶ succeeded, failed, timed out, cancelled, panicked
//	  │        │    ▲ └──▶ interrupted: its holder did not finish it
//	  │  retry ▼    │ start, with the next attempt
//	  ├─────▶ waiting
//	  └─────▶ skipped
//
// Beside the schedule, a run can be triggered by hand, with arguments; follow a run of
// another job that succeeded ([After]); or belong to a backfill ([Group.Backfill]). Such
// runs have a number in their key ([Key].Trigger), and move no cursor.
package jobs
