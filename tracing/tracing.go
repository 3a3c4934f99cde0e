// Package tracing makes an OpenTelemetry span of each attempt at a run.
//
// The span is in the context that the job gets, so it is the parent of what the job does with
// instrumented clients and of the spans that it starts itself. It is the root of a trace,
// because a run is caused by its tick. Each attempt at a run has a trace of its own;
// they share the attributes job, tick and trigger.
//
// The package needs the API of OpenTelemetry alone. While a program has set no provider, there are no
// spans, and an attempt costs some microseconds.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

// The attributes of a span.
const (
	Group      = attribute.Key("cronlease.group")
	Job        = attribute.Key("cronlease.job")
	Tick       = attribute.Key("cronlease.tick")         // RFC 3339, UTC
	Trigger    = attribute.Key("cronlease.trigger")      // of a run beside the schedule, in decimal; left out for others
	Token      = attribute.Key("cronlease.token")        // in decimal; left out where there is none
	Owner      = attribute.Key("cronlease.owner")        // this process
	Attempt    = attribute.Key("cronlease.attempt")      // from 1
	Late       = attribute.Key("cronlease.late_seconds") // of the first attempt at a tick; left out for others
	Everywhere = attribute.Key("cronlease.everywhere")   // left out if it does not
	State      = attribute.Key("cronlease.state")        // of the attempt, such as "timed out"
	WillRetry  = attribute.Key("cronlease.will_retry")   // left out if it does not
)

// scope names this package to OpenTelemetry.
const scope = "github.com/cronlease/cronlease/tracing"

// Runs returns what makes the spans, for an option of package scheduler. The name of a span is "run" and the
// job's name. A run that fails sets its status to an error with what the ledger
// keeps of it, which is at most some kilobytes. Nil stands for the global provider of package
// otel, also if that is set later.
func Runs(provider trace.TracerProvider) func(context.Context, event.RunStarted) (context.Context, func(event.RunFinished)) {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	tracer := provider.Tracer(scope)
	return func(ctx context.Context, e event.RunStarted) (context.Context, func(event.RunFinished)) {
		ctx, span := tracer.Start(ctx, "run "+text(e.Job), trace.WithNewRoot(), trace.WithTimestamp(e.At), trace.WithAttributes(attributes(e)...))
		return ctx, func(e event.RunFinished) { end(span, e) }
	}
}

func attributes(e event.RunStarted) []attribute.KeyValue {
	all := []attribute.KeyValue{
		Group.String(text(e.Group)), Job.String(text(e.Job)), Tick.String(e.Tick.UTC().Format(time.RFC3339Nano)),
		Owner.String(text(e.Owner)), Attempt.Int(e.Attempt),
	}
	if e.Token != 0 {
		all = append(all, Token.String(decimal(e.Token)))
	}
	if e.Trigger != 0 {
		all = append(all, Trigger.String(decimal(e.Trigger)))
	} else if e.Attempt == 1 && !e.Everywhere {
		all = append(all, Late.Float64(e.Late.Seconds()))
	}
	if e.Everywhere {
		all = append(all, Everywhere.Bool(true))
	}
	return all
}

func end(span trace.Span, e event.RunFinished) {
	span.SetAttributes(State.String(e.State.String()))
	if e.WillRetry {
		span.SetAttributes(WillRetry.Bool(true))
	}
	if e.State != jobs.Succeeded {
		span.SetStatus(codes.Error, text(e.Why))
	}
	span.End(trace.WithTimestamp(e.At))
}
