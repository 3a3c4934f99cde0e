package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A chat gets a readable text of each event, once.
func TestNotify(t *testing.T) {
	t.Parallel()
	texts := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		var message struct{ Text string }
		if err := json.Unmarshal(data, &message); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		texts <- message.Text
	}))
	t.Cleanup(server.Close)
	path := configure(t, `
  - {name: job, manual: true, exec: [sh, -c, 'echo "it \"broke\"" >&2; exit $CRONLEASE_ARGS']}
  - name: chat
    notify: {on_failure: all, on_recovery: all}
    recover: rerun
    retry: {attempts: 5}
    http:
      url: "`+server.URL+`"
      body: {template: '{"text": {{json .text}}}'}
`)
	w := startWorker(t, "run", "--config", path)
	_ = w
	ask := func(args ...string) {
		t.Helper()
		late := time.Now().Add(limit)
		for {
			r := command(t, append(args, "--config", path)...)
			if r.err == nil || strings.Contains(r.err.Error(), "did not succeed") || strings.Contains(r.err.Error(), "failed") {
				return
			}
			if time.Now().After(late) {
				t.Fatal(r.err)
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	want := func(parts ...string) {
		t.Helper()
		select {
		case got := <-texts:
			for _, part := range parts {
				if !strings.Contains(got, part) {
					t.Errorf("told %q, want %q", got, part)
				}
			}
		case <-time.After(limit):
			t.Fatalf("not told: %q", parts)
		}
	}
	ask("trigger", "chat")
	want("a test of the notifier chat (")
	ask("trigger", "job", "--args", "1", "--wait")
	want("job (", " failed: ", "exit status 1")
	ask("trigger", "job", "--args", "0", "--wait")
	want("job (", " works again")
	ask("trigger", "job", "--args", "0", "--wait")
	r := command(t, "jobs", "--config", path)
	if !strings.Contains(r.stdout, "on failure; on recovery; at most 20 per 1h0m0s") {
		t.Errorf("got %s", r.stdout)
	}
	if r := command(t, "runs", "--job", "chat", "--config", path); strings.Count(r.stdout, "(notice, args)") != 2 || strings.Count(r.stdout, "(triggered)") != 1 {
		t.Errorf("got %s", r.stdout)
	}
	if r := command(t, "backfill", "chat", "--from", "1d", "--config", path); r.err == nil || !strings.Contains(r.err.Error(), "it tells of other jobs") {
		t.Errorf("got %v", r.err)
	}
	select {
	case got := <-texts:
		t.Errorf("told %q, too", got)
	default:
	}
}
