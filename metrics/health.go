package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cronlease/cronlease/scheduler"
)

// What is not counted, but read when it is asked for.
var (
	buildInfo = gauge("build_info", "1; the label version says of which version this program is.", "version")

	healthy      = gauge("healthy", "1 if the check passes: process (else restart it), database (this replica can use it), leader (a replica leads and fires).", "group", "check")
	heartbeatAge = gauge("heartbeat_age_seconds", "Age of the newest heartbeat of the group's leader, as far as this replica knows.", "group")
	overdue      = gauge("tick_overdue_seconds", "How long this replica, which leads, has left the oldest tick that is due; 0 below 2 s.", "group")
	skewAhead    = gauge("clock_skew_seconds", "How far the database's clock is ahead of this machine's.", "group")
	skewBound    = gauge("clock_skew_error_seconds", "By how much cronlease_clock_skew_seconds may be wrong.", "group")
	differing    = gauge("jobs_differing", "Jobs in which replicas differ from the leader: it does not have them (not_led), or has them with another schedule (rescheduled).", "group", "how")
)

// Watch adds what is read from the health of a scheduler when a scrape asks for it, such as
// the age of the heartbeat: health is its method Health. Without a scheduler,
//
//	m.Watch("billing", func() scheduler.Health { return scheduler.Health{Health: e.Health()} })
//
// does the same for an election. A group has one such function; nil takes it away.
func (m *Metrics) Watch(group string, health func() scheduler.Health) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(group)
	g.health, g.elected = health, true
	m.zero(g.label)
}

// watch is a group whose health is asked for.
type watch struct {
	label  string
	health func() scheduler.Health
}

func (m *Metrics) watched() []watch {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []watch
	for _, g := range m.groups {
		if g.health != nil {
			all = append(all, watch{g.label, g.health})
		}
	}
	return all
}

func (w watch) collect(out chan<- prometheus.Metric) {
	h := w.health()
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{w.label}, labels...)...)
	}
	set(healthy, number(h.Stuck == nil), "process")
	set(healthy, number(h.Database == nil), "database")
	set(healthy, number(h.Leader == nil), "leader")
	set(heartbeatAge, h.HeartbeatAge.Seconds())
	set(overdue, h.Late.Seconds())
	set(skewAhead, h.Skew.Ahead.Seconds())
	set(skewBound, h.Skew.Bound.Seconds())
	set(differing, float64(len(h.Differences.NotLed)), "not_led")
	set(differing, float64(len(h.Differences.Rescheduled)), "rescheduled")
}

// valid is a label's value: rows of the database may hold what is no UTF-8, and Prometheus
// refuses it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// number is 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// sessions are the groups of the sessions of locks, of which each process has its own.
const sessions = "locks/"

// groupLabel is the name that a group has in labels.
func groupLabel(group string) string {
	if strings.HasPrefix(group, sessions) {
		return ""
	}
	return valid(group)
}
