package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// groupExam is what worker doctor finds out about a group, beside its database.
type groupExam struct {
	group      string
	target     *target
	leadership election.Leadership
	roster     jobs.Roster
	snapshot   jobs.Snapshot
	skewed     bool     // the clocks differ by more than a minute
	unfit      []string // the checks that have found a problem with the database or the clock

	check string
	found []store.Finding
}

func (e *groupExam) say(grade store.Grade, text, cure string) {
	e.found = append(e.found, store.Finding{Check: e.check, Grade: grade, Text: strings.Join(strings.Fields(text), " "), Cure: cure})
}

func (e *groupExam) sayf(grade store.Grade, cure, format string, args ...any) {
	e.say(grade, fmt.Sprintf(format, args...), cure)
}

// cannot says why a check was not made: the error, unless it comes from what is named already.
func (e *groupExam) cannot(err error) {
	text := "could not be looked at: " + err.Error()
	if len(e.unfit) > 0 {
		text = "not looked at: see " + strings.Join(e.unfit, ", ")
	}
	e.say(store.Unknown, text, "")
}

// leader judges who leads.
func (e *groupExam) leader(snapshot jobs.Snapshot) {
	e.check = "leader"
	cure := "start a worker (worker run), or read the log of those that run: it says why they do not lead, and if a login was refused, when the next one is (within 18 s of a locked account or an expired password, within 6 minutes of a wrong one, at once after a restart)"
	if len(e.unfit) > 0 {
		cure = "that of " + strings.Join(e.unfit, ", ") + ": workers that run need no restart"
	}
	l := e.leadership
	s := newStatusOf(l)
	age := l.Age.Round(100 * time.Millisecond)
	switch {
	case s.State == "none":
		e.sayf(store.Problem, cure, "nobody has ever led group %s", printable(e.group))
	case s.State == "released":
		e.sayf(store.Problem, cure, "nobody leads: %s released the lease %v ago", printable(l.Owner), age)
	case s.State == "expired":
		e.sayf(store.Problem, cure, "nobody leads: the last heartbeat of %s was %v ago (TTL %v)", printable(l.Owner), age, l.TTL)
	case l.Age > l.TTL*2/3:
		e.sayf(store.Warning, "look at the leader's machine and its way to the database", "the last heartbeat of %s was %v ago, of a TTL of %v: it is late", printable(l.Owner), age, l.TTL)
	case s.ResignAsked:
		e.sayf(store.Good, "", "%s leads, and is leaving", printable(l.Owner))
	default:
		at, _ := overdue.TermBegan(snapshot, l)
		e.sayf(store.Good, "", "%s leads since %s, token %d, last heartbeat %v ago", printable(l.Owner), shown(&stamp{Time: at}), l.Token, age)
	}
}

// mode tells of a configuration file whose workers do not lead, since the group has the other mode.
func (e *groupExam) mode() {
	e.check = "mode"
	file, o := e.target.file, e.snapshot.Opened
	switch {
	case file == nil || !o.HasMode() || file.Spread == o.Spread:
	case o.Spread:
		e.say(store.Problem, "the runs of the group are spread over its workers, and workers with this file, which lacks spread: true, do not lead", "write spread: true into the file, or worker spread off")
	default:
		e.say(store.Problem, "the leader runs all jobs of the group, and workers with this file, which has spread: true, do not lead", "worker spread on, or take spread: true out of the file")
	}
}

