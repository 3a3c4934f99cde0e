package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/page"
)

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// A page that a foreign name was led to is not answered: it would be of that name's origin.
func TestHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t, page.WithHosts("cron.example.com"))
	for name, status := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1:1": 200, "[::1]:8080": 200, "10.1.2.3": 200, "cron.example.com": 200,
		"Cron.Example.Com.:443": 200,
		"evil.example.com":      421, "cron.example.com.evil.net": 421, "localhost.evil.net": 421, "127.0.0.1.evil.net": 421, "127.0.0.1@evil.net": 421,
	} {
		b.is(b.get("/", host(name)), status)
		b.is(b.get("/static/page.css", host(name)), status)
		b.is(b.get("/healthz", host(name)), http.StatusOK) // it is open
	}
	for _, name := range []string{"", "a b", "http://x", "x:80", "*"} {
		if _, err := page.New(b.scheduler, b.store, page.WithHosts(name)); err == nil {
			t.Errorf("%q is a host", name)
		}
	}
}

// Without logins, only clients of this machine that reach the page directly are answered.
func TestLocalOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		from, header string
		status       int
	}{
		{"127.0.0.1:1", "", 200}, {"[::1]:1", "", 200}, {"[::ffff:127.0.0.1]:1", "", 200},
		{"10.1.2.3:1", "", 403}, {"[2001:db8::1]:1", "", 403}, {"@", "", 403}, {"", "", 403},
		{"127.0.0.1:1", "X-Forwarded-For", 403}, {"127.0.0.1:1", "Forwarded", 403}, {"127.0.0.1:1", "X-Real-IP", 403}, {"127.0.0.1:1", "Via", 403},
		{"127.0.0.1:1", "X-Forwarded-Proto", 403}, {"127.0.0.1:1", "CF-Connecting-IP", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		r.RemoteAddr = test.from
		if test.header != "" {
			r.Header.Set(test.header, "127.0.0.1")
		}
		w := httptest.NewRecorder()
		if b.page.ServeHTTP(w, r); w.Code != test.status {
			t.Errorf("from %q with %q: status %d, want %d", test.from, test.header, w.Code, test.status)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"an empty header": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "") },
		"nginx' default":  func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0 },
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		r.RemoteAddr = "127.0.0.1:1"
		change(r)
		w := httptest.NewRecorder()
		if b.page.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
}

// A page of another origin can have a user's browser send a form, and nothing comes of it.
func TestForeignOrigins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pause := form("pause", "report")
	for _, foreign := range []func(*http.Request){
		header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Site", "same-site"),
		header("Origin", "https://evil.example.com"), header("Origin", "null"),
	} {
		b.is(b.send(http.MethodPost, "/do", pause, foreign), http.StatusForbidden)
	}
	if b.snapshot().Jobs["report"].Paused {
		t.Error("a foreign page has paused the job")
	}
	// A link to the page is fine, and does nothing.
	b.is(b.get("/confirm?action=pause&job=report", header("Sec-Fetch-Site", "cross-site")), http.StatusOK)
	if b.snapshot().Jobs["report"].Paused {
		t.Error("a link has paused the job")
	}
	b.is(b.send(http.MethodPost, "/do", pause, header("Origin", b.url), header("Sec-Fetch-Site", "same-origin")), http.StatusSeeOther)
	if !b.snapshot().Jobs["report"].Paused {
		t.Error("the page itself has not paused the job")
	}
}

// Users who may look see everything and do nothing; those without a role see nothing.
func TestRoles(t *testing.T) {
	t.Parallel()
	auth := func(w http.ResponseWriter, r *http.Request) (page.User, bool) {
		switch name := r.Header.Get("X-Test-User"); name {
		case "alice":
			return page.User{Name: name, Role: page.Steer}, true
		case "bob":
			return page.User{Name: name, Role: page.Look}, true
		case "carol":
			return page.User{Name: name}, true
		}
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return page.User{}, false
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1")) })
	b := newBench(t, page.WithAuth(auth), page.WithHandler("/metrics", metrics))
	as := func(name string) func(*http.Request) { return header("X-Test-User", name) }
	for _, path := range []string{"/", "/job?name=report", "/locks", "/audit", "/metrics", "/static/page.css"} {
		for name, status := range map[string]int{"alice": 200, "bob": 200, "carol": 403, "": 401} {
			b.is(b.get(path, as(name)), status)
		}
	}
	for name, status := range map[string]int{"bob": 403, "carol": 403, "": 401} {
		b.is(b.get("/confirm?action=pause&job=report", as(name)), status)
		b.is(b.send(http.MethodPost, "/do", form("pause", "report"), as(name)), status)
	}
	// Programs are refused in the form in which they are answered.
	for _, a := range []answer{
		b.is(b.send(http.MethodPost, "/do", form("pause", "report"), as("bob"), header("Accept", "application/json")), http.StatusForbidden),
		b.is(b.get("/api/status", as("carol")), http.StatusForbidden),
		b.is(b.get("/api/status", as("alice"), host("other.example")), http.StatusMisdirectedRequest),
	} {
		var refusal struct{ Error string }
		if err := json.Unmarshal([]byte(a.body), &refusal); err != nil || refusal.Error == "" {
			t.Errorf("%q: %v", a.body, err)
		}
	}
	if b.snapshot().Jobs["report"].Paused {
		t.Error("a user who may not act has paused the job")
	}
	if a := b.get("/", as("bob")); strings.Contains(a.body, "confirm?") {
		t.Error("offers actions to a user who may not act")
	}
	b.is(b.send(http.MethodPost, "/do", form("pause", "report"), as("alice")), http.StatusSeeOther)
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200} {
		b.is(b.get(path), status)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	b := benchAtRest(t)
	for name, option := range map[string]page.Option{
		"nil": nil, "WithAuth": page.WithAuth(nil), "WithLogger": page.WithLogger(nil), "WithMaxClients": page.WithMaxClients(-1),
		"WithHandler": page.WithHandler("metrics", http.NotFoundHandler()), "nil handler": page.WithHandler("/metrics", nil),
		"a path of the page": page.WithHandler("/audit", http.NotFoundHandler()),
	} {
		if _, err := page.New(b.scheduler, b.store, option); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := page.New(nil, b.store); err == nil {
		t.Error("without a scheduler: no error")
	}
	if _, err := page.New(b.scheduler, nil); err == nil {
		t.Error("without a store: no error")
	}
}

// A body that is too large is not read, and one that is no form is refused.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	large := form("trigger", "report")
	large.Set("args", `"`+strings.Repeat("a", 1<<20)+`"`)
	b.is(b.send(http.MethodPost, "/do", large), http.StatusRequestEntityTooLarge)
	allowed := form("trigger", "report")
	allowed.Set("args", `"`+strings.Repeat("%", 64<<10-2)+`"`)
	b.is(b.send(http.MethodPost, "/do", allowed), http.StatusSeeOther)
}
