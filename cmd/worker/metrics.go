package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/web"
	"github.com/cronlease/cronlease/metrics"
)

// served are the metrics of a worker and what serves them, with those of the process and of
// Go's runtime.
type served struct {
	*metrics.Metrics
	mount web.Mount
}

func newMetrics(log *zap.Logger) served {
	m := metrics.New(metrics.WithVersion(firstBytes(version())))
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return served{m, web.Mount{Path: "/metrics", Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      zap.NewStdLog(log.Named("metrics")),
		ErrorHandling: promhttp.ContinueOnError, // the rest is worth more than an error
	})}}
}
