package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cronlease/cronlease/event"
)

// DefaultJobs is how many jobs have series of their own by default.
const DefaultJobs = 500

// Metrics is a [prometheus.Collector] of everything that its method Observe is told of. One
// of them is enough for all groups and all locks of a process. Its methods are safe for
// concurrent use.
type Metrics struct {
	vectors
	version string

	mu     sync.Mutex // guards all below
	groups map[string]*group
	names  names
}

var _ prometheus.Collector = (*Metrics)(nil)

// An Option changes a default of [New].
type Option func(*Metrics)

// WithJobs sets how many jobs have series of their own, over all groups: those that
// are heard of first. All others are counted together, as job_name="(other)". A job
// that runs has about 20 series. A job that was removed keeps its place until the process
// ends. Zero or less: none has. Default: [DefaultJobs].
func WithJobs(n int) Option { return func(m *Metrics) { m.names.most = n } }

// WithVersion adds cronlease_build_info, whose label version says of which version this program
// is. Default: that metric is left out.
func WithVersion(version string) Option {
	return func(m *Metrics) { m.version = valid(version) }
}

// New returns metrics without any values.
func New(options ...Option) *Metrics {
	m := &Metrics{vectors: newVectors(), groups: map[string]*group{}, names: newNames(DefaultJobs)}
	for _, option := range options {
		option(m)
	}
	return m
}

// Observe takes an event in. It is for WithEvents of packages scheduler, election and locks. It
// returns at once.
func (m *Metrics) Observe(e event.Event) {
	if e == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(e.Head().Group)
	switch e := e.(type) {
	case event.Following:
		g.following(e)
	case event.Leading:
		g.leading(m, e)
	case event.Draining:
		g.drains = true // until it follows
	case event.TermEnded:
		g.ended(m, e)
	case event.Heartbeat:
		m.heartbeat(g.label, e)
	case event.RunClaimed:
		g.claimed(m, e)
	case event.RunStarted:
		g.started(m, e)
	case event.RunFinished:
		g.finished(m, e)
	case event.RunAssigned:
		g.assigned(e)
	case event.JobRemoved:
		g.removed(e)
	case event.NoReplica:
		g.noReplica(e)
	case event.JobFails:
		g.jobFails(m, e)
	case event.RunDropped:
		g.dropped(m, e)
	case event.RunInterrupted:
		g.interrupted(m, e)
	case event.TicksSkipped:
		m.skipped(g.label, e)
		if !e.Missed && e.Why != event.WhyPaused {
			g.holdUp(e.Job, e.At)
		}
	case event.NoticeLeftOut:
		if !e.Again {
			m.leftOut.WithLabelValues(g.label, m.names.label(g.label, e.Notifier)).Inc()
		}
	case event.Control:
		m.control.WithLabelValues(g.label, valid(string(e.Action))).Inc()
	case event.ClockSkew:
		g.clocks = e.Now
	case event.DatabaseAway:
		g.fault = e.Fault
	case event.DatabaseBack:
		g.fault = ""
	case event.Statement:
		m.statement(g.label, e)
	case event.LockGranted:
		g.locked(lockOf(e.Header, e.Lock))
		m.locksLost.WithLabelValues(g.label) // the first increase shows only if it was there before
		m.lockWait.WithLabelValues(g.label).Observe(e.Waited.Seconds())
	case event.LockReleased:
		g.unlocked(lockOf(e.Header, e.Lock))
		m.lockHold.WithLabelValues(g.label).Observe(e.Held.Seconds())
	case event.LocksLost:
		g.lockless(e.Owner)
		m.locksLost.WithLabelValues(g.label).Add(float64(e.Locks))
	case event.Dropped:
		m.dropped.WithLabelValues(g.label).Add(float64(e.Events))
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, v := range m.all() {
		v.Describe(out)
	}
	for _, d := range descriptions {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. It calls the functions that Watch was given.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	if m.version != "" {
		out <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, m.version)
	}
	// Health has locks of its own: it is asked without those of this package.
	for _, w := range m.watched() {
		w.collect(out)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.all() {
		v.Collect(out)
	}
	for _, g := range m.groups {
		g.collect(m, out)
	}
}

// group returns what is known of a group, with m.mu held.
func (m *Metrics) group(name string) *group {
	label := groupLabel(name)
	g := m.groups[label]
	if g == nil {
		g = newGroup(label)
		m.groups[label] = g
	}
	return g
}
