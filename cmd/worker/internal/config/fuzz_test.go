package config_test

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/redisstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
	"github.com/cronlease/cronlease/store/zkstore"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(job("name: a", `every: ${BAD}`, "exec: [x, $${y}, ${EVERY}]")))
	f.Add([]byte(job("name: a", "fixed_rate: 5m", "initial_delay: 1s", "misfire: all", "catch_up: {limit: 5, deadline: 1d}", "exec: [x]")))
	f.Add([]byte(job("name: a", "cron: 0 0 2 ? * 6L", "dialect: quartz", "dst: native", "retry: {attempts: 3, initial: 1s, max: 5m}", "exec: [x]")))
	f.Add([]byte(job("name: a", "manual: true", "overlap: allow", "max_runs: 4", "recover: rerun", "history: {keep: 3, for: 30d}", "exec: [x]")))
	f.Add([]byte(with("jobs: &a [*a, {<<: *a}]")))
	f.Add([]byte("database: mysql://u:${PASSWORD}@h/d\n---\n"))
	f.Add([]byte(with("? \"a\\nb\"\n: x")))
	f.Add([]byte(with("group: \"\\e[2J\"")))
	f.Add([]byte("jobs: &a [&b [*a, *b], *a]\ngroup: *b\ndatabase: *a\n"))
	f.Add([]byte(job("name: a", "every: 292y", "timeout: 106751d23h47m16s", "lock_at_most_for: 0s", "exec: [x]")))
	f.Add([]byte(with("x-a: &a {timeout: 1h, <<: {zone: UTC}}\ndefaults: {<<: [*a, {env: {A: b}}]}\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("worker.yaml", data, variables)
		if err != nil {
			if strings.Contains(err.Error(), "canary/p#a") {
				t.Errorf("shows a variable: %v", err)
			}
			wantPlaces(t, data, err)
			return
		}
		if store.CheckName("group", c.Group) != nil || len(c.Jobs) == 0 || c.Database.Open() == "" {
			t.Errorf("taken: %+v", c)
		}
		if again, err := c.Lease.Complete(); err != nil || again != c.Lease {
			t.Errorf("taken: %+v, %v", c.Lease, err)
		}
		names := map[string]bool{}
		for _, j := range c.Jobs {
			j.Do = jobs.Job{}.Call
			if err := j.Validate(); err != nil || names[j.Name] || (len(j.Exec) == 0) == (j.HTTP == nil) || j.Timeout < 0 {
				t.Errorf("taken: %+v: %v", j, err)
			}
			names[j.Name] = true
		}
	})
}

// wantPlaces checks that each error is one line, has its place in the file, and
// can be shown.
func wantPlaces(t *testing.T, data []byte, err error) {
	t.Helper()
	var all []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	if len(all) == 0 {
		t.Fatalf("no list of errors: %v", err)
	}
	lines := 1 - strings.Count(string(data), "\r\n")
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		lines += strings.Count(string(data), end)
	}
	for i, one := range all {
		text := one.Error()
		if strings.ContainsAny(text, "\n\r\x1b") || len(text) > 5000 || !strings.HasPrefix(text, "worker.yaml:") {
			t.Errorf("not a line to show: %.5000q", text)
		}
		var place *config.Error
		switch {
		case errors.As(one, &place):
			if place.Line < 1 || place.Line > lines || place.Column < 1 || place.Problem == "" {
				t.Errorf("no place in a file of %d lines: %+v", lines, place)
			}
		case i != len(all)-1 || !strings.HasSuffix(text, "more errors"):
			t.Errorf("no place: %q", text)
		}
	}
}

// FuzzSecrets puts a database's URL and a DSN, each with a password, in any
// place of a file: no error shows the password.
func FuzzSecrets(f *testing.F) {
	const secret = "canary-4711"
	replacer := strings.NewReplacer("URL", "mysql://u:"+secret+"@h:1/d", "DSN", "u:"+secret+"@tcp(h:1)/d")
	for _, form := range []string{
		"database: URL\ngroup: g\n", "URL", "URL: x", "? URL\n: x", "group: *URL", "group: &URL x", "group: !URL x", "- URL", "database: [URL]",
		"database: {URL: URL}", "lease: URL", "lease: {ttl: URL}", "jobs: URL", "jobs: [URL]", "jobs: [{name: URL, cron: URL, http: URL}]",
		"jobs: [{http: {url: URL, method: URL}}]", "database: ${URL", "database: ${URL}", "group: \"URL", "%URL", "max_runs: DSN", "database: DSN",
		"jobs: [{zone: DSN, dialect: DSN, every: DSN, at: DSN, misfire: DSN}]", "database: \"mysql://u:p%URL\"",
	} {
		f.Add(form)
	}
	f.Fuzz(func(t *testing.T, form string) {
		// Where the password is a name's, such as a variable's, it is none.
		_, err := config.Parse("worker.yaml", []byte(replacer.Replace(form)), variables)
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", form, err)
		}
	})
}

