package web

import (
	"net/http"
	"net/netip"
	"sync"
)

const (
	// maxShare is how many answers of one handler a client has at a time, and maxShares all together.
	maxShare  = 4
	maxShares = 40
)

// shares bounds how many answers of a handler are on the way, for each client by itself: clients that do
// not read theirs keep no other from one.
type shares struct {
	handler http.Handler

	mu  sync.Mutex
	of  map[netip.Prefix]int
	all int
}

func newShares(handler http.Handler) *shares {
	return &shares{handler: handler, of: map[netip.Prefix]int{}}
}

// ServeHTTP implements [http.Handler].
func (s *shares) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // those that are not known share
	client := clientOf(from.Addr())
	if !s.take(client) {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
		return
	}
	defer s.giveBack(client)
	s.handler.ServeHTTP(w, r)
}

func (s *shares) take(client netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[client] == maxShare || s.all == maxShares {
		return false
	}
	s.of[client]++
	s.all++
	return true
}

func (s *shares) giveBack(client netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[client]--; s.of[client] == 0 {
		delete(s.of, client)
	}
}
