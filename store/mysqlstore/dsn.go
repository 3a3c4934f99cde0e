package mysqlstore

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/lease"
)

const dsnForm = "user:password@tcp(host:port)/database?name=value or mysql://user:password@host:port/database?name=value"

// connectTimeout bounds a connect whose DSN has no timeout.
const connectTimeout = 10 * time.Second

// parseDSN reads a DSN of the driver or a URL, and refuses what is unsafe. Its
// errors never contain a part of the DSN that is not a known name: the parts of
// a DSN which is not understood may be a password.
//
// The hosts are those of its list, as host:port, or the address of the settings
// alone; of a list, the settings have the first.
func parseDSN(dsn string) (config *mysql.Config, hosts []string, err error) {
	config, hosts, err = parseAny(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("mysqlstore: DSN (not shown, it may hold a password): %w", err)
	}
	if err := checkConfig(config); err != nil {
		return nil, nil, fmt.Errorf("mysqlstore: DSN: %w", err)
	}
	return config, hosts, nil
}

func parseAny(dsn string) (*mysql.Config, []string, error) {
	const scheme = "mysql://"
	if dsn == "" {
		return nil, nil, errors.New("empty: want " + dsnForm)
	}
	read, find := parse, findList
	if len(dsn) >= len(scheme) && strings.EqualFold(dsn[:len(scheme)], scheme) {
		dsn, read, find = scheme+dsn[len(scheme):], parseURL, findListInURL
	}
	from, to := find(dsn)
	if !strings.Contains(dsn[from:to], ",") {
		config, err := read(dsn)
		if err != nil {
			return nil, nil, err
		}
		return config, []string{config.Addr}, nil
	}
	hosts, err := parseHosts(dsn[from:to])
	if err != nil {
		return nil, nil, err
	}
	config, err := read(dsn[:from] + hosts[0] + dsn[to:])
	if err != nil {
		return nil, nil, err
	}
	return config, hosts, nil
}

func parseURL(dsn string) (*mysql.Config, error) {
	u, err := url.Parse(dsn)
	switch {
	case err != nil:
		return nil, errors.New("not a URL: want " + dsnForm + ", with special characters in user and password written as %XX")
	case u.Hostname() == "":
		return nil, errors.New("no host: want " + dsnForm)
	case u.Fragment != "":
		return nil, errors.New("has a #: write it as %23")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("parameters not understood: want name=value&name=value")
	}
	text := "tcp(" + net.JoinHostPort(u.Hostname(), port) + ")/" + url.PathEscape(strings.TrimPrefix(u.Path, "/"))
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
		if _, err := parseQuietly("/?" + parameter); err != nil && slices.Contains(parameterNames, name) {
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

var parameterNames = []string{
	"allowAllFiles", "allowCleartextPasswords", "allowFallbackToPlaintext", "allowNativePasswords", "allowOldPasswords",
	"charset", "checkConnLiveness", "clientFoundRows", "collation", "columnsWithAlias", "compress", "connectionAttributes",
	"interpolateParams", "loc", "maxAllowedPacket", "multiStatements", "parseTime", "readTimeout", "rejectReadOnly",
	"serverPubKey", "strict", "timeTruncate", "timeout", "tls", "writeTimeout",
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
	case (c.AllowCleartextPasswords || c.AllowOldPasswords) && !verifiesTLS(c):
		return fmt.Errorf("%w: allowCleartextPasswords and allowOldPasswords show the password to whoever answers: remove them from the DSN, or add tls=true", lease.ErrSetup)
	}
	return nil
}

func verifiesTLS(c *mysql.Config) bool {
	return c.TLS != nil && !c.TLS.InsecureSkipVerify && !c.AllowFallbackToPlaintext
}

// poolConfig is for the connections that work of other parts shares.
func poolConfig(c *mysql.Config) *mysql.Config {
	c = harden(c)
	c.RejectReadOnly = true // leaves a server that was demoted
	return c
}

// pinConfig is for the connections that the store keeps. It has timeouts of its
// own, and a bell waits for as long as it takes. It leaves a demoted server too,
// but wants to see the server's error.
func pinConfig(c *mysql.Config) *mysql.Config {
	c = harden(c)
	c.RejectReadOnly = false
	c.ReadTimeout = 0
	return c
}

func harden(c *mysql.Config) *mysql.Config {
	c = c.Clone()
	c.ParseTime = true
	c.Loc = time.UTC
	c.InterpolateParams = true
	c.CheckConnLiveness = true
	c.Logger = &mysql.NopLogger{} // errors are returned, and logged by whoever gets them
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
