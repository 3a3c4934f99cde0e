package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/store/ledger"
)

// DefaultName is the name of a store: what all its keys begin with. Its braces keep them in
// one slot of a cluster.
const DefaultName = "{cronlease}"

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("the store is closed")

// Store keeps leases and locks in Redis or Valkey. It is safe for concurrent use.
type Store struct {
	rules
	client redis.UniversalClient
	own    bool    // the client is the store's
	target *target // nil: the client is the caller's
	name   string
	topics *topics

	closing context.Context // ends with Close
	close   context.CancelFunc
	once    sync.Once
	closed  error
}

// Option is an option of [Open] and [New].
type Option func(*Store) error

// WithName sets the name of the store, which all its keys begin with. It has to contain a hash tag, such as
// "{billing}", so that a cluster keeps the keys in one slot. Default: [DefaultName].
func WithName(name string) Option {
	return func(s *Store) error {
		open := strings.IndexByte(name, '{')
		if open < 0 || strings.IndexByte(name[open:], '}') < 2 || len(name) > 64 {
			return fmt.Errorf("redisstore: name %.80q: expected one with a hash tag, such as %q, of at most 64 bytes", name, "{billing}")
		}
		s.name = name
		return nil
	}
}

// Open returns a store on the server of a URL:
//
//	redis://user:password@host:6379/0
//	redis+sentinel://user:password@host1:26379,host2:26379/name/0
//	redis+cluster://user:password@host1:6379,host2:6379
//
// The second finds the primary by sentinels, which know it by that name; the third finds the server of a cluster that
// has the store's keys. With rediss instead of redis, all connections use TLS and verify the server. User, password,
// the number of the database (default: 0) and ports are optional; a password without a user is :password@. Special
// characters are percent-encoded. The parameters, as in ?name=value&name=value:
//
//	password_file                    a file with the password and nothing else, which is read for each connection
//	ca, cert, key, server_name       for TLS: authorities instead of the system's, a client's certificate and key, and whose certificate the
//	                                 server shows if not the host's; paths of PEM files, which are read for each connection
//	sentinel_user, sentinel_password the login to the sentinels, where they ask for one
//	name                             see [WithName], which goes before it
//	pool_size                        the most connections to a server; default: ten for each processor
//	socket                           the path of a Unix socket, instead of a host
//
// It connects with the first use. An error names what is wrong, and never shows a part of the URL that may be a password. Close the store.
func Open(url string, options ...Option) (*Store, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: URL: %w", err)
	}
	if t.name != "" {
		options = append([]Option{WithName(t.name)}, options...)
	}
	client := t.client()
	s, err := newStore(client, options)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.own, s.target = true, t
	return s, nil
}

// NewClient returns a client for the URL of a store ([Open]), for commands of the program's own: a *[redis.ClusterClient] for a cluster, and a
// *[redis.Client] otherwise. It reads all that the URL names as a store does, but for name, and repeats no command by itself. It has connections of its own,
// which keep no heartbeat waiting, and connects with the first use. Close it.
func NewClient(url string) (redis.UniversalClient, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: URL: %w", err)
	}
	return t.client(), nil
}

// New returns a store on a client of the caller, which the caller closes after the store. The client has to send all of one
// store's commands to the primary ([redis.FailoverOptions].ReplicaOnly and the like are off), and should have
// ContextTimeoutEnabled and no retries (MaxRetries: -1).
func New(client redis.UniversalClient, options ...Option) (*Store, error) {
	return newStore(client, options)
}

func newStore(client redis.UniversalClient, options []Option) (*Store, error) {
	s := &Store{client: client, name: DefaultName}
	for _, set := range options {
		if err := set(s); err != nil {
			return nil, err
		}
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.topics = newTopics(client)
	s.rules = ledger.New("redisstore", rows{s})
	return s, nil
}

// Close ends what waits on the store, and its connections. Closing twice is closing once.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.close()
		s.closed = s.topics.close()
		if s.own {
			s.closed = errors.Join(s.closed, s.client.Close())
		}
	})
	return s.closed
}

func (s *Store) key(kind, name string) string { return s.name + ":" + kind + ":" + name }
