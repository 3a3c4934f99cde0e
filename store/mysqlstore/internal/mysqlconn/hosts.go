package mysqlconn

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// hosts are the servers of a DSN that names several, one of which takes the
// writes. All connections of a pool are to the same one, also those of its two
// pools: the first connect that finds another server to be the primary closes
// every connection to the former one, so that connections that only wait there (a
// hand-over signal, a notifier, an idle connection of the pool) move to the new one too.
type hosts struct {
	addrs  []string
	logins []*logins // as addrs

	mu      sync.Mutex // guards what follows
	current int        // of addrs: took writes when last asked; -1 before the first
	links   map[*link]struct{}
}

func newHosts(addrs []string) *hosts {
	h := &hosts{addrs: addrs, current: -1, links: map[*link]struct{}{}}
	for range addrs {
		h.logins = append(h.logins, newLogins())
	}
	return h
}

// link is a network connection to one of the hosts.
type link struct {
	*net.TCPConn // which lets the driver see whether the server has closed it
	hosts        *hosts
	host         int
}

func (l *link) Close() error {
	l.hosts.mu.Lock()
	delete(l.hosts.links, l)
	l.hosts.mu.Unlock()
	return l.TCPConn.Close()
}

func (h *hosts) dial(ctx context.Context, host int) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.addrs[host])
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dialled a %T", conn), conn.Close())
	}
	l := &link{TCPConn: tcp, hosts: h, host: host}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.links[l] = struct{}{}
	return l, nil
}

// next is the host to try: the current one, then the others in the DSN's order.
func (h *hosts) next(tried []bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current >= 0 && !tried[h.current] {
		return h.current
	}
	return slices.Index(tried, false)
}

// settle makes a host that takes writes the current one, unless another one
// became that meanwhile: then it returns false.
func (h *hosts) settle(host int, tried []bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == host {
		return true
	}
	if h.current >= 0 && !tried[h.current] {
		return false
	}
	h.current = host
	for l := range h.links {
		if l.host != host {
			_ = l.TCPConn.Close() // its user closes it again, and learns of it there
		}
	}
	return true
}

// hostConnector makes the connections of one pool.
type hostConnector struct {
	hosts   *hosts
	each    []driver.Connector // as hosts.addrs
	timeout time.Duration
}

var _ driver.Connector = (*hostConnector)(nil)

// connector returns one for connections with these settings. The settings'
// address is ignored.
func (h *hosts) connector(t *Target, config *mysql.Config) (*hostConnector, error) {
	c := &hostConnector{hosts: h, timeout: config.Timeout}
	for i, addr := range h.addrs {
		one := config.Clone()
		one.Addr = addr
		if one.TLSConfig != "" {
			one.TLS = nil // it may name the first host: the driver makes a new one, for this host
		}
		one.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx, i) }
		each, err := t.connector(one, h.logins[i])
		if err != nil {
			return nil, err
		}
		c.each = append(c.each, each)
	}
	return c, nil
}

// Driver implements [driver.Connector].
func (c *hostConnector) Driver() driver.Driver { return c.each[0].Driver() }

// Connect implements [driver.Connector]. It tries each host once.
func (c *hostConnector) Connect(ctx context.Context) (driver.Conn, error) {
	var failed hostsError
	tried := make([]bool, len(c.each))
	for left := len(c.each); left > 0 && ctx.Err() == nil; left-- {
		host := c.hosts.next(tried)
		conn, err := c.try(ctx, host, left)
		if err == nil {
			if c.hosts.settle(host, tried) {
				return conn, nil
			}
			_ = conn.Close() // nothing was sent on it
			err = errors.New("left, since another host took writes meanwhile")
		}
		tried[host] = true
		failed = append(failed, fmt.Errorf("%s: %w", c.hosts.addrs[host], err))
	}
	switch {
	case len(failed) == 0:
		return nil, ctx.Err()
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ctx.Err(), failed)
	}
	return nil, failed
}

