// Package gocronlease plugs an elector or a locker into an existing gocron
// scheduler, for services that need nothing else of this module:
//
//	elector, err := gocronlease.NewElector(ctx, store, "billing")
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
//	client, err := locks.New(store)
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlease.NewLocker(client)))
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
