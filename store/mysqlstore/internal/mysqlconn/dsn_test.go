package mysqlconn_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

const canary = "canary-4711"

func open(dsn string) (*mysqlconn.Pool, error) {
	target, err := mysqlconn.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return target.Open(nil)
}

// parse returns the settings and hosts of a DSN.
func parse(dsn string) (*mysql.Config, []string, error) {
	target, err := mysqlconn.ParseDSN(dsn)
	if err != nil {
		return nil, nil, err
	}
	config, hosts := target.Parsed()
	return config, hosts, nil
}

func TestDSN(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ dsn, user, password, addr, database string }{
		{"u:p@tcp(h:1)/d", "u", "p", "h:1", "d"},
		{"u:p@tcp(h)/d?timeout=3s", "u", "p", "h:3306", "d"},
		{"u:p@s/?@tcp(h:1)/d", "u", "p@s/?", "h:1", "d"},
		{"u@unix(/run/s)/d", "u", "", "/run/s", "d"},
		{"u:p)/x@tcp(h:1)/d?timeout=3s", "u", "p)/x", "h:1", "d"},
		{"u:p?a=b@tcp(h:1)/d?wait_timeout=100", "u", "p?a=b", "h:1", "d"},
		{"u@tcp(h:1)/d?password_file=/run/secrets/db&timeout=3s", "u", "", "h:1", "d"},
		{"mysql://u:p@/d?socket=/run/mysqld/s.sock&timeout=3s", "u", "p", "/run/mysqld/s.sock", "d"},
		{"mysql://u:p@localhost/d?socket=%2Frun%2Fs", "u", "p", "/run/s", "d"},
		{"mysql://u:p@h/d?charset=utf8mb4,utf8&pool_size=5&Time_Zone='%2B00:00'", "u", "p", "h:3306", "d"},
		{"mysql://u:p@h:1/d", "u", "p", "h:1", "d"},
		{"MySQL://u:p@h/d?loc=Europe/Berlin&parseTime=true", "u", "p", "h:3306", "d"},
		{"mysql://u:p%40%2F%3F%23@[::1]:1/d", "u", "p@/?#", "[::1]:1", "d"},
		{"mysql://h/d", "", "", "h:3306", "d"},
	} {
		c, hosts, err := parse(test.dsn)
		if err != nil {
			t.Errorf("%s: %v", test.dsn, err)
			continue
		}
		if len(hosts) != 1 || hosts[0] != test.addr {
			t.Errorf("%s: hosts %q", test.dsn, hosts)
		}
		if c.User != test.user || c.Passwd != test.password || c.Addr != test.addr || c.DBName != test.database {
			t.Errorf("%s: %q %q %q %q", test.dsn, c.User, c.Passwd, c.Addr, c.DBName)
		}
	}
}

func TestDSNWithSeveralHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dsn   string
		hosts []string
	}{
		{"u:p@tcp(a:1,b:2)/d", []string{"a:1", "b:2"}},
		{"u:p@tcp(a,b,c)/d?timeout=3s", []string{"a:3306", "b:3306", "c:3306"}},
		{"u:p@tcp( a:1 , b )/d", []string{"a:1", "b:3306"}},
		{"u:p,@tcp(x,y)/@tcp(a:1,b:2)/d", []string{"a:1", "b:2"}},
		{"u:p@tcp([::1]:1,[::2],127.0.0.1)/d", []string{"[::1]:1", "[::2]:3306", "127.0.0.1:3306"}},
		{"u:p@tcp(a:1,a:2)/d", []string{"a:1", "a:2"}},
		{"u:p@tcp(a.example.,b-1.example,_c)/d", []string{"a.example.:3306", "b-1.example:3306", "_c:3306"}},
		{"u:p@unix(/run/s)/d", []string{"/run/s"}},
		{"mysql://u:p@a,b:2/d", []string{"a:3306", "b:2"}},
		{"MYSQL://u:p@a:1, b:2/d?tls=true", []string{"a:1", "b:2"}},
		{"mysql://u:p,q@a,[::1]:2,[::2]/d", []string{"a:3306", "[::1]:2", "[::2]:3306"}},
		{"mysql://a,b/d?timeout=3s", []string{"a:3306", "b:3306"}},
	} {
		c, hosts, err := parse(test.dsn)
		if err != nil {
			t.Errorf("%s: %v", test.dsn, err)
			continue
		}
		if !slices.Equal(hosts, test.hosts) || c.Addr != hosts[0] || c.DBName != "d" {
			t.Errorf("%s: %q, and %s of %s", test.dsn, hosts, c.DBName, c.Addr)
		}
		p, err := open(test.dsn)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.String(), "("+strings.Join(hosts, ",")+")/d") {
			t.Errorf("%s: String: %s", test.dsn, p)
		}
		p.Close()
	}
}