// try connects to one host and asks it whether it takes writes. It has an equal
// share of the caller's time for that, with those that are left to try, and at
// most the DSN's timeout: a host that swallows everything must not use up the
// time of the others.
func (c *hostConnector) try(ctx context.Context, host, left int) (driver.Conn, error) {
	limit, h := c.share(ctx, left), hearingOf(ctx)
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	limited, end := h.bound(timed, left)
	defer end()
	conn, err := c.each[host].Connect(limited)
	if err == nil {
		if err = askFit(limited, conn); err == nil {
			return conn, nil
		}
		_ = conn.Close() // the error says more
	}
	if limited.Err() != nil && ctx.Err() == nil {
		if silence := h.share(left); timed.Err() == nil && silence > 0 {
			limit = silence
		}
		err = fmt.Errorf("no answer within %v", limit.Round(time.Millisecond))
	}
	return nil, err
}

// askFit returns an error that names the setting that keeps the server from
// writing, if there is one.
func askFit(ctx context.Context, conn driver.Conn) error {
	settings, err := ask(ctx, conn, whyUnfit)
	if err != nil {
		return cmp.Or(unfitOf(err), err)
	}
	return unfit(settings)
}

// ask returns the answer to a query for one text.
func ask(ctx context.Context, conn driver.Conn, query string) (string, error) {
	asker, ok := conn.(driver.QueryerContext)
	if !ok {
		return "", fmt.Errorf("cannot ask a %T", conn)
	}
	rows, err := asker.QueryContext(ctx, query, nil)
	if err != nil {
		return "", err
	}
	answer := make([]driver.Value, 1)
	err = rows.Next(answer)
	if err := errors.Join(err, rows.Close()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s", answer[0]), nil
}

// Host is what one server of a list says of itself.
type Host struct {
	Addr string
	// Server tells one server from another, also under another address; empty where Err
	// came before.
	Server string
	// Err says why the server cannot be used: it cannot be reached, refuses the login, or
	// takes no writes ([Host.ReadOnly]).
	Err error
}

// ReadOnly reports whether the server answers and takes no writes, as a replica does.
func (h Host) ReadOnly() bool { return errors.Is(h.Err, errReadOnly) }

// NotReady reports whether the server answers, and is a node of Galera that has no majority of its cluster, or is joining it.
func (h Host) NotReady() bool { return errors.Is(h.Err, errNotReady) }

// Hosts asks each server of the list, one after the other; none where the pool knows only
// one address.
func (p *Pool) Hosts(ctx context.Context) []Host {
	if p.hosts == nil {
		return nil
	}
	all := make([]Host, len(p.hosts.each))
	for i := range all {
		all[i] = p.hosts.host(ctx, i, len(all)-i)
	}
	return all
}

func (c *hostConnector) host(ctx context.Context, i, left int) Host {
	h := Host{Addr: c.hosts.addrs[i]}
	limited, cancel := context.WithTimeout(ctx, c.share(ctx, left))
	defer cancel()
	conn, err := c.each[i].Connect(limited)
	if err != nil {
		h.Err = err
		return h
	}
	defer conn.Close()
	if h.Server, h.Err = ask(limited, conn, serverName); h.Err == nil {
		h.Err = askFit(limited, conn)
	}
	return h
}

// share is how long one host may take, of so many that are left to try.
func (c *hostConnector) share(ctx context.Context, left int) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(c.timeout, time.Until(end)/time.Duration(left))
	}
	return c.timeout
}

// hostsError says why each of the hosts could not be used.
type hostsError []error

func (e hostsError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return "none of the hosts takes writes: " + strings.Join(texts, "; ")
}

// Unwrap returns the errors only if each is an answer of a server (a wrong
// password, no such database): what one says does not count for those that
// could not be asked.
func (e hostsError) Unwrap() []error {
	for _, err := range e {
		if !IsServerError(err) {
			return nil
		}
	}
	return e
}
