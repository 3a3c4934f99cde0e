// Package httpjob sends HTTP requests as jobs.
package httpjob

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/cronlease/cronlease/cmd/worker/internal/argtext"
	"github.com/cronlease/cronlease/internal/cuttext"
	"github.com/cronlease/cronlease/jobs"
)

const (
	maxExcerpt = 1 << 10     // of an answer's body, in an error
	maxDrain   = 64 << 10    // read of it, so that the connection can be used again
	drainFor   = time.Second // and for how long: some bodies never end
)

// StatusError says that the server answered with a code that is not expected.
type StatusError struct {
	Method, URL string // URL without credentials and query
	Status      string // "503 Service Unavailable"
	Expected    []Codes
	Location    string // where a redirect, which is not followed, points to
	Body        string // its beginning, at most 1 KiB
}

func (e *StatusError) Error() string {
	expected := make([]string, len(e.Expected))
	for i, c := range e.Expected {
		expected[i] = c.String()
	}
	text := fmt.Sprintf("%s %s: answered %s, expected %s", e.Method, e.URL, e.Status, strings.Join(expected, " or "))
	if e.Location != "" {
		text += fmt.Sprintf("; redirects are not followed, and this one leads to %s", e.Location)
	}
	if e.Body != "" {
		text += fmt.Sprintf("; its body begins with %q", e.Body)
	}
	return text
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	agent string

	mu  sync.Mutex // guards all below
	all map[TLS]*connections
}

// NewClient returns a client that names itself cronlease/version. It follows no
// redirects: a job's address is what its configuration says, and nothing else.
func NewClient(version string) *Client {
	return &Client{agent: "cronlease/" + version, all: map[TLS]*connections{}}
}

func newHTTP(config *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			TLSClientConfig:       config,
			MaxIdleConnsPerHost:   4,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			// How long the answer may take is up to the job's timeout.
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// connections returns those of the jobs with these files.
func (c *Client) connections(files TLS) *connections {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[files] == nil {
		c.all[files] = &connections{files: files}
	}
	return c.all[files]
}

// Close closes the connections that are kept for the next request.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, connections := range c.all {
		connections.close()
	}
}

// Job returns a job function that sends the request, with its headers and with Cronlease-Group, Cronlease-Job,
// Cronlease-Tick (RFC 3339, UTC), Cronlease-Owner, Cronlease-Token, Cronlease-Attempt, Cronlease-Last-Attempt (true or
// false), Cronlease-Previous-State (not with the first attempt), Cronlease-Missed, Cronlease-Trigger (0 for a tick of
// the schedule), Cronlease-Shard and Cronlease-Shards (0 unless the run is a shard), and with traceparent if ctx has a
// span. The arguments of a run are its body, as application/json, unless the request has a body or a template of its
// own or is a GET or HEAD. It returns nil for an expected answer, a [*StatusError] for any other one, whatever becomes
// of the body, which is read for a second at most; and an error that wraps the context's cause when the context ends
// first: the request may then have been carried out or not. Files are read at the start of each run; nothing is sent
// when that fails.
func (c *Client) Job(r Request) func(context.Context, jobs.Run) error {
	connections, shown := c.connections(r.TLS), redact(r.URL)
	if r.URLFile != "" { // also its path may be a secret, as that of a web hook
		shown = "the URL of " + r.URLFile
	}
	return func(ctx context.Context, run jobs.Run) error {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s %s: "+format, append([]any{r.Method, shown}, args...)...)
		}
		what, err := r.ready()
		if err != nil {
			return fail("not sent: %w", err)
		}
		client, err := connections.client()
		if err != nil {
			return fail("not sent: %w", err)
		}
		reading, stop := context.WithCancel(ctx)
		defer stop()
		request, err := what.build(reading, c.agent, run)
		if err != nil {
			return fail("%w", hideURL(err))
		}
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header)) // nothing without a span
		what.Secrets = append(what.Secrets, argtext.Texts(run.Args)...)
		response, err := client.Do(request)
		switch {
		case err != nil && ctx.Err() != nil:
			return fail("no answer yet: %w", context.Cause(ctx))
		case err != nil:
			return fail("%w", what.hidden(err))
		}
		defer response.Body.Close()
		defer time.AfterFunc(drainFor, stop).Stop()
		body, _ := io.ReadAll(io.LimitReader(response.Body, int64(maxDrain+what.longestSecret()))) // the status alone decides
		text := what.hide(string(body))
		_, _ = io.WriteString(jobs.Output(ctx), text[:min(len(text), maxDrain)]) // never fails
		if what.expects(response.StatusCode) {
			return nil
		}
		bad := &StatusError{
			Method: r.Method, URL: shown, Status: what.hide(response.Status), Expected: what.expected(),
			Body: what.excerpt(string(body)),
		}
		if location, err := response.Location(); err == nil && response.StatusCode/100 == 3 {
			bad.Location = what.hide(redact(location.String()))
		}
		return bad
	}
}

// build returns the request of a run.
func (r Request) build(ctx context.Context, agent string, run jobs.Run) (*http.Request, error) {
	var body io.Reader // http.NewRequest takes a nil *strings.Reader for a body
	args := r.Body == "" && r.BodyFile == "" && r.Template == "" && run.Args != nil && r.Method != http.MethodGet && r.Method != http.MethodHead
	switch {
	case args:
		body = bytes.NewReader(run.Args)
	case r.Template != "":
		text, err := r.fill(run)
		if err != nil {
			return nil, fmt.Errorf("not sent: body: %w", err)
		}
		body = bytes.NewReader(text)
	case r.Body != "":
		body = strings.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", agent)
	if args || r.Template != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
			continue
		}
		request.Header.Set(h.Name, h.Value)
	}
	request.Header.Set("Cronlease-Group", run.Group)
	request.Header.Set("Cronlease-Job", run.Job)
	request.Header.Set("Cronlease-Tick", run.Tick.UTC().Format(time.RFC3339Nano))
	request.Header.Set("Cronlease-Owner", run.Owner)
	request.Header.Set("Cronlease-Token", strconv.FormatUint(run.Token, 10))
	request.Header.Set("Cronlease-Attempt", strconv.Itoa(run.Attempt))
	request.Header.Set("Cronlease-Last-Attempt", strconv.FormatBool(run.LastAttempt))
	if run.Previous.State != 0 {
		request.Header.Set("Cronlease-Previous-State", run.Previous.State.String())
	}
	request.Header.Set("Cronlease-Missed", strconv.Itoa(run.Missed))
	request.Header.Set("Cronlease-Trigger", strconv.FormatUint(run.Trigger, 10))
	request.Header.Set("Cronlease-Shard", strconv.Itoa(run.Shard))
	request.Header.Set("Cronlease-Shards", strconv.Itoa(run.Shards))
	return request, nil
}

// excerpt is the beginning of an answer's body, for an error.
func (r Request) excerpt(body string) string {
	body = r.hide(body)
	return strings.TrimSpace(strings.ToValidUTF8(body[:min(len(body), maxExcerpt)], ""))
}

// hidden takes the address, and what a server has said of the secrets, out of the client's error: net/http repeats
// what it cannot read of an answer.
func (r Request) hidden(err error) error {
	err = hideURL(err)
	return cuttext.Error(err, r.hide(err.Error()))
}

// hideURL takes the address, which may hold credentials, out of the client's
// errors.
func hideURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return inner.Err
	}
	return err
}

// redact leaves out what may be a secret.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that is no URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
