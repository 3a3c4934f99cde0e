package dbtest

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// Direction is one of the two ways through a [Proxy].
type Direction int

// The two ways through a proxy.
const (
	ToServer Direction = iota
	ToClient
)

// Proxy stands between clients and a database server on loopback, and breaks the network between them as told.
//
// Faults stay until Pass, and hold for connections that are open and for those to come, if not said otherwise. The
// methods may be called from several goroutines.
type Proxy struct {
	tb     testing.TB
	target string
	addr   string
	plain  bool // its protocol is not MySQL's: what is sent in one piece is a statement
	work   sync.WaitGroup

	mu       sync.Mutex // guards all below
	listener net.Listener
	links    map[*link]struct{}
	hole     [2]bool
	delay    [2]time.Duration
	drop     *drop
	replaced [2][][2][]byte // texts and what stands in their place
	changed  chan struct{}  // closed, and replaced, when hole or delay changes
	closed   bool
}

// drop is an order to lose a message.
type drop struct {
	text      string
	direction Direction // which message: the request (ToServer) or its reply
	done      chan struct{}
}

// NewProxy starts a proxy for the server at the address target, which need not run yet. It ends when the test does.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return newProxy(tb, target, false)
}

// NewRedisProxy is NewProxy for a server of Redis. To DropReply and DropRequest, a statement is what a client sends in one
// piece: a command with its arguments, or a pipeline.
func NewRedisProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return newProxy(tb, target, true)
}

// NewZooKeeperProxy is NewProxy for a server of ZooKeeper. To DropReply and DropRequest, a statement is what a client
// sends in one piece, whose paths are legible.
func NewZooKeeperProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return newProxy(tb, target, true)
}

func newProxy(tb testing.TB, target string, plain bool) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, target: target, plain: plain, links: map[*link]struct{}{}, changed: make(chan struct{})}
	for p.listener == nil {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(dbserver.RandomPort()))
		switch err := p.listen(addr); {
		case err == nil:
			p.addr = addr
		case !errors.Is(err, syscall.EADDRINUSE):
			tb.Fatalf("start a proxy: %v", err)
		}
	}
	tb.Cleanup(p.Close)
	return p
}

// listen is called with the mutex held, or by NewProxy.
func (p *Proxy) listen(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	p.listener = listener
	p.work.Go(func() { p.accept(listener) })
	return nil
}

// Addr returns the address for clients, host:port.
func (p *Proxy) Addr() string { return p.addr }

// Pass ends all faults. What a black hole held back is delivered now, late, as by a network that heals.
func (p *Proxy) Pass() {
	p.change(func() {
		p.hole, p.delay, p.drop = [2]bool{}, [2]time.Duration{}, nil
		if p.listener == nil && !p.closed {
			if err := p.listen(p.addr); err != nil {
				p.tb.Errorf("let the proxy accept connections again: %v", err)
			}
		}
	})
}

// BlackHole lets nothing through in the given directions, or in both if none is given. Senders do not notice: their
// bytes, and the end of their connections, are accepted and held back until Pass. Reset throws them away. New
// connections are accepted, but do not reach the server.
func (p *Proxy) BlackHole(directions ...Direction) {
	p.change(func() {
		for _, d := range both(directions) {
			p.hole[d] = true
		}
	})
}

// Delay makes everything late by d in the given directions, or in both if none is given.
func (p *Proxy) Delay(d time.Duration, directions ...Direction) {
	p.change(func() {
		for _, direction := range both(directions) {
			p.delay[direction] = d
		}
	})
}

// Refuse lets the system refuse new connections. Those that are open stay.
func (p *Proxy) Refuse() {
	p.change(func() {
		if p.listener != nil {
			p.stopListening()
		}
	})
}

// Reset cuts all open connections with an RST to both sides, and returns how many there were. New ones are not affected.
func (p *Proxy) Reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
	return len(p.links)
}

// DropReply loses one reply: the next statement that contains text (any statement if it is empty) reaches the server and
// is executed, its reply is swallowed, and the connection is closed then. The returned channel is closed when that has
// happened. It works on connections without TLS and compression, on plain and on prepared statements.
func (p *Proxy) DropReply(text string) <-chan struct{} { return p.order(text, ToClient) }

// DropRequest loses one request: the next statement that contains text (any statement if it is empty) does not reach the
// server, and its connection is closed. Else it is as DropReply.
func (p *Proxy) DropRequest(text string) <-chan struct{} { return p.order(text, ToServer) }

func (p *Proxy) order(text string, direction Direction) <-chan struct{} {
	d := &drop{text: text, direction: direction, done: make(chan struct{})}
	p.change(func() { p.drop = d })
	return d.done
}

// Close ends all connections, and returns when all goroutines of the proxy have ended.
func (p *Proxy) Close() {
	p.change(func() {
		p.closed = true
		if p.listener != nil {
			p.stopListening()
		}
		for l := range p.links {
			l.close()
		}
	})
	p.work.Wait()
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) stopListening() {
	_ = p.listener.Close() // closed once, so there is no error
	p.listener = nil
}

// accept ends when the listener is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// serve runs one connection to its end.
func (p *Proxy) serve(client net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{proxy: p, client: client, done: ctx.Done(), cancel: cancel}
	defer l.close()
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	for _, d := range both(nil) {
		if !l.hold(d, time.Now()) {
			return
		}
	}
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		l.reset() // the client learns that there is no server
		return
	}
	if !l.connect(server) {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(l.requests)
	pumps.Go(l.replies)
	pumps.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// state returns what the proxy does in that direction now, and a channel that is closed when this changes.
func (p *Proxy) state(d Direction) (hole bool, delay time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hole[d], p.delay[d], p.changed
}

// take returns the order to lose this statement's request or reply, if there is one. Each order is taken once.
func (p *Proxy) take(statement string) *drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.drop
	if d == nil || !strings.Contains(statement, d.text) {
		return nil
	}
	p.drop = nil
	return d
}

func both(directions []Direction) []Direction {
	if len(directions) == 0 {
		return []Direction{ToServer, ToClient}
	}
	return slices.Clone(directions)
}
