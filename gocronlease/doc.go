// Package gocronlease plugs an elector or a locker into an existing gocron
// scheduler, for services that need nothing else of this module:
//
//	elector, err := gocronlease.NewElector(ctx, store, "billing")
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
//	client, err := locks.New(store)
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlease.NewLocker(client)))
//
// # The context of a task, and the end
//
// A task whose first parameter is a context gets gocron's: the job's, which ends
// when the scheduler is shut down or the job is removed, and not when the
// leadership or the lock is lost. Call [Elector.Do] with it for one that does.
//
// At the end, shut the scheduler down first, so that no task starts or goes on;
// then end the context of [NewElector] and call [Elector.Wait], or close the
// locks' client; then close the store. In another order, tasks run on after their
// lease or lock was released, or a released lease is not waited for.
//
// # What gocron does not do
//
// An elector and a locker only answer whether a job may start. In gocron v2.22,
//
//   - the elector is asked once, before a run. A run whose replica loses the
//     leadership meanwhile is not cancelled; see [Elector.Do], which does that;
//   - a tick that comes while no replica leads, as after a crash, is lost: the next
//     leader does not know of it;
//   - with an elector set, a locker is accepted and never called;
//   - a locker gets the job's name and not its tick, so a replica whose clock is
//     late finds the lock free again and runs the same tick once more, unless
//     the lock is kept for longer than clocks differ; see [KeepFor];
//   - a lock that is lost does not cancel the run that relied on it, and the run
//     does not learn its token.
//
// Every tick once, none lost, and runs that are cancelled with their leadership
// are what package scheduler is for; it sits on gocron too.
package gocronlease
