package metrics

import (
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

const namespace = "cronlease"

// Upper bounds of the buckets, in seconds.
var (
	lateBuckets      = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 1800}
	runBuckets       = []float64{.01, .1, .5, 1, 5, 15, 60, 300, 1800, 7200}
	statementBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	lockBuckets      = []float64{.001, .01, .05, .1, .5, 1, 5, 15, 60, 300}
)

// vectors are the metrics that count.
type vectors struct {
	terms, termsEnded *prometheus.CounterVec

	heartbeatErrors             *prometheus.CounterVec
	heartbeatLate, heartbeatLen *prometheus.HistogramVec

	runs, retries, interruptions, missed, skips, leftOut *prometheus.CounterVec
	lateness, durations                                  *prometheus.HistogramVec
	succeeded                                            *prometheus.GaugeVec

	control *prometheus.CounterVec

	statements                     *prometheus.HistogramVec
	statementErrors, statementRows *prometheus.CounterVec

	lockWait, lockHold *prometheus.HistogramVec
	locksLost          *prometheus.CounterVec

	dropped *prometheus.CounterVec
}

func newVectors() vectors {
	return vectors{
		terms:      counter("terms_total", "Terms that this replica has begun; early: before the TTL of the term before was over, because its leader's connection was gone.", "group", "early"),
		termsEnded: counter("terms_ended_total", "Terms of this replica that are over, by cause: stopped, resigned, lost, stuck, skew or other.", "group", "cause"),

		heartbeatErrors: counter("heartbeat_errors_total", "Heartbeats that the database did not answer.", "group"),
		heartbeatLate:   histogram("heartbeat_lateness_seconds", "How long after its time a heartbeat was sent.", statementBuckets, "group"),
		heartbeatLen:    histogram("heartbeat_duration_seconds", "How long the answer to a heartbeat took.", statementBuckets, "group"),

		runs:          counter("runs_total", "Runs that are over, by outcome: succeeded, failed, timed_out, panicked, cancelled, interrupted or skipped.", "group", "job_name", "state"),
		retries:       counter("run_retries_total", "Attempts after which another one follows.", "group", "job_name"),
		interruptions: counter("runs_interrupted_total", "Attempts that were found unfinished after their term, or cut short in a term that goes on, whether or not another one follows.", "group", "job_name"),
		missed:        counter("ticks_missed_total", "Ticks that were due when no replica could run them, whether skipped or made up for by a later run.", "group", "job_name"),
		skips:         counter("ticks_skipped_total", "Ticks that are not run, for any reason.", "group", "job_name"),
		leftOut:       counter("notices_left_out_total", "News that a notifier was not told, because of its limit. Repeats do not count.", "group", "job_name"),
		lateness:      histogram("tick_lateness_seconds", "How long after its tick a run was started, jitter included; first attempts only.", lateBuckets, "group"),
		durations:     histogram("run_duration_seconds", "How long an attempt ran.", runBuckets, "group", "job_name"),
		succeeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "job_last_success_timestamp_seconds",
			Help: "When the job last succeeded in this replica."}, []string{"group", "job_name"}),

		control: counter("control_requests_total", "What was asked of this replica as the leader: pause, resume, trigger, cancel, resign; pause_after: a job was paused because it failed too often.", "group", "action"),

		statements:      histogram("statement_duration_seconds", "How long a call of the database took.", statementBuckets, "group", "statement"),
		statementErrors: counter("statement_errors_total", "Calls of the database that failed.", "group", "statement"),
		statementRows:   counter("statement_rows_total", "Rows that calls of the database were to write.", "group", "statement"),

		lockWait:  histogram("lock_wait_seconds", "How long a caller waited for a lock that was granted.", lockBuckets, "group"),
		lockHold:  histogram("lock_hold_seconds", "How long a lock was held.", lockBuckets, "group"),
		locksLost: counter("locks_lost_total", "Locks that were lost with the session of this process.", "group"),

		dropped: counter("events_dropped_total", "Events that these metrics do not know of, because they were observed too slowly.", "group"),
	}
}

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{
		v.terms, v.termsEnded, v.heartbeatErrors, v.heartbeatLate, v.heartbeatLen, v.runs, v.retries, v.interruptions, v.missed, v.skips, v.leftOut,
		v.lateness, v.durations, v.succeeded, v.control, v.statements, v.statementErrors, v.statementRows, v.lockWait, v.lockHold,
		v.locksLost, v.dropped,
	}
}

// zero makes the series of a group that alerts look at: the first increase of a counter
// shows only if it was there before.
func (v *vectors) zero(group string) {
	for _, early := range []string{"true", "false"} {
		v.terms.WithLabelValues(group, early)
	}
	for _, cause := range causes {
		v.termsEnded.WithLabelValues(group, cause)
	}
	for _, action := range []event.Action{event.Paused, event.Resumed, event.Triggered, event.CancelAsked, event.ResignAsked, event.PausedByRuns} {
		v.control.WithLabelValues(group, string(action))
	}
	v.heartbeatErrors.WithLabelValues(group)
	v.heartbeatLate.WithLabelValues(group)
	v.lateness.WithLabelValues(group)
	v.dropped.WithLabelValues(group)
}

func (v *vectors) heartbeat(group string, e event.Heartbeat) {
	v.heartbeatLate.WithLabelValues(group).Observe(e.Late.Seconds())
	v.heartbeatLen.WithLabelValues(group).Observe(e.Took.Seconds())
	errs := v.heartbeatErrors.WithLabelValues(group)
	if e.Err != nil {
		errs.Inc()
	}
}

func (v *vectors) statement(group string, e event.Statement) {
	name := valid(e.Name)
	v.statements.WithLabelValues(group, name).Observe(e.Took.Seconds())
	errs := v.statementErrors.WithLabelValues(group, name)
	if e.Err != nil {
		errs.Inc()
	}
	if e.Rows > 0 {
		v.statementRows.WithLabelValues(group, name).Add(float64(e.Rows))
	}
}

func (m *Metrics) skipped(group string, e event.TicksSkipped) {
	name := m.names.label(group, e.Job)
	m.skips.WithLabelValues(group, name).Add(float64(e.Ticks))
	missed := m.missed.WithLabelValues(group, name)
	if e.Missed {
		missed.Add(float64(e.Ticks))
	}
}

// causes are why terms end, as labels have it.
var causes = []string{"stopped", "resigned", "lost", "stuck", "skew", "other"}

func causeOf(e event.TermEnded) string {
	switch {
	case errors.Is(e.Cause, scheduler.ErrSkew):
		return "skew"
	case errors.Is(e.Cause, election.ErrStuck):
		return "stuck"
	case errors.Is(e.Cause, election.ErrStopped):
		return "stopped"
	case errors.Is(e.Cause, election.ErrResigned):
		return "resigned"
	case e.Lost, errors.Is(e.Cause, election.ErrLost):
		return "lost"
	}
	return "other"
}

// stateOf is a state as labels have it.
func stateOf(s jobs.State) string { return strings.ReplaceAll(s.String(), " ", "_") }

// descriptions are the metrics that are read when they are asked for.
var descriptions []*prometheus.Desc

func gauge(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}