// FuzzParseDatabase checks that a password in a variable arrives as it is, and
// that whatever is taken can be opened or is refused without a secret.
func FuzzParseDatabase(f *testing.F) {
	for _, seed := range [][2]string{
		{"mysql://u:${PASSWORD}@h:1/d", "p@ss/w?o#r:d%41"}, {"mysql://${PASSWORD}@h/d", "a:b"}, {"${PASSWORD}", "mysql://u:p@h/d"},
		{"sqlite:${PASSWORD}", "///a b.db"}, {"mysql://u:p@${PASSWORD}/d", "[::1]:1"}, {"mysql://h/d?${PASSWORD}", "allowAllFiles=true"},
		{"mysql://u:$${PASSWORD}@h/d", ""}, {"mysql://u:${PASSWORD", "x"}, {"sqlite::memory:", ""}, {"mysql://u:p@h/%2F", "\x00"},
		{"redis://u:${PASSWORD}@h", "p@ss/w?o#r:d%41"}, {"redis+sentinel://u:p@${PASSWORD}/m", "a,[::1]:1"}, {"${PASSWORD}", "redis+cluster://:p@h"}, {"zk://u:${PASSWORD}@h,i:1/r", "p@ss/w?o#r:d%41"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, raw, password string) {
		lookup := environment(map[string]string{"PASSWORD": password, "OTHER": "x"})
		d, err := config.ParseDatabase(raw, lookup)
		if len(password) > 8 && err != nil && strings.Contains(err.Error(), password) && !strings.Contains(raw+errorForms, password) {
			t.Errorf("%q, %q: %v", raw, password, err)
		}
		if err != nil {
			return
		}
		if shown := fmt.Sprintf("%v %+v %#v", d, d, d); d.Kind() == config.MySQL && raw == "mysql://u:${PASSWORD}@h/d" && shown != strings.Repeat("mysql://u@h/d ", 2)+"mysql://u@h/d" {
			t.Errorf("%q: shown as %s", password, shown)
		}
		if raw == "mysql://u:${PASSWORD}@h/d" {
			if u, err := url.Parse(d.Open()); err != nil {
				t.Errorf("%q: %v", password, err)
			} else if got, _ := u.User.Password(); got != password {
				t.Errorf("the password %q became %q", password, got)
			}
		}
		again, err := config.ParseDatabase(d.URL(), nil)
		if err != nil || parts(again) != parts(d) {
			t.Errorf("%q: read again %q: %v", d.URL(), again.URL(), err)
		}
		open := func() (interface{ Close() error }, error) { return sqlitestore.Open(d.Open()) }
		switch d.Kind() {
		case config.MySQL:
			open = func() (interface{ Close() error }, error) { return mysqlstore.Open(d.Open()) }
		case config.Redis:
			open = func() (interface{ Close() error }, error) { return redisstore.Open(d.Open()) }
		case config.ZooKeeper:
			open = func() (interface{ Close() error }, error) { return zkstore.Open(d.Open()) }
		}
		s, err := open()
		if err == nil {
			_ = s.Close()
		} else if len(password) > 8 && raw == "redis://u:${PASSWORD}@h" {
			t.Errorf("%q, %q: %v", raw, password, err)
		}
	})
}

// parts are what a database is opened by, without how they are written.
func parts(d config.Database) string {
	u, err := url.Parse(d.Open())
	if d.Kind() == config.SQLite || err != nil {
		return d.URL()
	}
	password, _ := u.User.Password()
	return fmt.Sprintf("%q %q %q %q %q", u.User.Username(), password, u.Host, u.Path, u.RawQuery)
}

// errorForms are words that errors have of their own.
const errorForms = `expected "mysql://user:password@host:3306/database", "postgres://user:password@host:5432/database", "redis://user:password@host:6379/0", "zk://user:password@host1:2181,host2:2181/path" or "sqlite:/path/of/file.db", ` +
	`"redis+sentinel://user:password@host1:26379,host2:26379/name" or "redis+cluster://user:password@host1:6379,host2:6379"`

// FuzzParseDuration compares with the standard library's.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"0", "30d", "1d12h", "106751d23h47m16s", "106752d", "65535d", "-1d", "1d-1h", "1d+1h", "1d1d", "d", "1.5d", "1e9h", "9223372036854775807ns", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := config.ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := config.ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q is %v, which is %v: %v", text, d, again, err)
		}
		days, rest, found := strings.Cut(text, "d")
		if !found {
			if want, err := time.ParseDuration(text); err != nil || want != d {
				t.Errorf("%q is %v, want %v, %v", text, d, want, err)
			}
			return
		}
		more := time.Duration(0)
		if rest != "" {
			if more, err = time.ParseDuration(rest); err != nil {
				t.Errorf("%q is %v", text, d)
			}
		}
		if n, err := strconv.ParseInt(days, 10, 64); err != nil || d < 0 || more < 0 || d-more != time.Duration(n)*24*time.Hour {
			t.Errorf("%q is %v", text, d)
		}
	})
}