// replicas judges which workers there are, and whether they are alike.
func (e *groupExam) replicas() {
	e.check = "replicas"
	if !e.snapshot.Opened.Spread { // what replicas of the other mode lend, the leader does not plan
		for i := range e.roster.Replicas {
			e.roster.Replicas[i].Lent = nil
		}
	}
	states := replicaStates(e.roster, e.snapshot)
	versions := map[string]bool{}
	for _, r := range states {
		versions[r.Version] = true
	}
	find := "look at their machines and their logs"
	if len(e.unfit) > 0 { // a worker that cannot write is not seen
		find = "that of " + strings.Join(e.unfit, ", ")
	}
	switch {
	case len(states) == 0 && e.skewed:
		e.say(store.Unknown, "no worker has told of itself in the last 10 minutes by the database's clock, which differs from this machine's", "that of "+clockCheck)
	case len(states) == 0 && e.leadership.Held():
		e.say(store.Unknown, "no worker has told of itself: they are of an older release", "update them")
	case len(states) == 0 && len(e.unfit) > 0 && e.gone() == "":
		// Those that run may have told another server.
		e.say(store.Unknown, "no worker has told this database of itself: see "+strings.Join(e.unfit, ", "), "")
	case len(states) == 0 && e.gone() != "":
		e.say(store.Problem, "no worker can be seen"+e.gone(), "look at their machines and their logs; where the other checks say that the database takes no writes, mend that first: workers cannot show themselves without")
	case len(states) == 0:
		e.say(store.Problem, "there are no workers", "start some (worker run)")
	case len(states) == 1 && states[0].FollowerOnly:
		e.sayf(store.Problem, "start a worker without follower_only", "there is one worker (%s), and it may not lead: it is follower_only%s", versionsOf(states), e.gone())
	case len(states) == 1 && e.gone() != "":
		e.sayf(store.Warning, find, "there is one worker (%s): nobody takes over when it fails%s", versionsOf(states), e.gone())
	case len(states) == 1:
		e.sayf(store.Warning, "start a second one on another machine", "there is one worker (%s): nobody takes over when it fails", versionsOf(states))
	case !slices.ContainsFunc(states, func(r replicaStatus) bool { return !r.FollowerOnly }):
		e.sayf(store.Problem, "start a worker without follower_only", "%d workers, and none of them may lead: all are follower_only%s", len(states), e.gone())
	case len(e.roster.Standby()) == 0:
		e.sayf(store.Warning, "start another worker without follower_only, on another machine", "%d workers, and only one of them may lead: nobody takes over when it fails%s", len(states), e.gone())
	case len(versions) > 1:
		e.sayf(store.Warning, "finish the deployment", "workers are of different versions: %s%s", versionsOf(states), e.gone())
	case e.gone() != "":
		e.sayf(store.Warning, find, "%d workers: %s%s", len(states), versionsOf(states), e.gone())
	case slices.ContainsFunc(e.roster.Standby(), func(r jobs.Replica) bool { return r.Presence == jobs.PresenceUnknown }):
		e.sayf(store.Good, "", "%d workers have told of themselves in the last 10 minutes, and this database does not see which of them have died since: %s", len(states), versionsOf(states))
	default:
		e.sayf(store.Good, "", "%d workers: %s", len(states), versionsOf(states))
	}
	e.check = "same jobs"
	before := len(e.found)
	d := e.roster.Differences()
	if n := len(d.NotLed); n > 0 {
		e.sayf(e.lasting(), "give all workers the same jobs, or services that share the group by mistake groups of their own",
			"jobs that workers have and the leader does not, which do not run: %d: %s", n, bounded(d.NotLed))
	}
	if n := len(d.Rescheduled); n > 0 {
		e.sayf(store.Warning, "give all workers the same schedules (worker reload)", "jobs that the leader has under another schedule than other workers: %d: %s", n, bounded(d.Rescheduled))
	}
	if missing, others := e.fileDifferences(); len(missing) > 0 || len(others) > 0 {
		e.sayf(store.Warning, "worker reload on every machine, or look at the right file", "the leader goes by another file: jobs only in this one: %d (%s), under another schedule: %d (%s)",
			len(missing), bounded(missing), len(others), bounded(others))
	}
	if before == len(e.found) {
		e.say(store.Good, "the leader plans the jobs of all workers", "")
	}
}

// labels finds the jobs of a group whose runs are spread that wait for a worker with their labels.
func (e *groupExam) labels(declared []config.Job) {
	e.check = "labels"
	var waits []string
	live := e.roster.Live()
	for _, job := range declared {
		can := func(r jobs.Replica) bool {
			_, has := r.Jobs[job.Name]
			return has && r.Labels.Has(job.On)
		}
		if len(job.On) > 0 && !slices.ContainsFunc(live, can) {
			waits = append(waits, fmt.Sprintf("%s (%s)", job.Name, job.On))
		}
	}
	if len(waits) > 0 {
		e.sayf(store.Warning, "start a worker with these labels (labels in worker.yaml), or change the job's on", "jobs that wait, since no worker that lives has their labels: %d: %s", len(waits), bounded(waits))
		return
	}
	e.say(store.Good, "each job has a worker with its labels", "")
}

// gone says which workers are gone.
func (e *groupExam) gone() string {
	if gone := goneOf(e.roster); gone != "" {
		return "; the database does not see, or they cannot lead: " + gone
	}
	return ""
}

