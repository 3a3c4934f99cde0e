package mysqlconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/tlsfiles"
	"github.com/cronlease/cronlease/lease"
)

const dsnForm = "user:password@tcp(host:port)/database?name=value or mysql://user:password@host:port/database?name=value"

// connectTimeout bounds a connect whose DSN has no timeout.
const connectTimeout = 10 * time.Second

// Target is where a DSN leads to, and how.
type Target struct {
	config   *mysql.Config
	hosts    []string // as host:port, or the address of the settings alone; of a list, the settings have the first
	password func(context.Context) (string, error)
	fromFile bool // password is
	tls      tlsfiles.Files
	poolSize int // 0: not given
}

// ParseDSN reads a DSN of the driver or a URL, and refuses what is unsafe. Its
// errors never contain a part of the DSN that is not a known name: the parts of
// a DSN which is not understood may be a password.
func ParseDSN(dsn string) (*Target, error) {
	config, hosts, own, err := parseAny(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysqlstore: DSN (not shown, it may hold a password): %w", err)
	}
	t := &Target{config: config, hosts: hosts, tls: own.tls, poolSize: own.poolSize}
	if err := t.check(own); err != nil {
		return nil, fmt.Errorf("mysqlstore: DSN: %w", err)
	}
	t.password = func(context.Context) (string, error) { return config.Passwd, nil }
	if own.passwordFile != "" {
		t.password, t.fromFile = readPassword(own.passwordFile), true
	}
	return t, nil
}

// check refuses what is unsafe or unknown, and completes the settings.
func (t *Target) check(o own) error {
	if err := checkConfig(t.config); err != nil {
		return err
	}
	if err := t.checkPorts(); err != nil {
		return err
	}
	if err := checkNames(o.names); err != nil {
		return err
	}
	if err := checkValues(t.config.Params); err != nil {
		return err
	}
	if o.passwordFile != "" && t.config.Passwd != "" {
		return errors.New("a password and a password_file: remove one of them")
	}
	if err := setCharset(t.config, o.charsets); err != nil {
		return err
	}
	if err := t.checkTLS(); err != nil {
		return err
	}
	if (t.config.AllowCleartextPasswords || t.config.AllowOldPasswords) && !verifiesTLS(t.config) {
		return fmt.Errorf("%w: allowCleartextPasswords and allowOldPasswords show the password to any server that answers: remove them from the DSN, or add tls=true", lease.ErrSetup)
	}
	return nil
}

// checkPorts refuses ports that no server can have: connecting would fail for good.
func (t *Target) checkPorts() error {
	for _, host := range t.hosts {
		if t.config.Net == "unix" {
			continue
		}
		_, port, err := net.SplitHostPort(host)
		if err != nil {
			continue // the driver's own networks have addresses of their own form
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("a port is not understood: expected one from 1 to 65535, such as 3306")
		}
	}
	return nil
}

// checkTLS reads the files of TLS once, so that a wrong path is found at once.
func (t *Target) checkTLS() (err error) {
	c := t.config
	switch {
	case c.AllowFallbackToPlaintext: // also tls=preferred
		return fmt.Errorf("%w: tls=preferred (allowFallbackToPlaintext) goes on without TLS when the server that answers says that it has none, and then sends everything in the clear: use tls=true, with ca=FILE for a private authority",
			lease.ErrSetup)
	case !t.tls.Given():
	case c.TLSConfig != "" && c.TLSConfig != "true":
		return fmt.Errorf("%w: ca, cert, key and server_name verify the server, and another value of tls than true says how not to: remove one of them", lease.ErrSetup)
	default:
		if c.TLS, err = t.tls.Config(); err != nil {
			return err
		}
		c.TLSConfig = ""
	}
	if c.Net == "unix" && c.TLS != nil && c.TLS.ServerName == "" && !c.TLS.InsecureSkipVerify {
		return errors.New("TLS over a socket has no host whose certificate is expected: add server_name")
	}
	return nil
}

func parseAny(dsn string) (*mysql.Config, []string, own, error) {
	const scheme = "mysql://"
	if dsn == "" {
		return nil, nil, own{}, errors.New("empty: want " + dsnForm)
	}
	isURL := len(dsn) >= len(scheme) && strings.EqualFold(dsn[:len(scheme)], scheme)
	dsn, o, err := takeOwn(dsn, isURL)
	if err != nil {
		return nil, nil, o, err
	}
	read, find := parse, findList
	if isURL {
		find = findListInURL
		read = func(dsn string) (*mysql.Config, error) { return parseURL(dsn, o.socket) }
		dsn = scheme + dsn[len(scheme):]
	}
	from, to := find(dsn)
	if !strings.Contains(dsn[from:to], ",") {
		config, err := read(dsn)
		if err != nil {
			return nil, nil, o, err
		}
		return config, []string{config.Addr}, o, nil
	}
	hosts, err := parseHosts(dsn[from:to])
	if err != nil {
		return nil, nil, o, err
	}
	config, err := read(dsn[:from] + hosts[0] + dsn[to:])
	if err != nil {
		return nil, nil, o, err
	}
	return config, hosts, o, nil
}

