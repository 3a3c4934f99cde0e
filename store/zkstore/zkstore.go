package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/store/ledger"
)

// DefaultRoot is the node below which a store keeps its own, unless its URL names another one.
const DefaultRoot = "/cronlease"

// DefaultSessionTimeout is how long the ensemble waits for a client that it does not hear of, by default.
const DefaultSessionTimeout = 6 * time.Second

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("the store is closed")

// Store keeps leases, ledgers and locks in ZooKeeper. It is safe for concurrent use.
type Store struct {
	rules
	reads

	root string
	acl  []zk.ACL
	link *link
	// clock is [instant], but in tests that step the ensemble's clock.
	clock func(*zk.Stat) time.Time

	ledgers  ledgers
	identity atomic.Pointer[identity]
	settled  atomic.Pointer[settled]
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
// (of the scheme by which it logs in), and else all rights for all.
func WithACL(acl ...zk.ACL) Option {
	return func(s *settings) error {
		if len(acl) == 0 {
			return errors.New("zkstore: an empty ACL: nobody could use the nodes")
		}
		s.acl = acl
		return nil
	}
}

// WithDialer sets how connections are made. With a URL of the scheme zks, TLS begins on top of them. Default: [net.DialTimeout].
func WithDialer(dial func(network, address string, timeout time.Duration) (net.Conn, error)) Option {
	return func(s *settings) error {
		s.dial = dial
		return nil
	}
}

// Open returns a store in the ensemble of a URL: zk://user:password@h1:2181,h2:2181,h3:2181/root, with zks for TLS.
// Without a path, the store is below [DefaultRoot]. The user is for the scheme digest, or with the parameter auth=sasl
// for SASL (DIGEST-MD5). For TLS there are the parameters ca, cert and key, paths of PEM files, which are read by Open
// and for each connection, and server_name. The store connects with its first use, so Open only returns an error for
// what it was given. Close it.
func Open(address string, options ...Option) (*Store, error) {
	t, err := parseURL(address)
	if err != nil {
		return nil, fmt.Errorf("zkstore: URL: %w", err)
	}
	o := settings{timeout: DefaultSessionTimeout, acl: t.acl(), dial: net.DialTimeout}
	for _, set := range options {
		if err := set(&o); err != nil {
			return nil, err
		}
	}
	s := &Store{root: t.root, acl: o.acl, clock: instant}
	s.closing, s.close = context.WithCancel(context.Background())
	s.link = newLink(t, o)
	s.rules, s.reads = ledger.New("zkstore", ledgerRows{s}), ledger.NewReads(s.view)
	return s, nil
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