// lasting is the grade of a difference between workers: after an hour it is no deployment.
func (e *groupExam) lasting() store.Grade {
	for _, r := range e.roster.Live() {
		if e.roster.Now.Sub(r.Since) < jobs.LongAbsence {
			return store.Warning
		}
	}
	return store.Problem
}

// fileDifferences compares the configuration file with the jobs that the leader told of.
func (e *groupExam) fileDifferences() (missing, others []string) {
	leader, ok := e.roster.Find(e.roster.Leader)
	if !ok || e.target.file == nil {
		return nil, nil
	}
	for _, job := range e.target.file.Jobs {
		if e.target.file.RunsAlone(job) {
			continue
		}
		switch hash, ok := leader.Jobs[job.Name]; {
		case !ok && slices.ContainsFunc(e.roster.Live(), func(r jobs.Replica) bool { return r.Lends(job.Name) }):
			// The leader of a spread group plans it as that worker declares it.
		case !ok:
			missing = append(missing, job.Name)
		case hash != jobs.HashSchedule(job.Schedule.String()):
			others = append(others, job.Name)
		}
	}
	return missing, others
}

// jobs judges what the ledger says of the jobs.
func (e *groupExam) jobs(ctx context.Context, g jobs.Group) {
	list := addNotLed(listJobs(e.snapshot, e.target.declared()), e.roster)
	if e.target.file != nil && e.snapshot.Opened.Spread && len(e.roster.Live()) > 0 { // else: see replicas
		e.labels(e.target.file.Jobs)
	}
	e.overdue()
	e.neverDue(list)
	e.paused(ctx, g, list)
	e.failing(ctx, g, list)
	e.left()
	e.history(ctx, g)
	e.future()
}

// overdue judges ticks that are due and not claimed.
func (e *groupExam) overdue() {
	e.check = "overdue"
	o, unknown := findOverdue(e.snapshot, e.target, e.leadership)
	switch err := o.judge(e.snapshot, e.leadership); {
	case o != nil && !e.leadership.Held():
		e.sayf(store.Problem, "that of leader: then each job's misfire policy decides about its ticks", "ticks wait for a leader, of jobs: %d, since %s (%s)", o.Jobs, shown(&o.Tick), printable(o.Job))
	case err != nil:
		cure := "read the leader's log; worker resign lets another worker lead, which helps if the fault is of its machine"
		if len(e.unfit) > 0 {
			cure = "that of " + strings.Join(e.unfit, ", ")
		}
		e.say(store.Problem, err.Error(), cure)
	case o != nil:
		e.sayf(store.Good, "", "%d jobs have a tick that is due, the oldest for %.0f s", o.Jobs, o.LateSeconds)
	case unknown > 0:
		e.sayf(store.Unknown, "give --config instead of --database", "jobs with ticks that are due, if the leader has them: %d", unknown)
	default:
		e.say(store.Good, "every tick that is due is claimed", "")
	}
}

// neverDue finds schedules without a tick.
func (e *groupExam) neverDue(list []jobStatus) {
	e.check = "never due"
	declared := e.target.declared()
	var never []string
	for _, s := range list {
		schedule, ok := declared[s.Name]
		if !ok && (s.Removed || s.Gone != nil || declared != nil) {
			continue
		}
		if !ok {
			if schedule, ok = jobs.ParseSchedule(s.Schedule); !ok {
				continue
			}
		}
		if jobs.NeverDue(schedule, e.snapshot.Now) {
			never = append(never, s.Name)
		}
	}
	if len(never) > 0 {
		e.sayf(store.Warning, "correct the schedule (worker next shows its ticks), or write manual: true if it is meant", "jobs whose schedule has no further tick: %d: %s", len(never), bounded(never))
		return
	}
	e.say(store.Good, "every schedule has a next tick", "")
}

