package sqljob

import (
	"context"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/cronlease/cronlease/cmd/worker/internal/sqljob"

// Attributes of the span of a statement. Its text is none of them: it can have secrets in it.
const statementNumber = attribute.Key("cronlease.statement") // from 1

// traced does something in a span, a child of the one in ctx. Without one it only does it.
func traced(ctx context.Context, name string, do func(context.Context) error, attributes ...attribute.KeyValue) error {
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	defer span.End()
	err := do(ctx)
	if err != nil {
		span.SetStatus(codes.Error, strings.ToValidUTF8(err.Error(), "\uFFFD"))
	}
	return err
}

// statementSpan is the name of a statement's span.
func statementSpan(i int) string { return "statement " + strconv.Itoa(i+1) }
