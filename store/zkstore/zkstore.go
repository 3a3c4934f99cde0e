package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// DefaultRoot is the node below which a store keeps its own, unless its URL names another one.
const DefaultRoot = "/cronlease"

// DefaultSessionTimeout is how long the ensemble waits for a client that it does not hear of, by default.
const DefaultSessionTimeout = 6 * time.Second

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("the store is closed")

// Store keeps leases, ledgers and locks in ZooKeeper. It is safe for concurrent use.
type Store struct {
	root string
	acl  []zk.ACL
	link *link
	// clock is [instant], but in tests that step the ensemble's clock.
	clock func(*zk.Stat) time.Time

	ledgers  ledgers
	identity atomic.Pointer[identity]
	seen     atomic.Int64 // the highest zxid of an answer

	closing context.Context // ends with Close
	close   context.CancelFunc
	once    sync.Once
}

// settings are what options set.
type settings struct {
	timeout time.Duration
	acl     []zk.ACL
	dial    zk.Dialer
}

// Option is an option of [Open].
type Option func(*settings) error

// WithSessionTimeout sets for how long the ensemble waits for a client that it does not hear of. After a third of it without an answer the
// client turns to another server. The ensemble bounds it: to 2 to 20 of its ticks by default. Default: [DefaultSessionTimeout].
func WithSessionTimeout(timeout time.Duration) Option {
	return func(s *settings) error {
		if timeout < time.Second || timeout > time.Hour {
			return fmt.Errorf("zkstore: session timeout %v: must be from a second to an hour", timeout)
		}
		s.timeout = timeout
		return nil
	}
}

// WithACL sets who may do what with the nodes that the store creates. Default: with a user in the URL, all rights for that user
// ([zk.DigestACL]), and else all rights for all.
func WithACL(acl ...zk.ACL) Option {
	return func(s *settings) error {
		if len(acl) == 0 {
			return errors.New("zkstore: an empty ACL: nobody could use the nodes")
		}
		s.acl = acl
		return nil
	}
}

// WithDialer sets how connections are made, as for TLS. Default: [net.DialTimeout].
func WithDialer(dial func(network, address string, timeout time.Duration) (net.Conn, error)) Option {
	return func(s *settings) error {
		s.dial = dial
		return nil
	}
}

// Open returns a store in the ensemble of a URL: zk://user:password@h1:2181,h2:2181,h3:2181/root. The user is for the scheme digest; without
// a path, the store is below [DefaultRoot]. It connects with the first use. Close it.
func Open(address string, options ...Option) (*Store, error) {
	servers, root, user, err := parse(address)
	if err != nil {
		return nil, err
	}
	o := settings{timeout: DefaultSessionTimeout, acl: zk.WorldACL(zk.PermAll), dial: net.DialTimeout}
	if user != nil {
		password, _ := user.Password()
		o.acl = zk.DigestACL(zk.PermAll, user.Username(), password)
	}
	for _, set := range options {
		if err := set(&o); err != nil {
			return nil, err
		}
	}
	s := &Store{root: root, acl: o.acl, clock: instant}
	s.closing, s.close = context.WithCancel(context.Background())
	s.link = newLink(servers, user, o)
	return s, nil
}

var errURL = errors.New("zkstore: the URL cannot be read: expected zk://user:password@h1:2181,h2:2181/root")

// parse takes a URL apart. Its errors do not show the password. Package url refuses several hosts with ports.
func parse(address string) (servers []string, root string, user *url.Userinfo, err error) {
	rest, ok := strings.CutPrefix(address, "zk://")
	if !ok {
		return nil, "", nil, errURL
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		if user, err = parseUser(hosts[:i]); err != nil {
			return nil, "", nil, err
		}
		hosts = hosts[i+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("zk://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host {
			return nil, "", nil, errURL
		}
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "2181")
		} else if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return nil, "", nil, errors.New("zkstore: URL: a port is not understood: expected one from 1 to 65535, such as 2181")
		}
		servers = append(servers, host)
	}
	root = DefaultRoot
	if path = strings.Trim(path, "/"); path != "" {
		root = "/" + path
	}
	for part := range strings.SplitSeq(root[1:], "/") {
		if part == "" || part == "." || part == ".." || part == "zookeeper" || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r > '~' || r == '?' || r == '%' }) {
			return nil, "", nil, errURL
		}
	}
	return servers, root, user, nil
}

// parseUser reads the user of a URL. ZooKeeper takes whatever it is told for the login, and the nodes would be for that: so a mistake is found here.
func parseUser(text string) (*url.Userinfo, error) {
	if _, rest, ok := strings.Cut(text, "@"); ok && strings.Contains(rest, ",") {
		return nil, errors.New("zkstore: URL: several users: expected one before all servers, as in zk://user:password@h1,h2 (an @ in the password is written as %40)")
	}
	u, err := url.Parse("zk://" + text + "@host")
	if err != nil {
		return nil, errURL
	}
	password, _ := u.User.Password()
	switch {
	case u.User.Username() == "" || password == "":
		return nil, errors.New("zkstore: URL: expected a user and a password, as in zk://user:password@host")
	case strings.Contains(u.User.Username(), ":"):
		return nil, errors.New("zkstore: URL: the user has a :, which the scheme digest does not know")
	}
	return u.User, nil
}

// Close ends what waits on the store, and its connection. Closing twice is closing once.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.close()
		s.link.close()
	})
	return nil
}

// path is that of a node of the store. Names have no % and no ~, so that two names have two paths.
func (s *Store) path(kind string, names ...string) string {
	path := s.root + "/" + kind
	for _, name := range names {
		path += "/" + element(name)
	}
	return path
}

func element(name string) string { return strings.ReplaceAll(name, "/", "%") }

func nameOf(element string) string { return strings.ReplaceAll(element, "%", "/") }
