package zkstore

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

var _ zk.HostProvider = (*hosts)(nil)

// hosts are the servers that a client tries, in an order of its own, as the URL names them. Each connect looks up the
// name of its server. The client would look up all names once instead, fail where one of them is unknown, and never see
// that a server has another address.
type hosts struct {
	mu      sync.Mutex
	servers []string
	tried   int // since the last session, or since the last pause
	at      int // of the server that comes next
}

// Init implements [zk.HostProvider].
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = slices.Clone(servers)
	rand.Shuffle(len(h.servers), func(i, j int) { h.servers[i], h.servers[j] = h.servers[j], h.servers[i] })
	return nil
}

// Len implements [zk.HostProvider].
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next implements [zk.HostProvider]. The client pauses when all have been tried.
func (h *hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pause = h.tried == len(h.servers); pause {
		h.tried = 0
	}
	server = h.servers[h.at]
	h.at = (h.at + 1) % len(h.servers)
	h.tried++
	return server, pause
}

// Connected implements [zk.HostProvider].
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}
