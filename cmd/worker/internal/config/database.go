package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/cronlease/cronlease/store"
)

// The kinds of database.
const (
	MySQL  = "mysql"
	SQLite = "sqlite"
	Redis  = "redis"
	// ZooKeeper has a path of its own in an ensemble.
	ZooKeeper  = "zookeeper"
	PostgreSQL = "postgres"
)

// urlKinds are the kinds that have a URL with hosts, by its scheme.
var urlKinds = map[string]string{
	"mysql": MySQL,
	"redis": Redis, "rediss": Redis, "redis+sentinel": Redis, "rediss+sentinel": Redis, "redis+cluster": Redis, "rediss+cluster": Redis,
	"zk": ZooKeeper, "zks": ZooKeeper,
	"postgres": PostgreSQL, "postgresql": PostgreSQL,
}

// urlForms are what errors say that they expected, by kind.
var urlForms = map[string]string{
	MySQL:      databaseForm,
	Redis:      `"redis://user:password@host:6379/0", "redis+sentinel://user:password@host1:26379,host2:26379/name" or "redis+cluster://user:password@host1:6379,host2:6379"`,
	ZooKeeper:  `"zk://user:password@host1:2181,host2:2181/path"`,
	PostgreSQL: `"postgres://user:password@host:5432/database"`,
}

// urlKind returns the scheme and the kind of such a URL; empty: it is none.
func urlKind(text string) (scheme, kind string) {
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		return "", ""
	}
	return scheme, urlKinds[scheme]
}

// Database says which database to use. However it is printed, its password is
// left out.
type Database struct {
	kind string
	open string
	show string
}

// Kind returns [MySQL], [PostgreSQL], [SQLite], [Redis] or [ZooKeeper].
func (d Database) Kind() string { return d.kind }

// Dialect is that of the SQL statements which it runs; zero: it runs none.
func (d Database) Dialect() store.Dialect {
	return map[string]store.Dialect{MySQL: store.MySQL, SQLite: store.SQLite, PostgreSQL: store.PostgreSQL}[d.kind]
}

// Open returns what the store's Open takes: a URL with the password and one host
// or a list of them, or the path of a SQLite file.
func (d Database) Open() string { return d.open }

// URL returns what [ParseDatabase] takes, with the password and with no
// variables in it.
func (d Database) URL() string {
	switch {
	case d.kind != SQLite:
		return d.open
	case strings.HasPrefix(d.open, "//"): // of which the first two would be taken for those of a URL
		return "sqlite://" + d.open
	default:
		return "sqlite:" + d.open
	}
}

// String returns the URL without its password and parameters, but for a socket.
func (d Database) String() string { return d.show }

// GoString returns the same, for %#v.
func (d Database) GoString() string { return d.show }

// databaseForm is what an error says that it expected.
const databaseForm = `"mysql://user:password@host:3306/database", "postgres://user:password@host:5432/database", "redis://user:password@host:6379/0", "zk://user:password@host1:2181,host2:2181/path" or "sqlite:/path/of/file.db"`

// ParseDatabase reads a database URL, in which ${NAME} stands for a variable;
// without lookup all is taken as it is, as [Database.URL] gives it.
// A variable within the user or password part is taken as it is: it needs no
// percent-encoding. No error shows what may be a secret.
func ParseDatabase(raw string, lookup func(string) (string, bool)) (Database, error) {
	if _, kind := urlKind(raw); kind != "" {
		return parseURL(raw, lookup)
	}
	expanded, err := expandSecret(raw, lookup)
	if err != nil {
		return Database{}, err
	}
	_, kind := urlKind(expanded)
	switch path, isSQLite := strings.CutPrefix(expanded, "sqlite:"); {
	case kind != "":
		// The whole URL, or its host, is in variables: it is encoded already.
		return parseURL(expanded, nil)
	case !isSQLite:
		return Database{}, fmt.Errorf("%sexpected %s", otherForm(expanded), databaseForm)
	case strings.HasPrefix(path, "~"):
		return Database{}, errors.New("a ~, which stands for no folder here: expected the whole path, or ${HOME} for it")
	case path == "":
		return Database{}, errors.New("no file: expected sqlite:/path/of/file.db")
	case strings.HasPrefix(path, ":memory:") || strings.Contains(path, "mode=memory"):
		return Database{}, errors.New("in memory: expected the path of a file, which replicas can share")
	case strings.ContainsAny(path, "?#\x00"):
		return Database{}, errors.New("expected a plain path after sqlite:, without ? and #")
	default:
		// sqlite:///var/lib/x is what other programs call /var/lib/x.
		if rest, ok := strings.CutPrefix(path, "//"); ok && strings.HasPrefix(rest, "/") {
			path = rest
		}
		return Database{kind: SQLite, open: path, show: "sqlite:" + path}, nil
	}
}

var (
	driverForm  = regexp.MustCompile(`(?s)@[a-z0-9]*\(|^[^/]*@/`)
	anyURL      = regexp.MustCompile(`^(jdbc:)?[a-z][a-z0-9+.-]*://`)
	pathForm    = regexp.MustCompile(`^\.{0,2}/|\.(db|sqlite3?)$`)
	addressForm = regexp.MustCompile(`(?i)^[a-z0-9]*\(`)
)

