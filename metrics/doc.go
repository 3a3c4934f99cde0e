// Package metrics makes Prometheus metrics of the events of elections, schedulers and
// clients of locks.
//
//	m := metrics.New()
//	s, err := scheduler.New(store, "billing", scheduler.WithEvents(m.Observe))
//	...
//	m.Watch("billing", s.Health)
//	prometheus.MustRegister(m)
//
// Nothing is registered by itself, and a scrape sends nothing to the database.
//
// # Labels
//
// Each metric has the label group, but for cronlease_build_info. It is empty for what belongs to no group,
// such as locks. Metrics of jobs have the label job_name: Prometheus itself uses "job"
// for what it scrapes. There are at most as many different values of it as
// [WithJobs] says. The jobs beyond that share the value "(other)", so that sums are
// right with any number of jobs. No other label has values that come from a configuration or from the
// database: neither owners nor tokens nor errors are labels.
//
// docs/metrics.md lists the metrics, and deploy/ has alert rules and a dashboard.
package metrics
