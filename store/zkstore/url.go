package zkstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/tlsfiles"
)

// target is where a URL leads to, and how.
type target struct {
	servers        []string // as host:port
	root           string
	user, password string // both or none
	sasl           bool   // how they log in: by SASL, or by the scheme digest
	tls            bool
	files          tlsfiles.Files
}

var (
	errURL = errors.New("cannot be read: expected zk://user:password@h1:2181,h2:2181/root (a /, ? or # in the password is written as %2F, %3F or %23)")
	// The first / ends the servers: a part of the password would be taken for one, and be shown.
	errLateAt = errors.New("there is an @ after the servers: expected zk://user:password@h1:2181,h2:2181/root (a / in the password is written as %2F)")
)

// parseURL takes a URL apart. Its errors show no part of it but known names, and the paths of files. Package url
// refuses several hosts with ports.
func parseURL(address string) (*target, error) {
	t := &target{}
	scheme, rest, ok := strings.Cut(address, "://")
	if t.tls = scheme == "zks"; !ok || scheme != "zk" && !t.tls {
		return nil, errURL
	}
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		hosts, tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		if err := t.setUser(hosts[:i]); err != nil {
			return nil, err
		}
		hosts = hosts[i+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("zk://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host {
			return nil, errURL
		}
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), t.defaultPort())
		} else if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return nil, errors.New("a port is not understood: expected one from 1 to 65535, such as 2181")
		}
		t.servers = append(t.servers, host)
	}
	path, query, _ := strings.Cut(tail, "?")
	if strings.Contains(path, "@") {
		return nil, errLateAt
	}
	if err := t.setRoot(path); err != nil {
		return nil, err
	}
	return t, t.setParameters(query)
}

// defaultPort is the one that ZooKeeper's documentation uses.
func (t *target) defaultPort() string {
	if t.tls {
		return "2281"
	}
	return "2181"
}

// setUser reads the user of a URL. ZooKeeper takes whatever it is told by the scheme digest for the login, and the
// nodes would be for that: so a mistake is found here.
func (t *target) setUser(text string) error {
	if _, rest, ok := strings.Cut(text, "@"); ok && strings.Contains(rest, ",") {
		return errors.New("several users: expected one before all servers, as in zk://user:password@h1,h2 (an @ in the password is written as %40)")
	}
	u, err := url.Parse("zk://" + text + "@host")
	if err != nil {
		return errURL
	}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	switch {
	case t.user == "" || t.password == "":
		return errors.New("expected a user and a password, as in zk://user:password@host")
	case strings.Contains(t.user, ":"):
		return errors.New("the user has a :, which the scheme digest does not know")
	}
	return nil
}

func (t *target) setRoot(path string) error {
	t.root = DefaultRoot
	if path = strings.Trim(path, "/"); path != "" {
		t.root = "/" + path
	}
	for part := range strings.SplitSeq(t.root[1:], "/") {
		if part == "" || part == "." || part == ".." || part == "zookeeper" || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' || r == '#' }) {
			return errURL
		}
	}
	return nil
}

func (t *target) setParameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its parameters are not understood")
	}
	auth := "digest"
	fields := map[string]*string{"auth": &auth, "ca": &t.files.CA, "cert": &t.files.Cert, "key": &t.files.Key, "server_name": &t.files.ServerName}
	for name, given := range values {
		field := fields[name]
		switch {
		case field == nil:
			return fmt.Errorf("an unknown parameter: expected one of %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case len(given) > 1 || given[0] == "":
			return fmt.Errorf("the parameter %s is empty, or given twice", name)
		}
		*field = given[0]
	}
	t.sasl = auth == "sasl"
	switch {
	case auth != "digest" && !t.sasl:
		return errors.New("the parameter auth is not understood: expected digest or sasl")
	case values.Has("auth") && t.user == "":
		return errors.New("the parameter auth needs a user and a password, as in zk://user:password@host")
	case t.sasl && !isASCII(t.user+t.password):
		return errors.New("auth=sasl: expected a user and a password of ASCII characters")
	case t.files.Given() && !t.tls:
		return errors.New("ca, cert, key and server_name are for TLS: expected zks:// with them")
	case t.tls:
		_, err = t.files.Config() // so that a wrong path is found at once
		return err
	}
	return nil
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// acl gives all rights to the user alone, and without one to all.
func (t *target) acl() []zk.ACL {
	switch {
	case t.user == "":
		return zk.WorldACL(zk.PermAll)
	case t.sasl:
		return []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: t.user}}
	}
	return zk.DigestACL(zk.PermAll, t.user, t.password)
}

// secure begins TLS on a connection to a server.
func (t *target) secure(conn net.Conn, address string, timeout time.Duration) (net.Conn, error) {
	config, err := t.files.Config()
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	secured := tls.Client(conn, config)
	switch err := secured.HandshakeContext(ctx); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: TLS: the server closes the connection: for a port without TLS, the scheme is zk instead of zks", address)
	case err != nil:
		return nil, fmt.Errorf("%s: TLS: %w", address, err)
	}
	return secured, nil
}