func TestDSNWithSeveralHostsRefused(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"a,":                "host 2 of its list is empty",
		",a":                "host 1 of its list is empty",
		"a, ,b":             "host 2 of its list is empty",
		"a,b:3306,B":        "host 3 of its list is there twice",
		"[::1],[::1]:3306":  "host 2 of its list is there twice",
		"a,::1":             "host 2 of its list is not understood",
		"a,b:1:2":           "host 2 of its list has no port",
		"a:,b":              "host 1 of its list has no port",
		"a:0,b":             "host 1 of its list has no port",
		"a:65536,b":         "host 1 of its list has no port",
		"a,[::1":            "host 2 of its list is not understood",
		"a,[::1]canary-471": "host 2 of its list is not understood",
		"a,[1.2.3.4]":       "host 2 of its list is no IPv6 address",
		"a,[fe80::1%eth0]":  "host 2 of its list is no IPv6 address",
		"a,b c":             "host 2 of its list is not understood",
		"a,canary-4711é":    "host 2 of its list is not understood",
		"canary-4711:x,b":   "host 1 of its list has no port",
		"a,-b":              "host 2 of its list is not understood",
	} {
		for _, dsn := range []string{"u:canary-4711@tcp(" + list + ")/d", "mysql://u:canary-4711@" + list + "/d"} {
			_, _, err := parse(dsn)
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v, want it to say %q", dsn, err, says)
			}
		}
	}
	for _, dsn := range []string{"u:p@unix(/run/s,/run/t)/d", "u:p@tcp(h,/run/s)/d"} {
		if _, _, err := parse(dsn); err == nil || !strings.Contains(err.Error(), "over TCP") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	if _, _, err := parse("u:p@tcp(a,b)/d?multiStatements=true"); !errors.Is(err, lease.ErrSetup) {
		t.Errorf("multiStatements with two hosts: %v", err)
	}
}

func TestDSNRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dsn, says string
		setup     bool
	}{
		{"u:canary-4711@tcp(h:1)/d?multiStatements=true", "multiStatements", true},
		{"u:canary-4711@tcp(h:1)/d?allowAllFiles=true", "allowAllFiles", true},
		{"mysql://u:canary-4711@h/d?multiStatements=1", "multiStatements", true},
		{"u:canary-4711@tcp(h:1)/d?allowCleartextPasswords=true", "allowCleartextPasswords", true},
		{"u:canary-4711@tcp(h:1)/d?allowCleartextPasswords=true&tls=skip-verify", "tls=true", true},
		{"u:canary-4711@tcp(h:1)/d?allowOldPasswords=true", "allowOldPasswords", true},
		{"u:canary-4711@tcp(h:1)/", "database", false},
		{"mysql://u:canary-4711@h:99999/d", "expected one from 1 to 65535", false},
		{"mysql://u:canary-4711@h:1,other:0/d", "no port of 1 to 65535", false},
		{"u:canary-4711@tcp(h:70000)/d", "expected one from 1 to 65535", false},
		{"mysql://u:p@canary-4711/x@h:1/d", "an @ after the host: write a / in the password as %2F", false},
		{"mysql://u:p@canary-4711/x@h", "an @ after the host: write a / in the password as %2F", false},
		{"mysql://canary-4711:12/x@h:1/d", "an @ after the host: write a / in the password as %2F", false},
		{"u:canary-4711@tcp(h:1)", "/", false},
		{"u:canary-4711@h:1/d", "tcp(host:port)", false},
		{"u:canary-4711tcp(h:1)/d", "network", false},
		{"u:canary-4711@tcp(h:1/d", "not understood", false},
		{"u:canary-4711@tcp(h:1)/d?parseTime=perhaps", "parseTime", false},
		{"u:canary-4711@tcp(h:1)/d?timeout=canary-4711", "timeout", false},
		{"u:canary-4711@tcp(h:1)/d?strict=true", "strict", false},
		{"u:canary-4711@tcp(h:1)/d?tls=canary-4711", "tls", false},
		{"u:canary-4711@tcp(h:1)/d?collation=gbk_chinese_ci&interpolateParams=true", "not understood", false},
		{"u:canary-4711@tcp(h:1)/d?collation=gbk_chinese_ci", "collation", true},
		{"u:canary-4711@tcp(h:1)/d?collation=nonsense_ci", "collation", false},
		{"u:canary-4711@tcp(h:1)/d?charset=canary-4711", "charset", false},
		{"u:canary-4711@tcp(h:1)/d?charset=utf8mb4,sjis", "sjis", true},
		{"u:canary-4711@tcp(h:1)/d?tls=preferred", "tls=true, with ca=FILE", true},
		{"mysql://u:canary-4711@h/d?tls=true&allowFallbackToPlaintext=true", "in the clear", true},
		{"mysql://u:canary-4711@h/d?tls=skip-verify&ca=/etc/ssl/ca.pem", "remove one", true},
		{"mysql://u:canary-4711@h/d?ca=/no/such/ca.pem", "/no/such/ca.pem", false},
		{"mysql://u:canary-4711@h/d?cert=/no/such/cert.pem", "belong together", false},
		{"mysql://u:canary-4711@/d?socket=/run/s&tls=true", "server_name", false},
		{"mysql://u:canary-4711@h/d?socket=/run/s", "a host and a socket", false},
		{"u:canary-4711@tcp(h:1)/d?socket=/run/s", "unix(/path)", false},
		{"mysql://u:canary-4711@h/d?password_file=/run/secrets/db", "password_file: remove one", false},
		{"mysql://u@h/d?password_file=", "password_file", false},
		{"mysql://u@h/d?pool_size=0", "pool_size", false},
		{"mysql://u@h/d?pool_size=canary-4711", "pool_size", false},
		{"mysql://u@h/d?sslca=canary-4711", "did you mean ca?", false},
		{"mysql://u@h/d?sslmode=canary-4711", "did you mean tls?", false},
		{"mysql://u@h/d?timeOut=canary-4711", "did you mean timeout?", false},
		{"mysql://u@h/d?readTimeuot=canary-4711", "did you mean readTimeout", false},
		{"mysql://u@h/d?time_zome=canary-4711", "did you mean time_zone", false},
		{"mysql://u@h/d?character_set_client=gbk", "unknown parameter character_set_client", false},
		{"mysql://u@h/d?timestamp=1", "unknown parameter timestamp", false},
		{"mysql://u@h/d?canary-4711=1", "the name of a parameter", false},
		{"mysql://u:canary-4711@h:port/d", "not a URL", false},
		{"mysql://u:canary-4711%@h/d", "not a URL", false},
		{"mysql://u:canary-4711#@h/d", "", false},
		{"mysql://u:canary-4711/d", "not a URL", false},
		{"mysql://u:canary-4711@/d", "host", false},
		{"mysql://u:canary-4711@h", "database", false},
		{"postgres://u:canary-4711@h/d", "not understood", false},
		{"", "empty", false},
		{"canary-4711", "/", false},
	} {
		p, err := open(test.dsn)
		if err == nil {
			t.Errorf("%s: accepted as %v", test.dsn, p)
			p.Close()
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error shows the password: %v", test.dsn, err)
		}
		if !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want it to say %q", test.dsn, err, test.says)
		}
		if errors.Is(err, lease.ErrSetup) != test.setup {
			t.Errorf("%s: ErrSetup is %t, want %t: %v", test.dsn, !test.setup, test.setup, err)
		}
	}
	p, err := open("u:p@tcp(h:1)/d?allowCleartextPasswords=true&tls=true")
	if err != nil {
		t.Fatalf("clear text inside of verified TLS: %v", err)
	}
	p.Close()
}

