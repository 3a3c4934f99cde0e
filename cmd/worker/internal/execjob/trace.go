//go:build unix

package execjob

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// traceOf are TRACEPARENT and, if there is one, TRACESTATE of the span in ctx, as OpenTelemetry's
// programs read them; none without a span.
func traceOf(ctx context.Context) []string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	var env []string
	for key, value := range carrier {
		env = append(env, strings.ToUpper(key)+"="+value)
	}
	return env
}
