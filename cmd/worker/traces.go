package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

// flushWithin is how long the last spans may take to be sent when the worker ends.
const flushWithin = 2 * time.Second

// exportsTraces reports whether OpenTelemetry's variables say that spans are to be sent. It is an
// error when they ask for what the worker does not have.
func exportsTraces(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
	case exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%q: expected otlp or none", exporter)
	}
	if at, err := url.Parse(endpoint); endpoint != "" && (err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "") {
		// The exporter would take its default instead. It may have a password.
		return false, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL such as http://collector:4318")
	}
	switch protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); protocol {
	case "", "http/protobuf":
		return true, nil
	default:
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%q: expected http/protobuf, for which collectors listen on port 4318", protocol)
	}
}

// startTraces returns what makes spans and sends them, nil if nobody asked for it. Nothing of a run
// waits for it: spans that cannot be sent are dropped. Stop sends the last ones.
func startTraces(ctx context.Context, log *zap.Logger) (provider *sdk.TracerProvider, stop func()) {
	none := func() {}
	export, err := exportsTraces(os.Getenv)
	if err != nil {
		log.Error("no traces are sent", zap.Error(err))
	}
	if !export {
		return nil, none
	}
	otel.SetErrorHandler(&traceErrors{log: log})
	otel.SetLogger(logr.New(variableFaults{log}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Error("no traces are sent", zap.Error(err))
		return nil, none
	}
	// What the variables say of the service comes last, and rules.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "cronlease-worker"), attribute.String("service.version", version())), resource.WithFromEnv())
	if err != nil {
		log.Warn("traces do not say all of this worker", zap.Error(err))
	}
	provider = sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	log.Info("traces are sent")
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not sent", zap.Error(err))
		}
	}
}

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

// variableFaults logs that one of OpenTelemetry's variables cannot be read. What the SDK says of it shows the value,
// which may be a secret such as a header's, and by itself goes to standard error past the log.
type variableFaults struct{ log *zap.Logger }

// Init implements [logr.LogSink].
func (variableFaults) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink]: only errors are logged.
func (variableFaults) Enabled(int) bool { return false }

// Info implements [logr.LogSink].
func (variableFaults) Info(int, string, ...any) {}

// Error implements [logr.LogSink].
func (f variableFaults) Error(_ error, what string, _ ...any) {
	f.log.Error("one of OpenTelemetry's variables cannot be read, and does not count; its value is not shown", zap.String("what", what))
}

// WithValues implements [logr.LogSink].
func (f variableFaults) WithValues(...any) logr.LogSink { return f }

// WithName implements [logr.LogSink].
func (f variableFaults) WithName(string) logr.LogSink { return f }

// traceErrors logs what OpenTelemetry reports, once a minute at most.
type traceErrors struct {
	log *zap.Logger

	mu   sync.Mutex
	said time.Time
	more int // errors since then
}

// Handle implements [otel.ErrorHandler].
func (h *traceErrors) Handle(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.said.IsZero() && time.Since(h.said) < time.Minute {
		h.more++
		return
	}
	h.log.Warn("trouble with traces", zap.Error(err), zap.Int("not_logged", h.more))
	h.said, h.more = time.Now(), 0
}
