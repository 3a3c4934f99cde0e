package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// The kinds of database.
const (
	MySQL  = "mysql"
	SQLite = "sqlite"
)

// Database says which database to use. However it is printed, its password is
// left out.
type Database struct {
	kind string
	open string
	show string
}

// Kind returns [MySQL] or [SQLite].
func (d Database) Kind() string { return d.kind }

// Open returns what the store's Open takes: a mysql:// URL with the password
// and one host or a list of them, or the path of a SQLite file.
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
const databaseForm = `"mysql://user:password@host:3306/database" or "sqlite:/path/of/file.db"`

// ParseDatabase reads a database URL, in which ${NAME} stands for a variable;
// without lookup all is taken as it is, as [Database.URL] gives it.
// A variable within the user or password part is taken as it is: it needs no
// percent-encoding. No error shows what may be a secret.
func ParseDatabase(raw string, lookup func(string) (string, bool)) (Database, error) {
	if strings.HasPrefix(raw, "mysql://") {
		return parseMySQL(raw, lookup)
	}
	expanded, err := expandSecret(raw, lookup)
	if err != nil {
		return Database{}, err
	}
	switch path, isSQLite := strings.CutPrefix(expanded, "sqlite:"); {
	case strings.HasPrefix(expanded, "mysql://"):
		// The whole URL, or its host, is in variables: it is encoded already.
		return parseMySQL(expanded, nil)
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
	case anyURL.MatchString(text):
		return "another kind of database: "
	case driverForm.MatchString(text):
		return "a DSN of the Go driver, user:password@tcp(host:3306)/database, where a URL belongs: "
	case pathForm.MatchString(text):
		return "a path without sqlite: before it: "
	}
	return ""
}

// parseMySQL takes the URL apart before it puts variables in, unless lookup is
// nil.
func parseMySQL(raw string, lookup func(string) (string, bool)) (Database, error) {
	fill := func(s string) (string, error) {
		if lookup == nil {
			return s, nil
		}
		return expandSecret(s, lookup)
	}
	rest := strings.TrimPrefix(raw, "mysql://")
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
	u, hosts, err := parseHosts(host + tail)
	noDatabase := err == nil && (strings.Trim(u.Path, "/") == "" || strings.Count(u.Path, "/") != 1)
	switch {
	case err != nil && addressForm.MatchString(host):
		return Database{}, fmt.Errorf("the address in brackets of a DSN: expected %s", databaseForm)
	case (err != nil || noDatabase) && user == "" && strings.Contains(tail, "@"):
		return Database{}, errors.New("the user or the password has a /, ? or # in it: expected %2F, %3F or %23, or the password in a variable, as in mysql://user:${PASSWORD}@host:3306/database")
	case err != nil && user == "" && tail == "":
		return Database{}, fmt.Errorf("it ends behind the host: expected %s, in quotes if it has a # in it", databaseForm)
	case err != nil:
		return Database{}, err
	}
	switch {
	case noDatabase:
		return Database{}, fmt.Errorf("no database after the host: expected %s", databaseForm)
	case u.Fragment != "":
		return Database{}, fmt.Errorf("a # in it: expected %s, with # written as %%23", databaseForm)
	}
	u.Host = hosts
	place := u.Host + u.Path
	if socket := u.Query().Get("socket"); socket != "" {
		place += "?socket=" + (&url.URL{Path: socket}).EscapedPath()
	}
	shown := "mysql://" + place
	if u.User != nil { // the user came out of the host's variable
		shown = "mysql://" + url.User(u.User.Username()).String() + "@" + place
	}
	if user != "" {
		name, password, hasPassword := strings.Cut(user, ":")
		if name, err = part(name, fill); err != nil {
			return Database{}, err
		}
		u.User = url.User(name)
		shown = "mysql://" + url.User(name).String() + "@" + place
		if hasPassword {
			if password, err = part(password, fill); err != nil {
				return Database{}, err
			}
			u.User = url.UserPassword(name, password)
		}
	}
	return Database{kind: MySQL, open: u.String(), show: shown}, nil
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
func parseHosts(rest string) (u *url.URL, hosts string, err error) {
	to := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		to = i
	}
	from := strings.LastIndexByte(rest[:to], '@') + 1 // a user that came out of the host's variable
	var all []string
	for i, host := range strings.Split(rest[from:to], ",") {
		one, err := url.Parse("mysql://" + rest[:from] + strings.TrimSpace(host) + rest[to:])
		if err != nil {
			return nil, "", fmt.Errorf("not a URL: expected %s, with other characters than letters and digits percent-encoded", databaseForm)
		}
		if one.Hostname() == "" && !one.Query().Has("socket") {
			return nil, "", fmt.Errorf("no host: expected %s", databaseForm)
		}
		if i == 0 {
			u = one
		}
		all = append(all, one.Host)
	}
	return u, strings.Join(all, ","), nil
}

// part decodes what stands in the URL and leaves what comes from a variable.
func part(s string, fill func(string) (string, error)) (string, error) {
	if !strings.Contains(s, "${") {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return "", errors.New("the user or the password has a % in it: expected %25, or the password in a variable, as in mysql://user:${PASSWORD}@host:3306/database")
		}
		return plain, nil
	}
	return fill(s)
}
