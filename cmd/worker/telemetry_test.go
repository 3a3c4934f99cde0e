package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// awaitText waits until an address answers with all of these lines.
func awaitText(t *testing.T, address string, lines ...string) string {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(limit); ; <-again.C {
		_, body := fetch(t, address)
		missing := ""
		for _, line := range lines {
			if !strings.Contains(body, line) {
				missing = line
			}
		}
		if missing == "" {
			return body
		}
		if time.Now().After(end) {
			t.Fatalf("no %q in:\n%s", missing, body)
		}
	}
}

// A worker that listens has metrics of what it does, and of nothing secret.
func TestRunHasMetrics(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: works, every: 1s, exec: [\"true\", \"${CANARY}\"]}\n  - {name: fails, every: 1s, exec: [\"false\"]}\nlisten: 127.0.0.1:0\n")
	w := startWorker(t, "run", "--config", path)
	text := awaitText(t, addressOf(w)+"/metrics",
		`cronlease_leader{group="billing"} 1`, `cronlease_healthy{check="database",group="billing"} 1`, `cronlease_build_info{version=`,
		`cronlease_runs_total{group="billing",job_name="works",state="succeeded"}`, `cronlease_runs_total{group="billing",job_name="fails",state="failed"}`,
		`cronlease_statement_duration_seconds_count{group="billing",statement="claim"}`, `cronlease_heartbeat_duration_seconds_count{group="billing"}`,
		`cronlease_terms_total{early="false",group="billing"} 1`, "go_goroutines", "process_")
	if strings.Contains(text, os.Getenv("CANARY")) {
		t.Error("a secret is in the metrics")
	}
}

// span is a span as a collector got it.
type span struct{ service, name, trace, id string }

// collect starts a collector.
func collect(t *testing.T) (address string, spans func() []span) {
	t.Helper()
	var mu sync.Mutex
	var all []span
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var request collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range request.GetResourceSpans() {
			service := ""
			for _, a := range resource.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					service = a.GetValue().GetStringValue()
				}
			}
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					all = append(all, span{service, s.GetName(), hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId())})
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []span {
		mu.Lock()
		defer mu.Unlock()
		return append([]span(nil), all...)
	}
}

// Each run is a span that the collector gets, and what the job calls gets its context. The last
// spans are sent at the end.
func TestRunSendsTraces(t *testing.T) {
	t.Parallel()
	address, spans := collect(t)
	var mu sync.Mutex
	var got []string
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, "run "+r.Header.Get("Cronlease-Job")+" "+r.Header.Get("traceparent"))
	}))
	defer target.Close()
	out := filepath.Join(t.TempDir(), "out")
	path := configure(t, fmt.Sprintf("  - {name: call, every: 1s, http: {url: %q}}\n  - {name: program, every: 1s, exec: [sh, -c, 'echo run program $TRACEPARENT >>%s']}\n", target.URL, out))
	cmd := exec.Command(os.Args[0], "run", "--config", path)
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+address, "OTEL_SERVICE_NAME=billing-worker")
	w := startWorkerAs(t, cmd)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(limit); ; <-again.C {
		text, _ := os.ReadFile(out) // it may not be there yet
		mu.Lock()
		done := len(got) > 1 && strings.Count(string(text), "\n") > 1
		mu.Unlock()
		if done {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the jobs do not run")
		}
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	sent := map[string]bool{}
	for _, s := range spans() {
		if s.service != "billing-worker" {
			t.Errorf("a span of %q", s.service)
		}
		sent[s.name+" 00-"+s.trace+"-"+s.id+"-01"] = true
	}
	for _, parent := range got {
		if !sent[parent] {
			t.Errorf("%q is not among the spans %v", parent, sent)
		}
	}
}

// A collector that is away, or a protocol that the worker does not have, keeps no job from running
// and no worker from ending.
func TestRunWithoutCollector(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"away":     {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"},
		"protocol": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "run", "--config", configure(t, "  - {name: works, every: 1s, exec: [\"true\"]}\n"))
			cmd.Env = append(os.Environ(), env...)
			w := startWorkerAs(t, cmd)
			if name == "protocol" {
				w.awaitMessage("no traces are sent")
			}
			w.awaitMessage("run succeeded")
			began := time.Now()
			if code := w.stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it ended after %v", took)
			}
		})
	}
}

// Variables of OpenTelemetry that cannot be read are not in the output: they may be secrets.
func TestTracesHideVariables(t *testing.T) {
	t.Parallel()
	for name, variable := range map[string]string{
		"header":       "OTEL_EXPORTER_OTLP_HEADERS=Bearer hunter2hunter2",
		"header value": "OTEL_EXPORTER_OTLP_HEADERS=api-key=%zzhunter2hunter2",
		"endpoint":     "OTEL_EXPORTER_OTLP_ENDPOINT=http://user:hunter2hunter2@no host",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "run", "--config", configure(t, "  - {name: works, every: 1s, exec: [\"true\"]}\n"))
			cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", variable)
			w := startWorkerAs(t, cmd)
			if name == "endpoint" {
				w.awaitMessage("no traces are sent")
			} else {
				w.awaitMessage("one of OpenTelemetry's variables cannot be read, and does not count; its value is not shown")
			}
			w.awaitMessage("run succeeded")
			w.stop()
			if text := w.text.String(); strings.Contains(text, "hunter2") {
				t.Error(text)
			}
		})
	}
}

func TestExportsTraces(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"":                                     "false",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x": "true",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x":                                           "true",
		"OTEL_TRACES_EXPORTER=otlp":                                                             "true",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_SDK_DISABLED=true":                           "false",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_TRACES_EXPORTER=none":                        "false",
		"OTEL_TRACES_EXPORTER=zipkin":                                                           "error",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                 "error",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf": "true",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318":                                            "error",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http:///v1":                                                "error",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a:b@%zz":                                     "error",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                                      "false",
	} {
		set := map[string]string{}
		for _, variable := range strings.Fields(env) {
			name, value, _ := strings.Cut(variable, "=")
			set[name] = value
		}
		export, err := exportsTraces(func(name string) string { return set[name] })
		got := fmt.Sprint(export)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%v)", env, got, want, err)
		}
	}
}