// A DSN is a password with something around it, so nothing of it is shown
// unless it is in its place.
func FuzzDSNShowsNoPassword(f *testing.F) {
	for _, dsn := range []string{"u:%s@tcp(h:1)/d", "mysql://u:%s@h/d", "u:%stcp(h:1)/d", "u:%s@h/d?timeout=%s", "u:p/%s@tcp(h)", "u:%s@tcp(h,i:1)/d", "mysql://u:%s@h,i/d", "mysql://u:p,%s@h/d", "u:p,%s(h)/d", "mysql://u:%s,/d"} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, form string) {
		dsn := strings.ReplaceAll(form, "%s", canary)
		c, hosts, err := parse(dsn)
		if err != nil {
			if strings.Contains(err.Error(), canary) {
				t.Errorf("%q: %v", dsn, err)
			}
			return
		}
		if _, err := mysql.NewConnector(c); err != nil {
			return
		}
		p, err := open(dsn)
		if err != nil {
			if strings.Contains(err.Error(), canary) {
				t.Errorf("%q: %v", dsn, err)
			}
			return
		}
		defer p.Close()
		if c.Passwd != "" && strings.Contains(c.Passwd, canary) && strings.Contains(strings.Replace(p.String(), c.User, "", 1), canary) &&
			!strings.Contains(c.Net+strings.Join(hosts, ",")+c.DBName, canary) {
			t.Errorf("%q: String: %s", dsn, p)
		}
	})
}

// The driver writes the value of a session variable into a SET statement, where
// it must not set another one.
func TestDSNValues(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{
		"wait_timeout=100":                          true,
		"foreign_key_checks=OFF":                    true,
		"unique_checks=DEFAULT":                     true,
		"long_query_time=0.5":                       true,
		"lc_time_names=de_DE":                       true,
		"transaction_isolation='READ-COMMITTED'":    true,
		"optimizer_switch='mrr=on,index_merge=off'": true,
		"time_zone='+09:00'":                        true,
		"collation=utf8mb4_bin":                     true,

		"wait_timeout=": false,
		"wait_timeout=100,character_set_client=gbk":               false,
		"wait_timeout=100,sql_mode='NO_BACKSLASH_ESCAPES'":        false,
		"wait_timeout=100,autocommit=0":                           false,
		"wait_timeout=100;DROP TABLE canary":                      false,
		"wait_timeout=(SELECT 1)":                                 false,
		"wait_timeout=100 ":                                       false,
		"wait_timeout=100\n":                                      false,
		"wait_timeout=@@global.wait_timeout":                      false,
		"optimizer_switch='',character_set_client=gbk":            false,
		"optimizer_switch='a\\',character_set_client=gbk,@a='":    false,
		"optimizer_switch=\"mrr=on\"":                             false,
		"optimizer_switch='a' /*!, character_set_client = gbk */": false,
		"autocommit=0,character_set_client=gbk":                   false,
		"collation=utf8mb4_bin,character_set_client=gbk":          false,
		"charset=utf8mb4,utf8mb4 COLLATE x":                       false,
	} {
		name, text, _ := strings.Cut(value, "=")
		for _, base := range []string{"u:canary-4711@tcp(h:1)/d?", "mysql://u:canary-4711@h:1/d?"} {
			_, _, err := parse(base + "timeout=3s&" + name + "=" + url.QueryEscape(text))
			if (err == nil) != ok || err != nil && (!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "canary")) {
				t.Errorf("%q: %v", value, err)
			}
		}
	}
}
