package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// What a group has: the values of now, which are not counted.
var (
	leads     = gauge("leader", "1 while this replica leads, also while it drains.", "group")
	drains    = gauge("draining", "1 while this replica gives its term up and has not finished.", "group")
	token     = gauge("token", "Token of the newest term that this replica knows of. It changes with each term.", "group")
	termBegan = gauge("term_start_timestamp_seconds", "When this replica's term began; absent while it does not lead.", "group")
	clocksAre = gauge("clocks", "1 for the state in which the clocks of the database and this machine are.", "group", "state")
	trouble   = gauge("database_trouble", "1 for the kind of trouble that this replica has with the database now.", "group", "kind")
	running   = gauge("runs_running", "Runs that go on in this replica.", "group")
	waiting   = gauge("runs_waiting", "Runs that this replica, which leads, has in hand and that wait: for their time, an earlier run, a retry or a slot.", "group")
	assigned  = gauge("runs_assigned", "Runs that replicas have, of a group whose runs are spread; 0 on followers.", "group")
	unplaced  = gauge("jobs_without_replica", "Jobs whose runs wait since no replica can have them, of a group whose runs are spread; 0 on followers.", "group")
	failing   = gauge("jobs_failing", "Jobs whose last run in this replica's term has failed, timed out or panicked; of a group whose runs are spread, on any replica.", "group")
	inARow    = gauge("job_failures_in_a_row", "Runs of the job that failed, timed out or panicked in a row in this replica's term, with no attempt left; 1 for any number where runs are spread. "+
		"For \"(other)\": the most of any of these jobs.", "group", "job_name")
	heldUp = gauge("job_held_up_timestamp_seconds", "Since when ticks of the job have been skipped, or have waited, because a run of it goes on; absent while there are none. "+
		"For \"(other)\": the earliest of any of these jobs.", "group", "job_name")
)

// kinds are the names of the faults in labels.
var kinds = map[event.Fault]string{
	event.Away: "away", event.Refused: "refused", event.NotReady: "not_ready", event.Unfit: "unfit",
}

// group is what is known of a group, in this process.
type group struct {
	label  string
	health func() scheduler.Health

	elected bool // it has an election
	drains  bool
	token   uint64 // the newest
	term    uint64 // this replica's, or zero
	began   time.Time
	clocks  event.Agreement
	fault   event.Fault

	// open are the runs in hand, by the term's token. failures are how many runs in a row failed, for the jobs
	// of the term and for those that run everywhere, which know no terms.
	open       map[run]hand
	failures   map[string]int
	everywhere map[string]int
	away       map[run]bool    // runs that the leader knows replicas to have, where runs are spread
	unplaced   map[string]bool // jobs that no replica can have
	locks      map[lock]int    // that are held; nil before the first
	// blocked is since when a run of a job has held up its ticks. A run of the job that starts or ends shows that
	// it goes on.
	blocked map[string]time.Time
}

// run names a run. It can be compared, as a jobs.Key with its time cannot.
type run struct {
	job        string
	tick       int64
	trigger    uint64
	everywhere bool
}

func runOf(k jobs.Key, everywhere bool) run {
	return run{k.Job, k.Tick.UnixMicro(), k.Trigger, everywhere}
}

// hand is how a run is in hand.
type hand struct {
	token    uint64
	running  bool // else it waits
	assigned bool // the replica runs it under its session
}

func newGroup(label string) *group {
	return &group{label: label, open: map[run]hand{}, failures: map[string]int{}, everywhere: map[string]int{}, away: map[run]bool{}, unplaced: map[string]bool{}, blocked: map[string]time.Time{}}
}

func (g *group) following(e event.Following) {
	g.elected, g.drains = true, false
	if e.LeaderToken != 0 {
		g.token = e.LeaderToken
	}
}

func (g *group) leading(m *Metrics, e event.Leading) {
	g.elected, g.drains = true, false
	g.token, g.term, g.began = e.Token, e.Token, e.At
	// The first runs of this term may have come before it.
	g.forget(func(r run, p hand) bool { return !r.everywhere && !p.assigned && p.token != e.Token })
	clear(g.failures)
	m.terms.WithLabelValues(g.label, yesNo(e.Early)).Inc()
}

// ended takes in the end of a term. What runs goes on until it says that it has finished.
func (g *group) ended(m *Metrics, e event.TermEnded) {
	g.term = 0
	g.forget(func(r run, p hand) bool { return !r.everywhere && !p.running })
	clear(g.failures)
	clear(g.blocked)
	clear(g.away)
	clear(g.unplaced)
	m.termsEnded.WithLabelValues(g.label, causeOf(e)).Inc()
}

func (g *group) claimed(m *Metrics, e event.RunClaimed) {
	if e.Waiting {
		g.open[runOf(e.Key, false)] = hand{token: e.Token}
		if e.Trigger == 0 && e.PutOff == 0 {
			g.holdUp(e.Job, e.At)
		}
	}
	if e.Missed > 0 {
		m.missed.WithLabelValues(g.label, m.names.label(g.label, e.Job)).Add(float64(e.Missed))
	}
}

func (g *group) started(m *Metrics, e event.RunStarted) {
	g.open[runOf(e.Key, e.Everywhere)] = hand{e.Token, true, e.Assigned}
	delete(g.blocked, e.Job)
	if e.First && !e.Everywhere {
		m.lateness.WithLabelValues(g.label).Observe(e.Late.Seconds())
	}
}

