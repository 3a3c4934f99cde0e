package httpjob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var run = jobs.Run{
	Group: "billing", Job: "ping", Owner: "worker/host/1/abc", Token: 1767225600000001, Attempt: 2, LastAttempt: true, Previous: jobs.Previous{State: jobs.Failed, Error: "x"}, Missed: 335, Trigger: 18446744073709551615,
	Tick: time.Date(2027, 1, 1, 1, 0, 0, 500_000_000, time.FixedZone("CET", 3600)),
}

// serve starts a server and returns its address and the job that calls it.
func serve(t *testing.T, method string, handler http.HandlerFunc) (*httptest.Server, func(context.Context, jobs.Run) error) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := httpjob.NewClient("v1.2.3")
	t.Cleanup(client.Close)
	// What must never be shown.
	return server, client.Job(httpjob.Request{Method: method, URL: strings.Replace(server.URL, "http://", "http://user:canary@", 1) + "/ping?key=canary"})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	_, job := serve(t, "PUT", func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 0 {
			t.Errorf("body %q, %v", body, err)
		}
	})
	if err := job(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if got.Method != "PUT" || got.URL.String() != "/ping?key=canary" {
		t.Errorf("got %s %s", got.Method, got.URL)
	}
	if user, password, ok := got.BasicAuth(); !ok || user != "user" || password != "canary" {
		t.Errorf("credentials: got %s %s", user, password)
	}
	for name, want := range map[string]string{
		"User-Agent": "cronlease/v1.2.3", "Cronlease-Group": "billing", "Cronlease-Job": "ping", "Cronlease-Tick": "2027-01-01T00:00:00.5Z",
		"Cronlease-Owner": "worker/host/1/abc", "Cronlease-Token": "1767225600000001", "Cronlease-Attempt": "2", "Cronlease-Last-Attempt": "true", "Cronlease-Previous-State": "failed",
		"Cronlease-Missed": "335", "Cronlease-Trigger": "18446744073709551615",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s: got %q, want %q", name, value, want)
		}
	}
	scheduled := run
	scheduled.Missed, scheduled.Trigger = 0, 0
	if err := job(t.Context(), scheduled); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Cronlease-Missed", "Cronlease-Trigger"} {
		if value := got.Header.Get(name); value != "0" {
			t.Errorf("%s of a scheduled run that stands for none: got %q", name, value)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		200: "", 201: "", 204: "", 299: "",
		301: "answered 301 Moved Permanently, expected 2xx; redirects are not followed, and this one leads to http://x.example/y",
		302: "redirects are not followed", 303: "redirects are not followed", 307: "redirects are not followed", 308: "redirects are not followed",
		304: "answered 304 Not Modified",
		400: `answered 400 Bad Request, expected 2xx; its body begins with "what is wrong\nand more"`,
		401: "answered 401", 404: "answered 404 Not Found", 500: "answered 500 Internal Server Error", 503: "answered 503",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			requests := 0
			_, job := serve(t, "POST", func(w http.ResponseWriter, r *http.Request) {
				requests++
				w.Header().Set("Location", "http://user:canary@x.example/y?key=canary")
				w.WriteHeader(status)
				if status >= 400 {
					_, _ = io.WriteString(w, "what is wrong\nand more\n")
				}
			})
			err := job(t.Context(), run)
			switch {
			case want == "" && err != nil:
				t.Errorf("got %v", err)
			case want == "":
			case err == nil || !strings.Contains(err.Error(), want):
				t.Errorf("got %v, want %s", err, want)
			case strings.Contains(err.Error(), "canary"):
				t.Errorf("shows a secret: %v", err)
			}
			var bad *httpjob.StatusError
			if want != "" && !errors.As(err, &bad) {
				t.Errorf("got %T", err)
			}
			if requests != 1 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}

func TestLargeBody(t *testing.T) {
	t.Parallel()
	_, job := serve(t, "GET", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		for range 1000 {
			if _, err := w.Write(make([]byte, 100_000)); err != nil {
				return // the client does not read 100 MB
			}
		}
		t.Error("all of it was read")
	})
	var bad *httpjob.StatusError
	if err := job(t.Context(), run); !errors.As(err, &bad) || len(bad.Body) > 1<<10 {
		t.Errorf("got %.100v", err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	lost := errors.New("the lease is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, job := serve(t, "POST", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(lost)
		<-r.Context().Done() // the client has gone
	})
	if err := job(ctx, run); !errors.Is(err, lost) || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want %v", err, lost)
	}
	if err := job(ctx, run); !errors.Is(err, lost) {
		t.Errorf("started: got %v, want %v", err, lost)
	}
}

// An answer of 10 MB, or one that never ends, is neither read nor kept.
func TestMuchAnswer(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"10 MB": 10 << 20, "endless": math.MaxInt} {
		for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				t.Parallel()
				_, job := serve(t, "POST", func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(status)
					line := []byte(strings.Repeat("x", 64<<10))
					for sent := 0; sent < size; sent += len(line) {
						if _, err := w.Write(line); err != nil {
							return // the job has hung up
						}
					}
				})
				var bad *httpjob.StatusError
				err := job(t.Context(), run)
				if status == http.StatusOK && err != nil || status != http.StatusOK && !errors.As(err, &bad) {
					t.Fatalf("got %.1000v", err)
				}
				if err != nil && len(err.Error()) > 2<<10 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			})
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	_, job := serve(t, "POST", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, jobs.ErrTimeout)
	defer cancel()
	if err := job(ctx, run); !errors.Is(err, jobs.ErrTimeout) {
		t.Errorf("got %v, want %v", err, jobs.ErrTimeout)
	}
}

// The status decides: a body that never ends is left after a second.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	for status, good := range map[int]bool{200: true, 503: false} {
		over := make(chan struct{})
		_, job := serve(t, "POST", func(w http.ResponseWriter, r *http.Request) {
			defer close(over)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			<-r.Context().Done() // the caller has gone
		})
		done := make(chan error, 1)
		go func() { done <- job(t.Context(), run) }()
		select {
		case err := <-done:
			var bad *httpjob.StatusError
			if good && err != nil || !good && (!errors.As(err, &bad) || bad.Body != "begun") {
				t.Errorf("%d: %v", status, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%d: the job hangs", status)
		}
		<-over
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	server, job := serve(t, "POST", nil)
	server.Close()
	err := job(t.Context(), run)
	if err == nil || !strings.HasPrefix(err.Error(), "POST "+server.URL+"/ping: ") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	connections := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			connections++
		}
	}
	server.Start()
	defer server.Close()
	client := httpjob.NewClient("v1")
	defer client.Close()
	job := client.Job(httpjob.Request{Method: "POST", URL: server.URL})
	for range 5 {
		if err := job(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if connections != 1 {
		t.Errorf("%d connections for 5 requests", connections)
	}
}
