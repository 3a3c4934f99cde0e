package metrics_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/metrics"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

// A scheduler's metrics, which promhttp.HandlerFor(registry, ...) would serve.
func Example() {
	m := metrics.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)

	s, err := scheduler.New(memstore.New(), "billing", scheduler.WithEvents(m.Observe))
	if err != nil {
		panic(err)
	}
	m.Watch("billing", s.Health)
	ctx, stop := context.WithCancel(context.Background())
	err = s.Add(jobs.Job{Name: "report", Schedule: jobs.Every(time.Second), Do: func(context.Context, jobs.Run) error {
		stop() // one run will do
		return nil
	}})
	if err != nil {
		panic(err)
	}
	if err := s.Run(ctx); err != nil {
		panic(err)
	}

	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() == "cronlease_runs_total" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: cronlease_runs_total 1
}
