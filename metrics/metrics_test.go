package metrics_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/metrics"
	"github.com/cronlease/cronlease/scheduler"
)

var began = time.Unix(1_800_000_000, 0).UTC()

// head is the head of an event in the term of that token.
func head(token uint64) event.Header {
	return event.Header{At: began, Group: "billing", Owner: "worker/a/1/x", Token: token}
}

func key(job string, second int) jobs.Key {
	return jobs.Key{Job: job, Tick: began.Add(time.Duration(second) * time.Second)}
}

// run are the events of a run.
func run(token uint64, k jobs.Key, state jobs.State) []event.Event {
	return []event.Event{
		event.RunClaimed{Header: head(token), Key: k},
		event.RunStarted{Header: head(token), Key: k, Attempt: 1, First: true, Late: 20 * time.Millisecond},
		event.RunFinished{Header: head(token), Key: k, Attempt: 1, State: state, Took: 2 * time.Second},
	}
}

func observe(m *metrics.Metrics, all ...[]event.Event) {
	for _, events := range all {
		for _, e := range events {
			m.Observe(e)
		}
	}
}

// expect compares the metrics of these names.
func expect(t *testing.T, m *metrics.Metrics, want string, names ...string) {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(want) {
		text.WriteString(strings.TrimLeft(line, "\t"))
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	if err := testutil.GatherAndCompare(withoutHelp{registry}, strings.NewReader(text.String()), names...); err != nil {
		t.Error(err)
	}
}

func TestTerms(t *testing.T) {
	m := metrics.New(metrics.WithVersion("v1"))
	m.Observe(event.Following{Header: head(0), Leader: "worker/b/2/y", LeaderToken: 5})
	expect(t, m, `
		# TYPE cronlease_build_info gauge
		cronlease_build_info{version="v1"} 1
		# TYPE cronlease_leader gauge
		cronlease_leader{group="billing"} 0
		# TYPE cronlease_token gauge
		cronlease_token{group="billing"} 5
	`, "cronlease_build_info", "cronlease_leader", "cronlease_token", "cronlease_term_start_timestamp_seconds")

	m.Observe(event.Following{Header: head(0)})
	m.Observe(event.Leading{Header: head(7), Early: true, Before: 5})
	m.Observe(event.Draining{Header: head(7)})
	expect(t, m, `
		# TYPE cronlease_draining gauge
		cronlease_draining{group="billing"} 1
		# TYPE cronlease_leader gauge
		cronlease_leader{group="billing"} 1
		# TYPE cronlease_term_start_timestamp_seconds gauge
		cronlease_term_start_timestamp_seconds{group="billing"} 1.8e+09
		# TYPE cronlease_terms_total counter
		cronlease_terms_total{early="true",group="billing"} 1
		# TYPE cronlease_token gauge
		cronlease_token{group="billing"} 7
	`, "cronlease_draining", "cronlease_leader", "cronlease_term_start_timestamp_seconds", "cronlease_terms_total", "cronlease_token")

	for _, e := range []event.TermEnded{
		{Cause: election.ErrStopped}, {Cause: fmt.Errorf("x: %w", election.ErrResigned)}, {Cause: election.ErrLost, Lost: true},
		{Cause: election.ErrStuck, Lost: true}, {Cause: scheduler.ErrSkew}, {Cause: errors.New("a driver's"), Lost: true}, {},
	} {
		e.Header = head(7)
		m.Observe(e)
	}
	expect(t, m, `
		# TYPE cronlease_draining gauge
		cronlease_draining{group="billing"} 1
		# TYPE cronlease_leader gauge
		cronlease_leader{group="billing"} 0
		# TYPE cronlease_terms_ended_total counter
		cronlease_terms_ended_total{cause="lost",group="billing"} 2
		cronlease_terms_ended_total{cause="other",group="billing"} 1
		cronlease_terms_ended_total{cause="resigned",group="billing"} 1
		cronlease_terms_ended_total{cause="skew",group="billing"} 1
		cronlease_terms_ended_total{cause="stopped",group="billing"} 1
		cronlease_terms_ended_total{cause="stuck",group="billing"} 1
	`, "cronlease_draining", "cronlease_leader", "cronlease_terms_ended_total", "cronlease_term_start_timestamp_seconds")
}

func TestRuns(t *testing.T) {
	m := metrics.New()
	m.Observe(event.Leading{Header: head(7)})
	observe(m, run(7, key("report", 0), jobs.Succeeded), run(7, key("mail", 0), jobs.TimedOut), run(7, key("mail", 1), jobs.Panicked))
	retried := key("report", 1)
	observe(m, []event.Event{
		event.RunStarted{Header: head(7), Key: retried, Attempt: 1, First: true, Late: 2 * time.Second},
		event.RunFinished{Header: head(7), Key: retried, Attempt: 1, State: jobs.Failed, Took: time.Millisecond, WillRetry: true},
		event.RunStarted{Header: head(7), Key: key("report", 2), Attempt: 1, First: true},
		event.RunClaimed{Header: head(7), Key: key("report", 3), Waiting: true, Missed: 4},
		event.RunClaimed{Header: head(7), Key: key("report", 4), Waiting: true},
		event.RunDropped{Header: head(7), Key: key("report", 4), State: jobs.Cancelled},
		event.RunInterrupted{Header: head(7), Key: key("report", -1), Attempt: 1, Again: true},
		event.RunInterrupted{Header: head(7), Key: key("mail", -1), Attempt: 1},
		event.TicksSkipped{Header: head(7), Job: "mail", Ticks: 3, Missed: true},
		event.TicksSkipped{Header: head(7), Job: "mail", Ticks: 2},
		event.NoticeLeftOut{Header: head(7), Notifier: "report", Key: key("mail", 1)},
		event.NoticeLeftOut{Header: head(7), Notifier: "report", Key: key("mail", 1), Again: true},
	})
	want := `
		# TYPE cronlease_job_failures_in_a_row gauge
		cronlease_job_failures_in_a_row{group="billing",job_name="mail"} 2
		cronlease_job_failures_in_a_row{group="billing",job_name="report"} 0
		# TYPE cronlease_job_last_success_timestamp_seconds gauge
		cronlease_job_last_success_timestamp_seconds{group="billing",job_name="report"} 1.8e+09
		# TYPE cronlease_jobs_failing gauge
		cronlease_jobs_failing{group="billing"} 1
		# TYPE cronlease_notices_left_out_total counter
		cronlease_notices_left_out_total{group="billing",job_name="report"} 1
		# TYPE cronlease_run_retries_total counter
		cronlease_run_retries_total{group="billing",job_name="report"} 1
		# TYPE cronlease_runs_interrupted_total counter
		cronlease_runs_interrupted_total{group="billing",job_name="mail"} 1
		cronlease_runs_interrupted_total{group="billing",job_name="report"} 1
		# TYPE cronlease_runs_running gauge
		cronlease_runs_running{group="billing"} 1
		# TYPE cronlease_runs_total counter
		cronlease_runs_total{group="billing",job_name="mail",state="interrupted"} 1
		cronlease_runs_total{group="billing",job_name="mail",state="panicked"} 1
		cronlease_runs_total{group="billing",job_name="mail",state="timed_out"} 1
		cronlease_runs_total{group="billing",job_name="report",state="cancelled"} 1
		cronlease_runs_total{group="billing",job_name="report",state="succeeded"} 1
		# TYPE cronlease_runs_waiting gauge
		cronlease_runs_waiting{group="billing"} 3
		# TYPE cronlease_tick_lateness_seconds histogram
		cronlease_tick_lateness_seconds_bucket{group="billing",le="0.01"} 1
		cronlease_tick_lateness_seconds_bucket{group="billing",le="0.05"} 4
		cronlease_tick_lateness_seconds_bucket{group="billing",le="0.1"} 4
		cronlease_tick_lateness_seconds_bucket{group="billing",le="0.5"} 4
		cronlease_tick_lateness_seconds_bucket{group="billing",le="1"} 4
		cronlease_tick_lateness_seconds_bucket{group="billing",le="5"} 5
		cronlease_tick_lateness_seconds_bucket{group="billing",le="15"} 5
		cronlease_tick_lateness_seconds_bucket{group="billing",le="60"} 5
		cronlease_tick_lateness_seconds_bucket{group="billing",le="300"} 5
		cronlease_tick_lateness_seconds_bucket{group="billing",le="1800"} 5
		cronlease_tick_lateness_seconds_bucket{group="billing",le="+Inf"} 5
		cronlease_tick_lateness_seconds_sum{group="billing"} 2.06
		cronlease_tick_lateness_seconds_count{group="billing"} 5
		# TYPE cronlease_ticks_missed_total counter
		cronlease_ticks_missed_total{group="billing",job_name="mail"} 3
		cronlease_ticks_missed_total{group="billing",job_name="report"} 4
		# TYPE cronlease_ticks_skipped_total counter
		cronlease_ticks_skipped_total{group="billing",job_name="mail"} 5
	`
	names := regexp.MustCompile(`# TYPE (\S+)`).FindAllStringSubmatch(want, -1)
	var all []string
	for _, n := range names {
		all = append(all, n[1])
	}
	expect(t, m, want, all...)

	// The term ends: what waits is the next leader's, and so is what fails. What runs goes on.
	m.Observe(event.TermEnded{Header: head(7), Cause: election.ErrLost, Lost: true})
	const hand = `
		# TYPE cronlease_jobs_failing gauge
		cronlease_jobs_failing{group="billing"} 0
		# TYPE cronlease_runs_running gauge
		cronlease_runs_running{group="billing"} %d
		# TYPE cronlease_runs_waiting gauge
		cronlease_runs_waiting{group="billing"} 0
	`
	some := []string{"cronlease_job_failures_in_a_row", "cronlease_jobs_failing", "cronlease_runs_running", "cronlease_runs_waiting"}
	expect(t, m, fmt.Sprintf(hand, 1), some...)
	m.Observe(event.RunFinished{Header: head(7), Key: key("report", 2), Attempt: 1, State: jobs.Cancelled, WillRetry: true})
	expect(t, m, fmt.Sprintf(hand, 0), some...)
	m.Observe(event.RunStarted{Header: head(7), Key: key("report", 2), Attempt: 1, First: true}) // its end is never heard of
	m.Observe(event.Leading{Header: head(9)})
	expect(t, m, fmt.Sprintf(hand, 0), some...)
}

// A success ends a job's failures, and so does the term, but not for jobs that run
// everywhere.
func TestFailuresInARow(t *testing.T) {
	m := metrics.New(metrics.WithJobs(2))
	m.Observe(event.Leading{Header: head(7)})
	everywhere := event.RunFinished{Header: head(0), Key: key("cache", 0), Everywhere: true, Attempt: 1, State: jobs.Failed}
	observe(m, run(7, key("mail", 0), jobs.Failed), run(7, key("mail", 1), jobs.Failed), []event.Event{everywhere},
		run(7, key("third", 0), jobs.Failed), run(7, key("fourth", 0), jobs.Failed), run(7, key("fourth", 1), jobs.Failed))
	const metric = "cronlease_job_failures_in_a_row"
	expect(t, m, `
		# TYPE cronlease_job_failures_in_a_row gauge
		cronlease_job_failures_in_a_row{group="billing",job_name="(other)"} 2
		cronlease_job_failures_in_a_row{group="billing",job_name="cache"} 1
		cronlease_job_failures_in_a_row{group="billing",job_name="mail"} 2
	`, metric)
	observe(m, run(7, key("mail", 2), jobs.Succeeded), run(7, key("fourth", 2), jobs.Succeeded))
	expect(t, m, `
		# TYPE cronlease_job_failures_in_a_row gauge
		cronlease_job_failures_in_a_row{group="billing",job_name="(other)"} 1
		cronlease_job_failures_in_a_row{group="billing",job_name="cache"} 1
		cronlease_job_failures_in_a_row{group="billing",job_name="mail"} 0
	`, metric)
	m.Observe(event.JobRemoved{Header: head(7), Job: "mail"})
	expect(t, m, `
		# TYPE cronlease_job_failures_in_a_row gauge
		cronlease_job_failures_in_a_row{group="billing",job_name="(other)"} 1
		cronlease_job_failures_in_a_row{group="billing",job_name="cache"} 1
	`, metric)
	m.Observe(event.TermEnded{Header: head(7), Cause: election.ErrStopped})
	expect(t, m, `
		# TYPE cronlease_job_failures_in_a_row gauge
		cronlease_job_failures_in_a_row{group="billing",job_name="cache"} 1
	`, metric)
	m.Observe(event.JobRemoved{Header: head(0), Job: "cache", Everywhere: true})
	expect(t, m, "", metric)
}

// A run holds up the ticks of its job from the first one that is skipped, or has to wait, until a run of the job ends or
// starts. One that is skipped because the job is paused, or was missed, is not held up.
func TestHeldUp(t *testing.T) {
	m := metrics.New()
	const metric = "cronlease_job_held_up_timestamp_seconds"
	at := func(s int) event.Header {
		h := head(7)
		h.At = h.At.Add(time.Duration(s) * time.Second)
		return h
	}
	since := func(s int) string {
		return fmt.Sprintf("\n\t\t# TYPE %s gauge\n\t\t%s{group=\"billing\",job_name=\"mail\"} %d\n\t", metric, metric, began.Unix()+int64(s))
	}
	start := func(s, tick int) {
		m.Observe(event.RunStarted{Header: at(s), Key: key("mail", tick), Attempt: 1, First: true})
	}
	skip := func(s int, why string, missed bool) {
		m.Observe(event.TicksSkipped{Header: at(s), Job: "mail", Ticks: 1, Why: why, Missed: missed})
	}
	m.Observe(event.Leading{Header: at(0)})
	skip(1, "too late to start", false) // while no run goes on
	start(2, 0)
	skip(3, "missed", true)
	skip(4, event.WhyPaused, false)
	m.Observe(event.TicksSkipped{Header: at(4), Job: "other", Ticks: 1, Why: "an earlier run has not finished"})
	expect(t, m, "", metric)
	skip(5, "an earlier run has not finished", false)
	skip(6, "an earlier run has not finished", false)
	expect(t, m, since(5), metric)
	m.Observe(event.RunFinished{Header: at(7), Key: key("mail", 0), Attempt: 1, State: jobs.Cancelled})
	expect(t, m, "", metric)

	start(8, 1)
	m.Observe(event.RunClaimed{Header: at(9), Key: key("mail", 3), Waiting: true, PutOff: time.Minute})
	expect(t, m, "", metric) // it waits for its planned start
	m.Observe(event.RunClaimed{Header: at(9), Key: key("mail", 2), Waiting: true})
	expect(t, m, since(9), metric)
	start(10, 2)
	expect(t, m, "", metric)
	skip(11, "as many runs as allowed have not finished", false)
	expect(t, m, since(11), metric)
	m.Observe(event.TermEnded{Header: at(12), Cause: election.ErrStopped})
	expect(t, m, "", metric)
}

// Where runs are spread, the leader knows which replica has which run, and from the ledger which jobs fail.
func TestSpread(t *testing.T) {
	m := metrics.New()
	const session = 3
	values := func(running, away, none, failing int, more string) {
		t.Helper()
		expect(t, m, fmt.Sprintf(`
			# TYPE cronlease_runs_running gauge
			cronlease_runs_running{group="billing"} %d
			# TYPE cronlease_runs_assigned gauge
			cronlease_runs_assigned{group="billing"} %d
			# TYPE cronlease_jobs_without_replica gauge
			cronlease_jobs_without_replica{group="billing"} %d
			# TYPE cronlease_jobs_failing gauge
			cronlease_jobs_failing{group="billing"} %d
		`, running, away, none, failing)+more, "cronlease_runs_running", "cronlease_runs_assigned", "cronlease_jobs_without_replica",
			"cronlease_jobs_failing", "cronlease_job_failures_in_a_row")
	}
	inARow := func(n int) string {
		return fmt.Sprintf("# TYPE cronlease_job_failures_in_a_row gauge\ncronlease_job_failures_in_a_row{group=\"billing\",job_name=\"mail\"} %d\n", n)
	}
	// A follower.
	m.Observe(event.Following{Header: head(0), Leader: "worker/b/2/y", LeaderToken: 5})
	start := func(tick int) {
		m.Observe(event.RunStarted{Header: head(session), Key: key("mail", tick), Attempt: 1, First: true, Assigned: true})
	}
	end := func(tick int, state jobs.State) {
		m.Observe(event.RunFinished{Header: head(session), Key: key("mail", tick), Attempt: 1, Assigned: true, State: state})
	}
	start(1)
	values(1, 0, 0, 0, "")
	m.Observe(event.Leading{Header: head(7)})
	m.Observe(event.RunAssigned{Header: head(7), Key: key("mail", 1), To: "worker/a/1/x"})
	values(1, 1, 0, 0, "")
	m.Observe(event.RunClaimed{Header: head(7), Key: key("mail", 2), Waiting: true})
	start(2)
	m.Observe(event.RunDropped{Header: head(7), Key: key("mail", 2), State: jobs.Waiting}) // it is told late
	m.Observe(event.RunAssigned{Header: head(7), Key: key("mail", 2), To: "worker/a/1/x"})
	m.Observe(event.TicksSkipped{Header: head(7), Job: "other", Ticks: 1, Why: "an earlier run has not finished"})
	values(2, 2, 0, 0, "")
	expect(t, m, "", "cronlease_job_held_up_timestamp_seconds")
	m.Observe(event.TicksSkipped{Header: head(7), Job: "mail", Ticks: 1, Why: "an earlier run has not finished"})
	expect(t, m, fmt.Sprintf(`
		# TYPE cronlease_job_held_up_timestamp_seconds gauge
		cronlease_job_held_up_timestamp_seconds{group="billing",job_name="mail"} %d
	`, began.Unix()), "cronlease_job_held_up_timestamp_seconds")
	end(1, jobs.Failed)
	m.Observe(event.RunAssigned{Header: head(7), Key: key("mail", 1), To: "worker/a/1/x", Over: true})
	expect(t, m, "", "cronlease_job_held_up_timestamp_seconds")
	values(1, 1, 0, 0, "")
	m.Observe(event.JobFails{Header: head(7), Job: "mail", Fails: true})
	m.Observe(event.NoReplica{Header: head(7), Job: "report"})
	values(1, 1, 1, 1, inARow(1))
	end(2, jobs.Succeeded)
	values(0, 1, 1, 1, inARow(1)) // until the ledger says so
	m.Observe(event.JobFails{Header: head(7), Job: "mail"})
	m.Observe(event.NoReplica{Header: head(7), Job: "report", Over: true})
	values(0, 1, 0, 0, inARow(0))
	m.Observe(event.NoReplica{Header: head(7), Job: "report"})
	start(3)
	m.Observe(event.TermEnded{Header: head(7), Cause: election.ErrResigned})
	m.Observe(event.JobFails{Header: head(7), Job: "mail", Fails: true}) // they come late
	m.Observe(event.NoReplica{Header: head(7), Job: "report"})
	m.Observe(event.RunAssigned{Header: head(7), Key: key("mail", 3), To: "worker/a/1/x"})
	values(1, 0, 0, 0, "")
}

func TestTheRest(t *testing.T) {
	m := metrics.New()
	session := event.Header{At: began, Group: "locks/3f2a", Owner: "worker/a/1/x"}
	failed := errors.New("bad connection")
	observe(m, []event.Event{
		event.Heartbeat{Header: head(7), Late: time.Millisecond, Took: time.Millisecond},
		event.Heartbeat{Header: head(7), Late: time.Millisecond, Took: time.Second, Err: failed},
		event.Control{Header: head(7), Action: event.Triggered, Key: key("mail", 0)},
		event.Statement{Header: head(7), Name: "claim", Rows: 20, Took: time.Millisecond},
		event.Statement{Header: head(7), Name: "claim", Took: time.Second, Err: failed},
		event.DatabaseAway{Header: head(0), Fault: event.NotReady, Err: failed},
		event.ClockSkew{Header: head(0), Now: event.Differ},
		event.LockGranted{Header: session, Lock: "a", Waited: time.Second},
		event.LockGranted{Header: session, Lock: "b"},
		event.LockGranted{Header: session, Lock: "c"},
		event.LockReleased{Header: session, Lock: "a", Held: time.Minute},
		event.LocksLost{Header: event.Header{Group: "locks/3f2a", Owner: "worker/a/1/y"}, Locks: 1, Cause: failed},
		event.Dropped{Header: head(0), Events: 12},
		event.Following{Header: head(0)},
		event.Note{Header: head(0), Message: "not counted"},
		nil,
	})
	expect(t, m, `
		# TYPE cronlease_clocks gauge
		cronlease_clocks{group="billing",state="agree"} 0
		cronlease_clocks{group="billing",state="differ"} 1
		cronlease_clocks{group="billing",state="disagree"} 0
		# TYPE cronlease_control_requests_total counter
		cronlease_control_requests_total{action="trigger",group="billing"} 1
		# TYPE cronlease_database_trouble gauge
		cronlease_database_trouble{group="",kind="away"} 0
		cronlease_database_trouble{group="",kind="not_ready"} 0
		cronlease_database_trouble{group="",kind="refused"} 0
		cronlease_database_trouble{group="",kind="unfit"} 0
		cronlease_database_trouble{group="billing",kind="away"} 0
		cronlease_database_trouble{group="billing",kind="not_ready"} 1
		cronlease_database_trouble{group="billing",kind="refused"} 0
		cronlease_database_trouble{group="billing",kind="unfit"} 0
		# TYPE cronlease_events_dropped_total counter
		cronlease_events_dropped_total{group="billing"} 12
		# TYPE cronlease_heartbeat_errors_total counter
		cronlease_heartbeat_errors_total{group="billing"} 1
		# TYPE cronlease_locks_held gauge
		cronlease_locks_held{group=""} 2
		# TYPE cronlease_locks_lost_total counter
		cronlease_locks_lost_total{group=""} 1
		# TYPE cronlease_statement_errors_total counter
		cronlease_statement_errors_total{group="billing",statement="claim"} 1
		# TYPE cronlease_statement_rows_total counter
		cronlease_statement_rows_total{group="billing",statement="claim"} 20
	`, "cronlease_clocks", "cronlease_control_requests_total", "cronlease_database_trouble", "cronlease_events_dropped_total",
		"cronlease_heartbeat_errors_total", "cronlease_locks_held", "cronlease_locks_lost_total", "cronlease_statement_errors_total", "cronlease_statement_rows_total")
	// Those who hold locks that were lost unlock them all the same.
	observe(m, []event.Event{
		event.LocksLost{Header: session, Locks: 2, Cause: failed},
		event.LockReleased{Header: session, Lock: "b"}, event.LockReleased{Header: session, Lock: "c"},
	})
	expect(t, m, `
		# TYPE cronlease_locks_held gauge
		cronlease_locks_held{group=""} 0
		# TYPE cronlease_locks_lost_total counter
		cronlease_locks_lost_total{group=""} 3
	`, "cronlease_locks_held", "cronlease_locks_lost_total")
	m.Observe(event.DatabaseBack{Header: head(0)})
	if n := count(t, m, "cronlease_database_trouble"); n != 8 {
		t.Errorf("%d series of trouble", n)
	}
}

// The health of a scheduler is asked for with each scrape, and without locks: it may ask for
// the metrics itself.
func TestWatch(t *testing.T) {
	m := metrics.New()
	h := scheduler.Health{Late: 3 * time.Second, Skew: lease.Skew{Ahead: -time.Second, Bound: time.Millisecond}}
	h.Database, h.HeartbeatAge = errors.New("away"), 2*time.Second
	h.Differences = jobs.Differences{NotLed: []string{"a", "b"}, Rescheduled: []string{"c"}}
	m.Watch("billing", func() scheduler.Health {
		m.Observe(event.Note{})
		return h
	})
	names := []string{
		"cronlease_healthy", "cronlease_heartbeat_age_seconds", "cronlease_tick_overdue_seconds", "cronlease_clock_skew_seconds",
		"cronlease_clock_skew_error_seconds", "cronlease_jobs_differing",
	}
	expect(t, m, `
		# TYPE cronlease_clock_skew_error_seconds gauge
		cronlease_clock_skew_error_seconds{group="billing"} 0.001
		# TYPE cronlease_clock_skew_seconds gauge
		cronlease_clock_skew_seconds{group="billing"} -1
		# TYPE cronlease_healthy gauge
		cronlease_healthy{check="database",group="billing"} 0
		cronlease_healthy{check="leader",group="billing"} 1
		cronlease_healthy{check="process",group="billing"} 1
		# TYPE cronlease_heartbeat_age_seconds gauge
		cronlease_heartbeat_age_seconds{group="billing"} 2
		# TYPE cronlease_jobs_differing gauge
		cronlease_jobs_differing{group="billing",how="not_led"} 2
		cronlease_jobs_differing{group="billing",how="rescheduled"} 1
		# TYPE cronlease_tick_overdue_seconds gauge
		cronlease_tick_overdue_seconds{group="billing"} 3
	`, names...)
	for _, zero := range []string{"cronlease_leader", "cronlease_terms_total", "cronlease_control_requests_total", "cronlease_heartbeat_errors_total"} {
		if count(t, m, zero) == 0 {
			t.Errorf("%s is not there from the beginning", zero)
		}
	}
	m.Watch("billing", nil)
	expect(t, m, "", names...)
}

// Ten thousand jobs have as many series as the option says, and their sums are right.
func TestManyJobs(t *testing.T) {
	for _, most := range []int{0, 100, 20_000} {
		m := metrics.New(metrics.WithJobs(most))
		m.Observe(event.Leading{Header: head(7)})
		const all = 10_000
		for i := range all {
			observe(m, run(7, key(fmt.Sprint("job-", i), 0), jobs.Failed))
		}
		want := min(most, all)
		if want < all {
			want++ // the others
		}
		if n := count(t, m, "cronlease_runs_total"); n != want {
			t.Errorf("%d series for at most %d jobs", n, most)
		}
		if n := count(t, m, "cronlease_job_failures_in_a_row"); n != want {
			t.Errorf("%d series of failures for at most %d jobs", n, most)
		}
		if sum := total(t, m, "cronlease_runs_total"); sum != all {
			t.Errorf("%v runs for at most %d jobs", sum, most)
		}
		if n := series(t, m); n > 20*want+100 {
			t.Errorf("%d series for at most %d jobs", n, most)
		} else {
			t.Logf("%d series for at most %d jobs", n, most)
		}
	}
}

// Rows and servers can hold anything.
func TestHostileNames(t *testing.T) {
	m := metrics.New(metrics.WithVersion("\xff"))
	for _, name := range []string{"\xff", "a\"b\n}", "(other)", "", strings.Repeat("x", 10_000), "<script>"} {
		h := event.Header{Group: name, Owner: name, At: began}
		k := jobs.Key{Job: name, Tick: began}
		observe(m, []event.Event{
			event.Leading{Header: h}, event.RunInterrupted{Header: h, Key: k}, event.RunFinished{Header: h, Key: k, Attempt: 1, State: 77},
			event.Statement{Header: h, Name: name}, event.TicksSkipped{Header: h, Job: name, Ticks: 1}, event.DatabaseAway{Header: h, Fault: event.Fault(name)},
			event.ClockSkew{Header: h, Now: event.Agreement(name)}, event.Control{Header: h, Action: event.Action(name)},
		})
	}
	if count(t, m) == 0 {
		t.Error("no metrics")
	}
}

// The names follow Prometheus' conventions, and the document has each of them.
func TestNames(t *testing.T) {
	m := full()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, found := range regexp.MustCompile("(?m)^\\| `(cronlease_[a-z_]+)` ").FindAllStringSubmatch(string(text), -1) {
		documented[found[1]] = true
	}
	all := make(chan *prometheus.Desc, 1000)
	m.Describe(all)
	close(all)
	for d := range all {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]
		if !documented[name] {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
		delete(documented, name)
		if count(t, m, name) == 0 {
			t.Errorf("%s has no series in this test", name)
		}
	}
	for name := range documented {
		t.Errorf("docs/metrics.md has %s, which does not exist", name)
	}
}

// full has a value for each metric.
func full() *metrics.Metrics {
	m := metrics.New(metrics.WithVersion("v1"))
	m.Watch("billing", func() scheduler.Health { return scheduler.Health{} })
	m.Observe(event.Leading{Header: head(7)})
	observe(m, run(7, key("mail", 0), jobs.Succeeded), []event.Event{
		event.RunFinished{Header: head(7), Key: key("mail", 1), Attempt: 1, State: jobs.Failed, WillRetry: true},
		event.RunInterrupted{Header: head(7), Key: key("mail", -1)},
		event.TicksSkipped{Header: head(7), Job: "mail", Ticks: 1, Missed: true}, event.NoticeLeftOut{Header: head(7), Notifier: "report"},
		event.RunStarted{Header: head(7), Key: key("slow", 1), Attempt: 1, First: true}, event.TicksSkipped{Header: head(7), Job: "slow", Ticks: 1},
		event.Heartbeat{Header: head(7)},
		event.Statement{Header: head(7), Name: "claim", Rows: 1},
		event.LockGranted{Header: head(0)}, event.LockReleased{Header: head(0)}, event.LocksLost{Header: head(0)},
	})
	return m
}

// Schedulers observe while Prometheus scrapes.
func TestConcurrentUse(t *testing.T) {
	m := metrics.New()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range 200 {
				m.Watch("billing", func() scheduler.Health { return scheduler.Health{} })
				observe(m, []event.Event{event.Leading{Header: head(uint64(i))}}, run(uint64(i), key("mail", i), jobs.Failed))
			}
		})
		wait.Go(func() {
			for range 20 {
				if _, err := testutil.GatherAndCount(registered(m)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

func registered(m *metrics.Metrics) *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	return registry
}

// count is how many series there are, of these metrics or of all.
func count(t *testing.T, m *metrics.Metrics, names ...string) int {
	t.Helper()
	n, err := testutil.GatherAndCount(registered(m), names...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// series is how many lines a scrape has, comments aside.
func series(t *testing.T, m *metrics.Metrics) (n int) {
	t.Helper()
	families, err := registered(m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			n++
			if h := metric.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 2 // the infinite one, the sum and the count
			}
		}
	}
	return n
}

// total is the sum of the counters of that name.
func total(t *testing.T, m *metrics.Metrics, name string) (sum float64) {
	t.Helper()
	families, err := registered(m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue()
		}
	}
	return sum
}

// What a run and its statements cost the observer.
func BenchmarkRun(b *testing.B) {
	m := metrics.New()
	m.Observe(event.Leading{Header: head(7)})
	events := append(run(7, key("mail", 0), jobs.Succeeded),
		event.Statement{Header: head(7), Name: "claim", Rows: 1, Took: time.Millisecond},
		event.Statement{Header: head(7), Name: "move", Rows: 1, Took: time.Millisecond})
	b.ReportAllocs()
	for b.Loop() {
		observe(m, events)
	}
}

// withoutHelp leaves the texts of help out.
type withoutHelp struct{ prometheus.Gatherer }

func (g withoutHelp) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	for _, family := range families {
		family.Help = new("")
	}
	return families, err
}
