package page_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

func ExampleNew() {
	store := memstore.New()
	s, err := scheduler.New(store, "billing") // that the service runs
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := page.New(s, store, page.WithAuth(func(w http.ResponseWriter, r *http.Request) (page.User, bool) {
		if r.Header.Get("X-Session") != "that of alice" { // the service knows its users
			http.Error(w, "log in first", http.StatusUnauthorized)
			return page.User{}, false
		}
		return page.User{Name: "alice", Role: page.Steer}, true
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/cron/", http.StripPrefix("/cron", p))
	mux.Handle("/readyz", page.Readyz(s))

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/cron/", "/readyz"} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Printf("%s: %d: %s", path, response.StatusCode, body)
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// /cron/: 401: log in first
	// /readyz: 503: not ready
	// starting: the scheduler does not run yet
}
