// Package cronlease is the root of a module that runs the scheduled jobs of a
// service with several identical replicas. The replicas elect a leader through a
// row in the MySQL or MariaDB database that the service already uses; the leader
// runs the jobs, or assigns the runs to all replicas, and each tick of a job is claimed once in the whole cluster. When
// the leader dies or is cut off, another replica takes over, and what the old one
// still writes in a fenced transaction is refused.
//
// The package has no code. Start with the README and its program of forty lines, or
// with the packages:
//
//   - scheduler: runs jobs on the leader, or on all replicas; its example is a whole program
//   - jobs: jobs, schedules, policies, and the history
//   - store/mysqlstore, store/sqlitestore, store/redisstore, store/zkstore, store/memstore: where the rows are kept
//   - fence: transactions that a replaced leader cannot commit
//   - election: one leader, without jobs
//   - locks: mutexes and read/write locks across processes
//   - event: what happens in a process, as typed values; metrics and tracing make
//     Prometheus metrics and OpenTelemetry spans of it
//   - gocronlease: an elector and a locker for a gocron scheduler that you have
//   - store: the contract of a store, which is internal and may change with each release
//   - store/ledger: the rules of the ledger, for those who write a store of their own
//   - lease: the protocol under all of them, and why it is safe
//   - store/storetest: that contract as tests
//   - cmd/worker: all of it as a program, for jobs that are commands, HTTP calls
//     or SQL statements
//
// docs/README.md lists the documents. The tests of this package are the shortest of
// the end-to-end tests, with real worker processes on real servers; the others are in
// a module of their own, test.
package cronlease
