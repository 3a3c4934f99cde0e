// Package cronlease is the root of a module that runs scheduled jobs on one of
// many identical replicas: they contend for a lease row in the database they
// already have, the one that holds it fires the jobs, and when it loses the
// lease the contexts of its running jobs are cancelled and the next replica
// goes on.
//
// Start reading at package lease, whose documentation is the safety argument.
// Then:
//
//   - election: one leader among replicas, with a context for each term
//   - jobs: jobs, schedules and ticks
//   - fence: transactions that an old leader cannot commit
//   - scheduler: fires jobs on the leader, through gocron
//   - store/mysqlstore, store/sqlitestore, store/memstore: where rows live
//   - lease/leasetest and jobs/ledgertest: the contract that every store is held to
//   - cmd/worker: the same as a program, for jobs that are commands, HTTP calls
//     or SQL statements
//
// The package has no code; its test is the end-to-end proof, with real worker
// processes on a real server.
package cronlease
