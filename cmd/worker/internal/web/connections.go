package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// maxConnections is how many connections there are at a time.
const maxConnections = 500

// connections bounds how many there are. Where there is no room, it closes one of the
// client that has the most: a client that opens many keeps out only itself, and never the
// probes of another. Of that client's it is the one that was idle, or has been busy, for longest.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]*connection
	of   map[netip.Prefix]int // how many each client has
}

type connection struct {
	client netip.Prefix
	// since is when its state changed last, such as when its last request began.
	since time.Time
}

func newConnections() *connections {
	return &connections{open: map[net.Conn]*connection{}, of: map[netip.Prefix]int{}}
}

// changed is called by the server when a connection changes its state.
func (all *connections) changed(c net.Conn, state http.ConnState) {
	all.mu.Lock()
	defer all.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(all.open) >= maxConnections {
			all.makeRoom()
		}
		client := clientOf(addressOf(c))
		all.open[c] = &connection{client, time.Now()}
		all.of[client]++
	case http.StateActive, http.StateIdle:
		if is, ok := all.open[c]; ok {
			is.since = time.Now()
		}
	case http.StateClosed, http.StateHijacked:
		all.drop(c)
	}
}

// makeRoom closes a connection.
func (all *connections) makeRoom() {
	var worst net.Conn
	var of *connection
	for c, is := range all.open {
		switch {
		case worst == nil, all.of[is.client] > all.of[of.client], all.of[is.client] == all.of[of.client] && is.since.Before(of.since):
			worst, of = c, is
		}
	}
	all.drop(worst)
	if c, ok := worst.(*tls.Conn); ok {
		worst = c.NetConn() // to say good-bye would take time
	}
	_ = worst.Close()
}

func (all *connections) drop(c net.Conn) {
	is, ok := all.open[c]
	if !ok {
		return
	}
	delete(all.open, c)
	if all.of[is.client]--; all.of[is.client] == 0 {
		delete(all.of, is.client)
	}
}

// addressOf is the address of a client, zero if it is not known.
func addressOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}
