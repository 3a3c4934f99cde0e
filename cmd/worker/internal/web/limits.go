package web

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// loginsAtOnce is how many passwords a client may try at once, and loginEvery how often
	// one after that.
	loginsAtOnce = 10
	loginEvery   = 6 * time.Second
	// allAtOnce and allEvery are the same for all clients: they bound the work.
	allAtOnce = 20
	allEvery  = time.Second
	// maxLimits is how many clients are told apart.
	maxLimits = 4096
)

// limits bounds how often passwords are tried. A user whose password was right before is not
// concerned.
type limits struct {
	all *rate.Limiter

	mu sync.Mutex
	by map[netip.Prefix]*rate.Limiter
}

func newLimits() limits {
	return limits{all: rate.NewLimiter(rate.Every(allEvery), allAtOnce), by: map[netip.Prefix]*rate.Limiter{}}
}

// allow reports whether a password may be tried.
func (l *limits) allow(from netip.Addr) bool {
	client := clientOf(from)
	l.mu.Lock()
	of, ok := l.by[client]
	if !ok {
		if len(l.by) >= maxLimits {
			l.dropIdle()
		}
		of = rate.NewLimiter(rate.Every(loginEvery), loginsAtOnce)
		if len(l.by) < maxLimits {
			l.by[client] = of
		}
	}
	l.mu.Unlock()
	return of.Allow() && l.all.Allow()
}

// dropIdle forgets the clients that are as new ones again.
func (l *limits) dropIdle() {
	for client, of := range l.by {
		if of.Tokens() >= loginsAtOnce {
			delete(l.by, client)
		}
	}
}

// clientOf is what is taken for one client: an address, or a network of IPv6, of which
// a client has all addresses.
func clientOf(from netip.Addr) netip.Prefix {
	from = from.Unmap()
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	client, _ := from.WithZone("").Prefix(bits) // zero for no address
	return client
}
