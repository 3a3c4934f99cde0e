package page

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The stream has the present state first, then what changes, and ends with the client.
func TestEvents(t *testing.T) {
	t.Parallel()
	source := &counting{leader: leads("a\n\ndata: forged")}
	p, err := newPage("billing", source, nil, WithMaxClients(1))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Error(got)
	}
	lines := bufio.NewScanner(response.Body)
	next := func() news {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var n news
				if err := json.Unmarshal([]byte(data), &n); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				return n
			}
		}
		t.Fatal("the stream has ended: ", lines.Err())
		return news{}
	}
	if n := next(); n.Owner != "a\n\ndata: forged" {
		t.Errorf("%+v", n)
	}
	full, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	_ = full.Body.Close()
	if full.StatusCode != http.StatusServiceUnavailable || full.Header.Get("Retry-After") == "" {
		t.Errorf("one client too many: %s", full.Status)
	}
	source.set(leads("b"), nil)
	if n := next(); n.Owner != "b" {
		t.Errorf("%+v", n)
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); ; {
		p.live.mu.Lock()
		n := len(p.live.clients)
		p.live.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the client is still counted")
		}
		<-time.After(time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
}