// paused finds pauses, which are easily forgotten.
func (e *groupExam) paused(ctx context.Context, g jobs.Group, list []jobStatus) {
	e.check = "paused"
	var names []string
	for _, s := range list {
		if s.Paused {
			names = append(names, s.Name)
		}
	}
	if e.snapshot.Paused {
		if by, err := g.PausedBy(ctx); err == nil && by.Via == jobs.ViaScheduler {
			e.sayf(store.Problem, "worker resume --skip-missed, or worker resume for the misfire policies (docs/operating.md, The database was restored)",
				"the group has paused itself: its ledger had gone back, as after a restore or a failover that lost commits; %s noticed at %s, and its log says what was missing", printable(by.Name), by.At.Format(time.RFC3339))
		} else {
			e.say(store.Warning, "the whole group is paused", "worker resume; worker audit says who paused it")
		}
	}
	if len(names) > 0 {
		e.sayf(store.Warning, "worker resume JOB", "jobs are paused: %d: %s", len(names), bounded(names))
	}
	if !e.snapshot.Paused && len(names) == 0 {
		e.say(store.Good, "nothing is paused", "")
	}
}

// failing finds jobs whose last run has failed.
func (e *groupExam) failing(ctx context.Context, g jobs.Group, list []jobStatus) {
	e.check = "failing"
	if err := addLast(ctx, g, e.snapshot, list); err != nil {
		e.say(store.Unknown, err.Error(), "")
		return
	}
	var names []string
	for _, s := range list {
		if s.fails() {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		e.sayf(store.Warning, "worker runs --job JOB says why", "jobs whose last run did not succeed: %d: %s", len(names), bounded(names))
		return
	}
	e.say(store.Good, "no job's last run has failed", "")
}

// waitsLong is how long a run that may start may wait before that is worth a word.
const waitsLong = 10 * time.Minute

// holdsUpLong is how long a run may keep its job's ticks from running before that is worth a word, as the alert
// CronleaseJobHeldUp has it.
const holdsUpLong = 5 * time.Minute

// left finds runs that nobody brings to their end.
func (e *groupExam) left() {
	e.check = "open runs"
	before := len(e.found)
	var old, waiting, hung, strays []string
	leader, told := e.roster.Find(e.roster.Leader)
	began, _ := overdue.TermBegan(e.snapshot, e.leadership)
	settled := e.leadership.Held() && e.snapshot.Now.Sub(began) > 2*e.leadership.TTL
	for _, r := range e.snapshot.Open {
		_, led := leader.Jobs[r.Job]
		waits := r.State == jobs.Waiting && !r.Due.IsZero() && e.snapshot.Now.Sub(r.Due) > waitsLong && !e.isPaused(r.Job)
		isOld := e.snapshot.IsOfEarlierTerm(r, e.leadership.Token) && settled
		switch {
		case told && !led && (isOld || waits):
			strays = append(strays, r.Job)
		case isOld:
			old = append(old, r.Job)
		case r.State == jobs.Running && e.holdsUp(r):
			hung = append(hung, r.Job)
		case waits:
			waiting = append(waiting, r.Job)
		}
	}
	slices.Sort(old)
	slices.Sort(waiting)
	slices.Sort(hung)
	slices.Sort(strays)
	if n := len(strays); n > 0 {
		e.sayf(store.Warning, "start workers that have the job: the run goes on, or is closed, once one of them leads; worker forget JOB deletes a job that no worker has, with its runs",
			"open runs of jobs that the leader does not have: %d: %s", n, bounded(slices.Compact(strays)))
	}
	if n := len(hung); n > 0 {
		e.sayf(store.Warning, "worker cancel JOB ends the run; give the job a timeout, or a schedule with more room", "jobs whose run goes on while their ticks are skipped, or wait: %d: %s", n, bounded(slices.Compact(hung)))
	}
	if n := len(old); n > 0 {
		e.sayf(store.Warning, "the leader's log says why it does not deal with them; worker cancel JOB --tick TICK closes a run", "runs of earlier terms that are still open: %d: %s", n, bounded(slices.Compact(old)))
	}
	if none := unassigned(e.snapshot, e.roster, e.target); len(none) > 0 {
		cure, why := "start a worker that has the job and all labels that it wants (on), or raise max_runs of those that have", "since none can have them now"
		if e.target.file == nil {
			cure, why = cure+"; where its pool or lock_at_least_for holds a job back, nothing is wrong", "or for their pool"
		}
		e.sayf(store.Warning, cure, "runs that wait for a worker, %s: %d: %s", why, len(none), bounded(none))
	}
	if n := len(waiting); n > 0 {
		e.sayf(store.Warning, "raise max_runs or the job's own limit, or give the leader a larger machine; worker runs --job JOB shows them", "runs that wait for more than %v: %d: %s", waitsLong, n, bounded(slices.Compact(waiting)))
	}
	if before == len(e.found) {
		e.sayf(store.Good, "", "%d runs go on or wait", len(e.snapshot.Open))
	}
}

// unpruned is how much older than history.for a run may be: leaders prune once a day.
const unpruned = 48 * time.Hour

// history finds jobs whose history is not pruned, by the file's bounds.
func (e *groupExam) history(ctx context.Context, g jobs.Group) {
	e.check = "history"
	if e.target.file == nil {
		return
	}
	of := map[time.Duration][]string{} // jobs by how long their runs are kept
	for _, job := range e.target.file.Jobs {
		h := job.Complete().History
		cutoff := e.snapshot.Now.Add(-h.For - unpruned)
		// The newest tick is kept, however old it is.
		if h.For > 0 && e.snapshot.Jobs[job.Name].Cursor.After(cutoff) {
			of[h.For] = append(of[h.For], job.Name)
		}
	}
	var names []string
	for kept, list := range of {
		for some := range slices.Chunk(list, jobs.MaxOf) {
			old, err := g.Newest(ctx, jobs.Newest{Jobs: some, Until: e.snapshot.Now.Add(-kept - unpruned), Over: true})
			if err != nil {
				e.say(store.Unknown, err.Error(), "")
				return
			}
			for name, runs := range old {
				// A backfill has old ticks, and its runs are kept from their end.
				if runs[0].Finished.Before(e.snapshot.Now.Add(-kept - unpruned)) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		e.sayf(store.Warning, "if the file's history.for was made shorter, wait a day; otherwise give the workers' account DELETE on the table of runs, and see in the leader's log what else keeps it from pruning",
			"jobs with runs that are days older than history.for of the file allows: %d: %s", len(names), bounded(names))
		return
	}
	e.say(store.Good, "nothing is older than history.for says", "")
}

// holdsUp reports whether a run has kept its job's ticks from running for long: ticks that came later were claimed, and no
// run has started since this one, although the newest does not wait for its time. A run of a backfill keeps no tick from running.
func (e *groupExam) holdsUp(r jobs.Record) bool {
	known := e.snapshot.Jobs[r.Job]
	isLong := !r.Started.IsZero() && e.snapshot.Now.Sub(r.Started) > holdsUpLong
	isLast := known.Cursor.After(r.Tick) && !known.Started.After(r.Started)
	if !isLong || !isLast || triggers.IsBackfill(r.Trigger) || e.isPaused(r.Job) {
		return false
	}
	return !slices.ContainsFunc(e.snapshot.Open, func(o jobs.Record) bool {
		return o.Job == r.Job && o.Trigger == 0 && o.Tick.Equal(known.Cursor) && o.State == jobs.Waiting && o.Due.After(e.snapshot.Now)
	})
}

func (e *groupExam) isPaused(job string) bool {
	return e.snapshot.Paused || e.snapshot.Jobs[job].Paused
}

// future finds claims that a wrong clock has left.
func (e *groupExam) future() {
	e.check = "future"
	most, least := scheduler.DefaultMaxSkew, 10*time.Second
	if file := e.target.file; file != nil {
		if file.MaxSkew > 0 {
			most = file.MaxSkew
		}
		if file.Clock == scheduler.WorkerClock { // the leader's clock may be ahead of the database's
			least = most
		}
	}
	var far, near []string
	var until time.Time
	for name, known := range e.snapshot.Jobs {
		switch ahead := known.Cursor.Sub(e.snapshot.Now); {
		case ahead > most:
			far = append(far, name)
		case ahead > least:
			near = append(near, name)
			if known.Cursor.After(until) {
				until = known.Cursor
			}
		}
	}
	slices.Sort(far)
	slices.Sort(near)
	if len(far) > 0 {
		e.sayf(store.Warning, "correct the clock if it is still wrong; the next leader moves these ticks out of the schedule", "jobs with claims in the future, left by a wrong clock: %d: %s", len(far), bounded(far))
	}
	if len(near) > 0 {
		e.sayf(store.Warning, "wait: these ticks have run, and the schedules go on behind them", "jobs whose ticks up to %s have run under a clock that was ahead, and that start none before: %d: %s",
			shown(&stamp{Time: until}), len(near), bounded(near))
	}
	if len(far)+len(near) == 0 {
		e.say(store.Good, "no claim lies in the future", "")
	}
}
