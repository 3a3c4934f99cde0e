package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cronlease/cronlease/internal/plainfile"
	"github.com/cronlease/cronlease/internal/spelling"
	"github.com/cronlease/cronlease/internal/tlsfiles"
)

// way is how a URL leads to the server that has the keys.
type way uint8

const (
	direct way = iota
	bySentinel
	byCluster
)

// The forms of a URL, and the port of a host that names none.
var wayForms = map[way]struct{ form, port string }{
	direct:     {"redis://user:password@host:6379/0", "6379"},
	bySentinel: {"redis+sentinel://user:password@host1:26379,host2:26379/name/0, with the name that the sentinels have for the primary", "26379"},
	byCluster:  {"redis+cluster://user:password@host1:6379,host2:6379", "6379"},
}

// ways are the schemes of a URL. Those that begin with rediss mean TLS.
var ways = map[string]way{
	"redis": direct, "rediss": direct, "redis+sentinel": bySentinel, "rediss+sentinel": bySentinel, "redis+cluster": byCluster, "rediss+cluster": byCluster,
}

// parameters of a URL.
var parameters = []string{"ca", "cert", "key", "name", "password_file", "pool_size", "sentinel_password", "sentinel_user", "server_name", "socket"}

const (
	// maxPoolSize bounds the parameter pool_size.
	maxPoolSize = 10_000
	// dialTimeout bounds a connect, with TLS.
	dialTimeout = 5 * time.Second
)

// target is where a URL leads to, and how.
type target struct {
	way            way
	hosts          []string // as host:port; one if the way is direct
	socket         string   // instead of them
	user, password string
	passwordFile   string
	database       int
	primary        string // the name that sentinels have for it
	sentinelUser   string
	sentinelPass   string
	withTLS        bool
	files          tlsfiles.Files
	poolSize       int
	name           string // of the store; empty: the default

	sent      atomic.Pointer[string]         // the password of the last login
	handshake atomic.Pointer[handshakeError] // the last one, unless it came about
}

// parseURL reads a URL. Its errors never have a part of it but known names: what is not understood may be a password.
func parseURL(raw string) (*target, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	w, ok := ways[scheme]
	if !ok {
		return nil, errors.New("the scheme is not understood: expected redis://, redis+sentinel:// or redis+cluster://, with rediss for TLS")
	}
	t := &target{way: w, withTLS: strings.HasPrefix(scheme, "rediss")}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	u, err := url.Parse(tail)
	switch {
	case err != nil:
		return nil, t.want("what follows the hosts is not understood")
	case u.Fragment != "" || strings.HasSuffix(tail, "#"):
		return nil, t.want("there is a #, which is written as %23")
	}
	hosts := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		hosts = authority[i+1:]
		if err := t.setUser(authority[:i]); err != nil {
			return nil, err
		}
	}
	if err := t.setParameters(u.RawQuery); err != nil {
		return nil, err
	}
	if err := t.setHosts(hosts); err != nil {
		return nil, err
	}
	if strings.Contains(u.EscapedPath(), "@") {
		// The first / ended the hosts: a part of the password would be taken for one, and be shown.
		return nil, t.want("there is an @ after the host (a /, ? or # in the password is written as %2F, %3F or %23)")
	}
	if err := t.setPath(u.Path); err != nil {
		return nil, err
	}
	return t, t.check()
}

// want is an error with the form of the URL.
func (t *target) want(problem string) error {
	return fmt.Errorf("%s: expected %s", problem, wayForms[t.way].form)
}

func (t *target) setUser(text string) (err error) {
	if _, rest, ok := strings.Cut(text, "@"); ok && strings.Contains(rest, ",") {
		return t.want("several users: one is before all hosts (an @ in the password is written as %40)")
	}
	user, password, _ := strings.Cut(text, ":")
	if t.user, err = url.PathUnescape(user); err == nil {
		t.password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("the user or the password has a % in it: expected %25")
	}
	return nil
}

func (t *target) setHosts(text string) error {
	if t.socket != "" {
		if text != "" || t.way != direct {
			return errors.New("a host and a socket: remove one of them")
		}
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		u, err := url.Parse("redis://" + one)
		if err != nil || u.User != nil || u.Host != one {
			return t.want("a host is not understood (a /, ? or # in the password is written as %2F, %3F or %23)")
		}
		port := u.Port()
		if port == "" {
			port = wayForms[t.way].port
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return t.want("a port is not understood")
		}
		if u.Hostname() == "" {
			return t.want("no host")
		}
		t.hosts = append(t.hosts, net.JoinHostPort(u.Hostname(), port))
	}
	if t.way == direct && len(t.hosts) > 1 {
		return errors.New("several hosts: expected redis+sentinel:// for sentinels, redis+cluster:// for a cluster, or the address of the primary alone")
	}
	return nil
}

func (t *target) setPath(path string) error {
	database := strings.TrimPrefix(path, "/")
	if t.way == bySentinel {
		t.primary, database, _ = strings.Cut(database, "/")
		if t.primary == "" {
			return t.want("no name of the primary after the sentinels")
		}
	}
	if database == "" {
		return nil
	}
	n, err := strconv.ParseUint(database, 10, 16)
	switch {
	case err != nil:
		return t.want("the database is not a number such as 0")
	case n > 0 && t.way == byCluster:
		return t.want("a cluster has no database but 0")
	}
	t.database = int(n)
	return nil
}

