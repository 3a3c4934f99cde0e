package page_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a page of a group with one job, over HTTP.
type bench struct {
	*testing.T
	store     *memstore.Store
	scheduler *scheduler.Scheduler
	page      *page.Page
	url       string
}

// newBench runs a scheduler that leads, and serves its page.
func newBench(t *testing.T, options ...page.Option) *bench {
	t.Helper()
	b := benchAtRest(t, options...)
	b.run()
	return b
}

// benchAtRest is a bench whose scheduler does not run.
func benchAtRest(t *testing.T, options ...page.Option) *bench {
	t.Helper()
	db := memstore.New()
	s, err := scheduler.New(db, "billing")
	if err != nil {
		t.Fatal(err)
	}
	do := func(ctx context.Context, _ jobs.Run) error {
		_, err := io.WriteString(jobs.Output(ctx), "printed")
		return err
	}
	if err := s.Add(jobs.Job{Name: "report", Schedule: jobs.Every(time.Hour), Do: do}); err != nil {
		t.Fatal(err)
	}
	p, err := page.New(s, db, options...)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return &bench{T: t, store: db, scheduler: s, page: p, url: server.URL}
}

// run runs the scheduler until the test ends, and waits until it leads and has declared its job.
func (b *bench) run() {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.scheduler.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	b.wait("the job is declared", func() bool {
		snapshot, err := b.scheduler.Jobs().Load(b.Context())
		return err == nil && len(snapshot.Jobs) == 1
	})
}

// wait waits until is says so.
func (b *bench) wait(what string, is func() bool) {
	b.Helper()
	end := time.Now().Add(20 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !is() {
		if time.Now().After(end) {
			b.Fatalf("not within 20 s: %s", what)
		}
		<-again.C
	}
}

// answer is an answer with its body read.
type answer struct {
	*http.Response
	body string
}

// send sends a request without following redirects.
func (b *bench) send(method, path string, form url.Values, change ...func(*http.Request)) answer {
	b.Helper()
	if form != nil {
		change = append([]func(*http.Request){header("Content-Type", "application/x-www-form-urlencoded")}, change...)
	}
	return b.request(method, path, form.Encode(), change...)
}

// sendText posts a body.
func (b *bench) sendText(path, body string, change ...func(*http.Request)) answer {
	b.Helper()
	return b.request(http.MethodPost, path, body, change...)
}

func (b *bench) request(method, path, body string, change ...func(*http.Request)) answer {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer{response, string(said)}
}

func (b *bench) get(path string, change ...func(*http.Request)) answer {
	b.Helper()
	return b.send(http.MethodGet, path, nil, change...)
}

// is reports an answer that has another status.
func (b *bench) is(a answer, status int) answer {
	b.Helper()
	if a.StatusCode != status {
		b.Errorf("%s %s: status %d, want %d: %.400s", a.Request.Method, a.Request.URL, a.StatusCode, status, a.body)
	}
	return a
}

// Each view is served, with the headers that keep foreign scripts out, and without a
// script or a style in the page itself.
func TestViewsAreServed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, path := range []string{"/", "/job?name=report", "/locks", "/audit"} {
		a := b.is(b.get(path), http.StatusOK)
		policy := a.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q", path, policy)
		}
		if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, a.Header)
		}
		for _, inline := range []string{" style=", "<style", " onclick=", "<script>", "javascript:"} {
			if strings.Contains(a.body, inline) {
				t.Errorf("%s: has %q, which the policy forbids", path, inline)
			}
		}
	}
	b.is(b.get("/nothing"), http.StatusNotFound)
	b.is(b.get("/static/page.css"), http.StatusOK)
	b.is(b.get("/static/"), http.StatusNotFound)
	b.is(b.send(http.MethodPost, "/job?name=report", nil), http.StatusMethodNotAllowed)
}

// While a run goes on, nobody knows what it has printed: that is told at the end of each attempt.
func TestOutputOfARunningRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	end, printed := make(chan struct{}), make(chan struct{})
	job := jobs.Job{Name: "slow", Schedule: jobs.Manual(), Do: func(ctx context.Context, _ jobs.Run) error {
		_, err := io.WriteString(jobs.Output(ctx), "the half")
		close(printed)
		<-end
		return err
	}}
	if err := b.scheduler.Add(job); err != nil {
		t.Fatal(err)
	}
	var key jobs.Key
	b.wait("the job is declared", func() bool {
		var err error
		key, err = b.scheduler.Jobs().Trigger(t.Context(), "slow")
		return err == nil
	})
	<-printed
	address := "job=slow&trigger=" + strconv.FormatUint(key.Trigger, 10) + "&tick=" + url.QueryEscape(key.Tick.Format(time.RFC3339Nano))
	for _, path := range []string{"/run?" + address, "/job?name=slow"} {
		if a := b.is(b.get(path), http.StatusOK); strings.Contains(a.body, "printed nothing") || !strings.Contains(a.body, "What it prints is shown when this attempt has ended") {
			t.Errorf("%s claims to know what is printed", path)
		}
	}
	if a := b.is(b.get("/api/run?"+address), http.StatusOK); !strings.Contains(a.body, `"output":null`) {
		t.Error(a.body)
	}
	close(end)
	b.wait("its output", func() bool { return strings.Contains(b.get("/run?"+address).body, ">the half</pre>") })
}

// The newest output of a job says when its run was due.
func TestLastOutputNamesItsRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, err := b.scheduler.Jobs().Trigger(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	b.wait("the run is over", func() bool {
		run, err := b.scheduler.Jobs().Run(t.Context(), key)
		return err == nil && run.State == jobs.Succeeded
	})
	a := b.is(b.get("/job?name=report"), http.StatusOK)
	if !strings.Contains(a.body, ">printed</pre>") || !strings.Contains(a.body, ">of the run of <time datetime=") {
		t.Errorf("got %s", a.body)
	}
}

// Below any path of a mux, links and the answers to actions stay below it.
func TestBelowAPath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mux := http.NewServeMux()
	mux.Handle("/admin/cron/", http.StripPrefix("/admin/cron", b.page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.url = server.URL + "/admin/cron"
	for _, path := range []string{"/", "/job?name=report", "/locks", "/audit", "/confirm?action=pause&job=report"} {
		a := b.is(b.get(path), http.StatusOK)
		for _, attribute := range []string{`href="/`, `src="/`, `action="/`} {
			if strings.Contains(a.body, attribute) {
				t.Errorf("%s: has %s, which leads out of the mount", path, attribute)
			}
		}
	}
	b.leadsTo(b.do(form("pause", "report")), "job?name=report", "Paused.")
}