// otherForm names what is neither of the URLs, without a word of it.
func otherForm(text string) string {
	switch {
	case strings.HasPrefix(text, "jdbc:mysql://"), strings.HasPrefix(text, "jdbc:mariadb://"), strings.HasPrefix(text, "mariadb://"):
		return "another scheme, mysql:// is for MariaDB too: "
	case strings.HasPrefix(text, "valkey://"), strings.HasPrefix(text, "valkeys://"):
		return "another scheme, redis:// is for Valkey too: "
	case strings.HasPrefix(text, "redis-sentinel://"), strings.HasPrefix(text, "sentinel://"):
		return "another scheme, redis+sentinel:// is for sentinels: "
	case strings.HasPrefix(text, "zookeeper://"):
		return "another scheme, zk:// is for ZooKeeper: "
	case anyURL.MatchString(text):
		return "another kind of database: "
	case driverForm.MatchString(text):
		return "a DSN of the Go driver, user:password@tcp(host:3306)/database, where a URL belongs: "
	case pathForm.MatchString(text):
		return "a path without sqlite: before it: "
	}
	return ""
}

// parseURL takes the URL apart before it puts variables in, unless lookup is
// nil. What the parts of a URL of Redis or ZooKeeper have to be, the store says.
func parseURL(raw string, lookup func(string) (string, bool)) (Database, error) {
	scheme, kind := urlKind(raw)
	form := urlForms[kind]
	fill := func(s string) (string, error) {
		if lookup == nil {
			return s, nil
		}
		return expandSecret(s, lookup)
	}
	rest := strings.TrimPrefix(raw, scheme+"://")
	// Up to the first of /?# stands the authority, but not within ${}, and the
	// last @ in it ends the user part, as everywhere.
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	authority, tail := rest[:end], rest[end:]
	user, host := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, host = authority[:i], authority[i+1:]
	}
	host, err := fill(host)
	if err != nil {
		return Database{}, err
	}
	if tail, err = fill(tail); err != nil {
		return Database{}, err
	}
	u, hosts, err := parseHosts(scheme, host+tail)
	path, _, _ := strings.Cut(tail, "?")
	lateAt := strings.Contains(path, "@") // what is before it is of the password, and is taken for a host
	named := kind == MySQL || kind == PostgreSQL
	noDatabase := err == nil && named && (strings.Trim(u.Path, "/") == "" || strings.Count(u.Path, "/") != 1)
	switch {
	case err != nil && addressForm.MatchString(host):
		return Database{}, fmt.Errorf("the address in brackets of a DSN: expected %s", form)
	case lateAt, (err != nil || noDatabase || !named) && user == "" && strings.Contains(tail, "@"):
		return Database{}, fmt.Errorf("the user or the password has a /, ? or # in it: expected %%2F, %%3F or %%23, or the password in a variable, as in %s://user:${PASSWORD}@host", scheme)
	case err != nil && user == "" && tail == "":
		return Database{}, fmt.Errorf("it ends behind the host: expected %s, in quotes if it has a # in it", form)
	case err != nil:
		return Database{}, err
	}
	switch {
	case noDatabase:
		return Database{}, fmt.Errorf("no database after the host: expected %s", form)
	case u.Fragment != "":
		return Database{}, fmt.Errorf("a # in it: expected %s, with # written as %%23", form)
	}
	u.Host = hosts
	place := u.Host + u.Path
	if socket := u.Query().Get("socket"); socket != "" {
		place += "?socket=" + (&url.URL{Path: socket}).EscapedPath()
	}
	shown := scheme + "://" + place
	if u.User != nil { // the user came out of the host's variable
		shown = shownURL(scheme, u.User.Username(), place)
	}
	if user != "" {
		name, password, hasPassword := strings.Cut(user, ":")
		if name, err = part(scheme, name, fill); err != nil {
			return Database{}, err
		}
		u.User = url.User(name)
		shown = shownURL(scheme, name, place)
		if hasPassword {
			if password, err = part(scheme, password, fill); err != nil {
				return Database{}, err
			}
			u.User = url.UserPassword(name, password)
		}
	}
	return Database{kind: kind, open: u.String(), show: shown}, nil
}

func shownURL(scheme, user, place string) string {
	if user == "" { // Redis has passwords without one
		return scheme + "://" + place
	}
	return scheme + "://" + url.User(user).String() + "@" + place
}

// expandSecret is expand with errors that show no text.
func expandSecret(s string, lookup func(string) (string, bool)) (string, error) {
	expanded, err := expand(s, lookup)
	var bad *formError
	if errors.As(err, &bad) {
		return "", errors.New("a ${ that is no variable: " + bad.expected)
	}
	return expanded, err
}

// parseHosts parses what comes after the scheme, in which a list of hosts may
// stand for one. It returns the URL with the first of them, and all. Which hosts
// make a list, the store says.
func parseHosts(scheme, rest string) (u *url.URL, hosts string, err error) {
	form := urlForms[urlKinds[scheme]]
	to := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		to = i
	}
	from := strings.LastIndexByte(rest[:to], '@') + 1 // a user that came out of the host's variable
	var all []string
	for i, host := range strings.Split(rest[from:to], ",") {
		one, err := url.Parse(scheme + "://" + rest[:from] + strings.TrimSpace(host) + rest[to:])
		if err != nil {
			return nil, "", fmt.Errorf("not a URL: expected %s, with other characters than letters and digits percent-encoded", form)
		}
		if one.Hostname() == "" && !one.Query().Has("socket") {
			return nil, "", fmt.Errorf("no host: expected %s", form)
		}
		if i == 0 {
			u = one
		}
		all = append(all, one.Host)
	}
	return u, strings.Join(all, ","), nil
}

// part decodes what stands in the URL and leaves what comes from a variable.
func part(scheme, s string, fill func(string) (string, error)) (string, error) {
	if !strings.Contains(s, "${") {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return "", fmt.Errorf("the user or the password has a %% in it: expected %%25, or the password in a variable, as in %s://user:${PASSWORD}@host", scheme)
		}
		return plain, nil
	}
	return fill(s)
}