// parseURL reads a URL. With a socket it has no host, or localhost.
func parseURL(dsn, socket string) (*mysql.Config, error) {
	u, err := url.Parse(dsn)
	switch {
	case err != nil:
		return nil, errors.New("not a URL: want " + dsnForm + ", with special characters in user and password written as %XX")
	case socket != "" && u.Host != "" && u.Host != "localhost":
		return nil, errors.New("a host and a socket: remove one of them")
	case socket == "" && u.Hostname() == "":
		return nil, errors.New("no host: want " + dsnForm)
	case u.Fragment != "":
		return nil, errors.New("has a #: write it as %23")
	case strings.Contains(u.EscapedPath(), "@"):
		// The first / ended the hosts: a part of the password would be taken for one, and be shown.
		return nil, errors.New("an @ after the host: write a / in the password as %2F, and an @ in the name of the database as %40")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("parameters not understood: want name=value&name=value")
	}
	address := "tcp(" + net.JoinHostPort(u.Hostname(), port) + ")"
	if socket != "" {
		address = "unix(" + socket + ")"
	}
	text := address + "/" + url.PathEscape(strings.TrimPrefix(u.Path, "/"))
	mark := "?"
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		for _, value := range parameters[name] {
			text += mark + name + "=" + url.QueryEscape(value)
			mark = "&"
		}
	}
	config, err := parse(text)
	if err != nil {
		return nil, err
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	return config, nil
}

// parse is the driver's ParseDSN with errors that may be shown.
func parse(dsn string) (*mysql.Config, error) {
	config, err := parseQuietly(dsn)
	if err == nil {
		return config, nil
	}
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return nil, errors.New("no / before the name of the database: want " + dsnForm)
	}
	// Which parameter is it? Its name is only shown if it is one.
	_, parameters, _ := strings.Cut(dsn[slash:], "?")
	for parameter := range strings.SplitSeq(parameters, "&") {
		name, _, _ := strings.Cut(parameter, "=")
		if _, err := parseQuietly("/?" + parameter); err != nil && slices.Contains(driverParameters, name) {
			return nil, fmt.Errorf("the value of %s is not understood", name)
		}
	}
	return nil, errors.New("not understood: want " + dsnForm + ", with values of parameters written as %XX where they have special characters")
}

// parseQuietly also stops the panic by which the driver answers to an outdated
// parameter.
func parseQuietly(dsn string) (config *mysql.Config, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not understood")
		}
	}()
	return mysql.ParseDSN(dsn)
}

var networkRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*$`)

func checkConfig(c *mysql.Config) error {
	switch {
	case !networkRule.MatchString(c.Net):
		// A password that was not understood as one ends up here.
		return errors.New("the network is not understood: want " + dsnForm)
	case c.DBName == "":
		return errors.New("names no database: want " + dsnForm)
	case c.MultiStatements:
		return fmt.Errorf("%w: multiStatements=true makes any slip in a statement many: remove it from the DSN", lease.ErrSetup)
	case c.AllowAllFiles:
		return fmt.Errorf("%w: allowAllFiles=true lets the server read any file of this machine: remove it from the DSN", lease.ErrSetup)
	}
	return nil
}

func verifiesTLS(c *mysql.Config) bool {
	return c.TLS != nil && !c.TLS.InsecureSkipVerify && !c.AllowFallbackToPlaintext
}

// poolConfig is for the connections that work of other parts shares. Values are
// sent beside their statement, and not written into it, unless the DSN says so
// (interpolateParams): that is safe in the character sets that are let in, but not
// when a statement changes the connection's.
func poolConfig(c *mysql.Config) *mysql.Config {
	c = harden(c)
	c.RejectReadOnly = true // leaves a server that was demoted
	return c
}

// laneConfig is for the connections that the store keeps. It has timeouts of its
// own, and a hand-over signal waits for as long as it takes. It leaves a demoted server too,
// but wants to see the server's error.
func laneConfig(c *mysql.Config) *mysql.Config {
	c = harden(c)
	c.RejectReadOnly = false
	c.ReadTimeout = 0
	c.InterpolateParams = false // its statements have no values beside them
	return c
}

func harden(c *mysql.Config) *mysql.Config {
	c = c.Clone()
	c.ParseTime = true
	c.Loc = time.UTC
	c.CheckConnLiveness = true
	c.Logger = &mysql.NopLogger{} // errors are returned, and callers log them
	if c.Timeout == 0 {
		c.Timeout = connectTimeout
	}
	if c.ConnectionAttributes == "" {
		c.ConnectionAttributes = "program_name:cronlease"
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	for name := range c.Params {
		if slices.Contains([]string{"autocommit", "time_zone", "sql_mode"}, strings.ToLower(name)) {
			delete(c.Params, name)
		}
	}
	c.Params["autocommit"] = "1"
	c.Params["time_zone"] = "'+00:00'"
	c.Params["sql_mode"] = "'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"
	return c
}
