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
//   - locks: mutexes and read/write locks, whose sessions are leases
//   - scheduler: fires jobs on the leader, through gocron
//   - store/mysqlstore, store/sqlitestore, store/memstore: where rows live
//   - lease/leasetest, jobs/ledgertest and locks/lockstest: the contracts that
//     every store is held to
//   - gocronlease: an elector and a locker for a gocron scheduler of one's own
//   - cmd/worker: the same as a program, for jobs that are commands, HTTP calls
//     or SQL statements
//
// docs/model has the protocol once more, as a model that Spin checks. The package
// has no code; its test is the end-to-end proof, with real worker
// processes on a real server.
package cronlease