func (g *group) finished(m *Metrics, e event.RunFinished) {
	r, name := runOf(e.Key, e.Everywhere), m.names.label(g.label, e.Job)
	if e.Attempt > 0 {
		m.durations.WithLabelValues(g.label, name).Observe(e.Took.Seconds())
	}
	delete(g.open, r)
	delete(g.blocked, e.Job)
	if e.State == jobs.Interrupted {
		m.interruptions.WithLabelValues(g.label, name).Inc()
	}
	if e.WillRetry {
		m.retries.WithLabelValues(g.label, name).Inc()
		if e.Everywhere || e.Token == g.term && g.term != 0 {
			g.open[r] = hand{token: e.Token}
		}
		return
	}
	m.runs.WithLabelValues(g.label, name, stateOf(e.State)).Inc()
	failures := g.failures
	if e.Everywhere {
		failures = g.everywhere
	}
	switch e.State {
	case jobs.Succeeded:
		m.succeeded.WithLabelValues(g.label, name).Set(seconds(e.At))
		if e.Assigned { // see jobFails
			return
		}
		delete(failures, e.Job)
		if name != other {
			failures[e.Job] = 0
		}
	case jobs.Failed, jobs.TimedOut, jobs.Panicked:
		if e.Everywhere || e.Token == g.term {
			failures[e.Job]++
		}
	}
}

// jobFails takes in what the leader of a group says whose runs are spread.
func (g *group) jobFails(m *Metrics, e event.JobFails) {
	switch {
	case e.Token != g.term:
	case e.Fails:
		g.failures[e.Job] = 1
	case m.names.label(g.label, e.Job) == other:
		delete(g.failures, e.Job)
	default:
		g.failures[e.Job] = 0
	}
}

func (g *group) removed(e event.JobRemoved) {
	switch {
	case e.Everywhere:
		delete(g.everywhere, e.Job)
	case e.Token == g.term:
		delete(g.failures, e.Job)
		delete(g.blocked, e.Job)
	}
}

func (g *group) assigned(e event.RunAssigned) {
	r := runOf(e.Key, false)
	switch {
	case e.Over:
		delete(g.away, r)
		delete(g.blocked, e.Job)
	case e.Token == g.term:
		g.away[r] = true
		delete(g.blocked, e.Job)
	}
}

func (g *group) noReplica(e event.NoReplica) {
	if delete(g.unplaced, e.Job); !e.Over && e.Token == g.term {
		g.unplaced[e.Job] = true
	}
}

func (g *group) dropped(m *Metrics, e event.RunDropped) {
	if r := runOf(e.Key, false); !g.open[r].assigned { // else it is that of the session, which has begun already
		delete(g.open, r)
	}
	if e.State.Over() {
		m.runs.WithLabelValues(g.label, m.names.label(g.label, e.Job), stateOf(e.State)).Inc()
	}
}

func (g *group) interrupted(m *Metrics, e event.RunInterrupted) {
	name := m.names.label(g.label, e.Job)
	m.interruptions.WithLabelValues(g.label, name).Inc()
	if e.Again {
		g.open[runOf(e.Key, false)] = hand{token: e.Token}
		return
	}
	m.runs.WithLabelValues(g.label, name, stateOf(jobs.Interrupted)).Inc()
}

// holdUp takes in that a tick of the job is skipped, or waits: if a run of the job goes on, that holds it up.
func (g *group) holdUp(job string, at time.Time) {
	if _, ok := g.blocked[job]; ok {
		return
	}
	for r := range g.away {
		if r.job == job {
			g.blocked[job] = at
			return
		}
	}
	for r, h := range g.open {
		if r.job == job && h.running && !r.everywhere && !h.assigned {
			g.blocked[job] = at
			return
		}
	}
}

// forget drops runs that are in hand no more.
func (g *group) forget(is func(run, hand) bool) {
	for r, p := range g.open {
		if is(r, p) {
			delete(g.open, r)
		}
	}
}

// collect sends the values of now, with m.mu held.
func (g *group) collect(m *Metrics, out chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{g.label}, labels...)...)
	}
	for fault, kind := range kinds {
		set(trouble, number(g.fault == fault), kind)
	}
	if g.locks != nil {
		set(locksHeld, float64(g.held()))
	}
	if !g.elected {
		return
	}
	set(leads, number(g.term != 0))
	set(drains, number(g.drains))
	set(token, float64(g.token))
	if g.term != 0 {
		set(termBegan, seconds(g.began))
	}
	for _, state := range []event.Agreement{event.Agree, event.Differ, event.Disagree} {
		set(clocksAre, number(g.clocks == state), string(state))
	}
	runs := 0
	for _, h := range g.open {
		if h.running {
			runs++
		}
	}
	set(running, float64(runs))
	set(waiting, float64(len(g.open)-runs))
	set(assigned, float64(len(g.away)))
	set(unplaced, float64(len(g.unplaced)))
	bad, most := 0, map[string]int{}
	for _, failures := range []map[string]int{g.failures, g.everywhere} {
		for job, n := range failures {
			if n > 0 {
				bad++
			}
			name := m.names.label(g.label, job)
			most[name] = max(most[name], n)
		}
	}
	set(failing, float64(bad))
	for name, n := range most {
		set(inARow, float64(n), name)
	}
	since := map[string]time.Time{}
	for job, at := range g.blocked {
		if name := m.names.label(g.label, job); since[name].IsZero() || at.Before(since[name]) {
			since[name] = at
		}
	}
	for name, at := range since {
		set(heldUp, seconds(at), name)
	}
}

// seconds is an instant in the unit of Prometheus.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// yesNo is a label's value.
func yesNo(is bool) string {
	if is {
		return "true"
	}
	return "false"
}
