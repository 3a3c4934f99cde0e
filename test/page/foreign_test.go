package page_test

import (
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
)

// A browser sends less over plain HTTP from another machine than from this one: no
// Sec-Fetch-Site, and an origin only as far as the Referrer-Policy lets it. There, too, a user can act,
// and a page of another origin cannot act in the user's name.
func TestForeignPage(t *testing.T) {
	g := newGroup(t)
	b := newBrowser(t)
	s, err := scheduler.New(g.store, groupName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := page.New(s, g.store, page.WithAuth(func(http.ResponseWriter, *http.Request) (page.User, bool) {
		return page.User{Name: "alice", Role: page.Steer}, true // as of a browser that has the password
	}))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: closing(p)}}
	server.Start()
	t.Cleanup(server.Close)

	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/do"><input name="action" value="pause"><input name="job" value="mail.digest"><button>Win</button></form>`, html.EscapeString(server.URL))
	}))
	t.Cleanup(foreign.Close)
	b.do(chromedp.Navigate(foreign.URL), chromedp.Click("button"))
	b.wait("the refusal", `document.body.innerText.includes("another origin")`)
	if paused(t, g) {
		t.Fatal("a foreign page has paused the job")
	}

	b.do(chromedp.Navigate(server.URL+"/confirm?action=pause&job=mail.digest"), chromedp.Click(`button[type="submit"]`))
	b.wait("what was done", `document.body.innerText.includes("Paused.")`)
	if !paused(t, g) {
		t.Error("the user has not paused the job")
	}
}

// ownAddress is an address of this machine that is not its loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but its loopback")
	return ""
}

func paused(t *testing.T, g *group) bool {
	t.Helper()
	snapshot, err := jobs.NewGroup(g.store, groupName).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.Jobs["mail.digest"].Paused
}
