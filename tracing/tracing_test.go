package tracing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/tracing"
)

var began = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

func started(attempt int) event.RunStarted {
	return event.RunStarted{
		Header: event.Header{At: began, Group: "billing", Owner: "worker/a/1/x", Token: 7}, Key: jobs.Key{Job: "mail", Tick: began.Add(-time.Second)},
		Attempt: attempt, Late: time.Second,
	}
}

func finished(state jobs.State) event.RunFinished {
	return event.RunFinished{Header: event.Header{At: began.Add(time.Minute)}, State: state}
}

// spans are those that f has made.
func spans(t *testing.T, f func(start func(context.Context, event.RunStarted) (context.Context, func(event.RunFinished)), provider trace.TracerProvider)) tracetest.SpanStubs {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	f(tracing.Runs(provider), provider)
	return exporter.GetSpans()
}

// attributes are those of a span, as text.
func attributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func TestASpanForEachAttempt(t *testing.T) {
	got := spans(t, func(start func(context.Context, event.RunStarted) (context.Context, func(event.RunFinished)), provider trace.TracerProvider) {
		// What surrounds Run is no parent of the runs.
		ctx, around := provider.Tracer("test").Start(t.Context(), "main")
		defer around.End()
		job, end := start(ctx, started(1))
		_, inner := provider.Tracer("test").Start(job, "query")
		inner.End()
		failed := finished(jobs.Failed)
		failed.Why, failed.WillRetry = "exit status 1", true
		end(failed)
		_, end = start(ctx, started(2))
		end(finished(jobs.Succeeded))
	})
	if len(got) != 4 {
		t.Fatalf("%d spans", len(got))
	}
	inner, first, second := got[0], got[1], got[2]
	if inner.Parent.SpanID() != first.SpanContext.SpanID() {
		t.Error("what the job does has another parent")
	}
	if first.Parent.IsValid() || second.Parent.IsValid() || first.SpanContext.TraceID() == second.SpanContext.TraceID() {
		t.Error("an attempt is not the root of a trace of its own")
	}
	if first.Name != "run mail" || !first.StartTime.Equal(began) || first.EndTime.Sub(began) != time.Minute {
		t.Errorf("%s from %v to %v", first.Name, first.StartTime, first.EndTime)
	}
	if first.Status.Code != codes.Error || first.Status.Description != "exit status 1" || second.Status.Code != codes.Unset {
		t.Errorf("status %v and %v", first.Status, second.Status)
	}
	want := map[string]string{
		"cronlease.group": "billing", "cronlease.job": "mail", "cronlease.tick": "2027-01-01T11:59:59Z", "cronlease.token": "7",
		"cronlease.owner": "worker/a/1/x", "cronlease.attempt": "1", "cronlease.late_seconds": "1", "cronlease.state": "failed", "cronlease.will_retry": "true",
	}
	if got := attributes(first); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := attributes(second); got["cronlease.attempt"] != "2" || got["cronlease.late_seconds"] != "" || got["cronlease.will_retry"] != "" {
		t.Errorf("%v", got)
	}
}

func TestRunsBesideTheSchedule(t *testing.T) {
	got := spans(t, func(start func(context.Context, event.RunStarted) (context.Context, func(event.RunFinished)), _ trace.TracerProvider) {
		e := started(1)
		e.Trigger, e.Job = 3, "\xffmail"
		_, end := start(t.Context(), e)
		end(finished(jobs.Succeeded))
		e = started(1)
		e.Everywhere, e.Token = true, 0
		_, end = start(t.Context(), e)
		end(finished(jobs.Succeeded))
	})
	if a := attributes(got[0]); a["cronlease.trigger"] != "3" || a["cronlease.late_seconds"] != "" || a["cronlease.job"] != "\uFFFDmail" {
		t.Errorf("a manual run: %v", a)
	}
	if a := attributes(got[1]); a["cronlease.everywhere"] != "true" || a["cronlease.token"] != "" || a["cronlease.late_seconds"] != "" {
		t.Errorf("a run of all replicas: %v", a)
	}
}

// Without a provider there is no span, and next to no cost.
func TestWithoutAProvider(t *testing.T) {
	ctx, end := tracing.Runs(nil)(t.Context(), started(1))
	end(finished(jobs.Failed))
	if trace.SpanContextFromContext(ctx).IsValid() {
		t.Error("there is a span")
	}
}

func BenchmarkWithoutAProvider(b *testing.B) {
	start := tracing.Runs(nil)
	b.ReportAllocs()
	for b.Loop() {
		_, end := start(b.Context(), started(1))
		end(finished(jobs.Succeeded))
	}
}