func (t *target) setParameters(query string) error {
	if strings.Contains(query, ";") {
		return t.want("parameters are not understood")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return t.want("parameters are not understood")
	}
	fields := map[string]*string{
		"ca": &t.files.CA, "cert": &t.files.Cert, "key": &t.files.Key, "server_name": &t.files.ServerName, "name": &t.name,
		"password_file": &t.passwordFile, "socket": &t.socket, "sentinel_user": &t.sentinelUser, "sentinel_password": &t.sentinelPass,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(parameters, name) {
			return unknownParameter(name)
		}
		value := values[name][0]
		if len(values[name]) > 1 || value == "" {
			return fmt.Errorf("the value of %s is not understood: expected one", name)
		}
		if name == "pool_size" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxPoolSize {
				return fmt.Errorf("the value of pool_size is not understood: expected 1 to %d", maxPoolSize)
			}
			t.poolSize = n
			continue
		}
		*fields[name] = value
	}
	return nil
}

func unknownParameter(name string) error {
	if near := spelling.Near(parameters, name); len(near) > 0 {
		return fmt.Errorf("an unknown parameter: did you mean %s?", strings.Join(near, " or "))
	}
	return fmt.Errorf("an unknown parameter: expected one of %s", strings.Join(parameters, ", "))
}

// check checks what parts mean together, and reads the files of TLS once, so that a wrong path is found at once.
func (t *target) check() error {
	switch {
	case t.password != "" && t.passwordFile != "":
		return errors.New("a password and a password_file: remove one of them")
	case t.user != "" && t.password == "" && t.passwordFile == "":
		return t.want("a user without a password (a password without a user is written as :password@)")
	case t.way != bySentinel && (t.sentinelUser != "" || t.sentinelPass != ""):
		return errors.New("sentinel_user and sentinel_password are for redis+sentinel://")
	case t.sentinelUser != "" && t.sentinelPass == "":
		return errors.New("sentinel_user without sentinel_password: add it")
	case !t.withTLS && t.files.Given():
		return errors.New("ca, cert, key and server_name are for TLS: write rediss instead of redis")
	case t.withTLS && t.socket != "" && t.files.ServerName == "":
		return errors.New("TLS over a socket has no host whose certificate is expected: add server_name")
	case !t.withTLS:
		return nil
	}
	_, err := t.files.Config()
	return err
}

// client returns a client. It dials nothing.
func (t *target) client() redis.UniversalClient {
	all := redis.UniversalOptions{
		Addrs: t.hosts, DB: t.database, CredentialsProviderContext: t.credentials, PoolSize: t.poolSize,
		MasterName: t.primary, SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPass,
		Dialer: t.dial, DialTimeout: dialTimeout, ContextTimeoutEnabled: true,
		// Telling the name of the client takes a round trip for each connection, which a heartbeat may have to wait for.
		DisableIdentity: true,
		// A repetition is the caller's, which knows what one means.
		MaxRetries: -1, DialerRetries: 1,
		// Only a Redis Enterprise has those.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch t.way {
	case bySentinel:
		return redis.NewFailoverClient(all.Failover())
	case byCluster:
		return redis.NewClusterClient(all.Cluster())
	}
	o := all.Simple()
	if t.socket != "" {
		o.Network, o.Addr = "unix", t.socket
	}
	return redis.NewClient(o)
}

// credentials are those of the next connection: a file is read each time, so that it may be replaced at any time.
func (t *target) credentials(context.Context) (user, password string, err error) {
	password = t.password
	if t.passwordFile != "" {
		if password, err = plainfile.Password(t.passwordFile); err != nil {
			return "", "", fmt.Errorf("read the password: %w", err)
		}
	}
	t.sent.Store(&password)
	return t.user, password, nil
}

// secret is the password of the last login; empty: there was none.
func (t *target) secret() string {
	if sent := t.sent.Load(); sent != nil {
		return *sent
	}
	return ""
}

// dial connects. The files of TLS are read each time too.
func (t *target) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if !t.withTLS {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: conn}, nil
	}
	c, err := t.files.Config()
	if err != nil {
		return nil, err
	}
	// A caller that gives up first is told of the handshake that it waited for.
	t.handshake.Store(&handshakeError{addr: addr, err: errNoHandshake})
	conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, network, addr)
	if unreached := (*net.OpError)(nil); err != nil && (!errors.As(err, &unreached) || unreached.Op != "dial") {
		failed := &handshakeError{addr: addr, err: err}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			failed.err = fmt.Errorf("%w: %w", errNoHandshake, err)
		}
		t.handshake.Store(failed)
		return nil, failed
	}
	t.handshake.Store(nil)
	return conn, err
}

var errNoHandshake = errors.New("no answer, as from a port that takes no TLS")

// handshakeError says that a server was reached, but TLS did not come about.
type handshakeError struct {
	addr string
	err  error
}

func (e *handshakeError) Error() string { return "TLS with " + e.addr + ": " + e.err.Error() }

func (e *handshakeError) Unwrap() error { return e.err }
