package tracing_test

import (
	"context"
	"fmt"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
	"github.com/cronlease/cronlease/tracing"
)

// A run, and what it does, in one trace.
func Example() {
	exporter := tracetest.NewInMemoryExporter() // in a service, one that sends to a collector
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))

	s, err := scheduler.New(memstore.New(), "billing", scheduler.WithRunContext(tracing.Runs(provider)))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = s.Add(jobs.Job{Name: "report", Schedule: jobs.Every(time.Second), Do: func(ctx context.Context, _ jobs.Run) error {
		_, span := provider.Tracer("example").Start(ctx, "query")
		span.End()
		stop() // one run will do
		return nil
	}})
	if err != nil {
		panic(err)
	}
	if err := s.Run(ctx); err != nil {
		panic(err)
	}

	spans := exporter.GetSpans()
	query, run := spans[0], spans[1]
	fmt.Println(run.Name)
	fmt.Println(query.Name, query.Parent.SpanID() == run.SpanContext.SpanID())
	// Output:
	// run report
	// query true
}
