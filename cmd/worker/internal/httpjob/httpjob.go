// Package httpjob sends HTTP requests as jobs.
package httpjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

const (
	maxExcerpt = 1 << 10     // of an answer's body, in an error
	maxDrain   = 64 << 10    // read of it, so that the connection can be used again
	drainFor   = time.Second // and for how long: some bodies never end
)

// StatusError says that the server answered with something else than 2xx.
type StatusError struct {
	Method, URL string // URL without credentials and query
	Status      string // "503 Service Unavailable"
	Location    string // where a redirect, which is not followed, points to
	Body        string // its beginning, at most 1 KiB
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: answered %s, expected 2xx", e.Method, e.URL, e.Status)
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
	http  *http.Client
	agent string
}

// NewClient returns a client that names itself cronlease/version. It follows no
// redirects: a job's address is what its configuration says, and nothing else.
func NewClient(version string) *Client {
	return &Client{
		agent: "cronlease/" + version,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
				ForceAttemptHTTP2:     true,
				MaxIdleConnsPerHost:   4,
				IdleConnTimeout:       90 * time.Second,
				TLSHandshakeTimeout:   10 * time.Second,
				ExpectContinueTimeout: time.Second,
				// How long the answer may take is up to the job's timeout.
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes the connections that are kept for the next request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Job returns a job function that sends a request without a body, with the
// headers Cronlease-Group, Cronlease-Job, Cronlease-Tick (RFC 3339, UTC),
// Cronlease-Owner, Cronlease-Token, Cronlease-Attempt, Cronlease-Missed and
// Cronlease-Trigger (0 unless the run was triggered by hand). It returns nil
// for any 2xx, a [*StatusError] for any other answer, whatever becomes of the
// body, which is read for a second at most; and an error that wraps the
// context's cause when the context ends first: the request may then have been
// carried out or not.
func (c *Client) Job(method, address string) func(context.Context, jobs.Run) error {
	shown := redact(address)
	return func(ctx context.Context, run jobs.Run) error {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		request, err := http.NewRequestWithContext(reading, method, address, nil)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, shown, hideURL(err))
		}
		request.Header.Set("User-Agent", c.agent)
		request.Header.Set("Cronlease-Group", run.Group)
		request.Header.Set("Cronlease-Job", run.Job)
		request.Header.Set("Cronlease-Tick", run.Tick.UTC().Format(time.RFC3339Nano))
		request.Header.Set("Cronlease-Owner", run.Owner)
		request.Header.Set("Cronlease-Token", strconv.FormatUint(run.Token, 10))
		request.Header.Set("Cronlease-Attempt", strconv.Itoa(run.Attempt))
		request.Header.Set("Cronlease-Missed", strconv.Itoa(run.Missed))
		request.Header.Set("Cronlease-Trigger", strconv.FormatUint(run.Trigger, 10))
		response, err := c.http.Do(request)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%s %s: no answer yet: %w", method, shown, context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("%s %s: %w", method, shown, hideURL(err))
		}
		defer response.Body.Close()
		defer time.AfterFunc(drainFor, stop).Stop()
		excerpt, _ := io.ReadAll(io.LimitReader(response.Body, maxExcerpt)) // the status alone decides
		_, _ = io.CopyN(io.Discard, response.Body, maxDrain)
		if response.StatusCode >= 200 && response.StatusCode < 300 {
			return nil
		}
		bad := &StatusError{
			Method: method, URL: shown, Status: response.Status,
			Body: strings.TrimSpace(strings.ToValidUTF8(string(excerpt), "")),
		}
		if location, err := response.Location(); err == nil && response.StatusCode/100 == 3 {
			bad.Location = redact(location.String())
		}
		return bad
	}
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
