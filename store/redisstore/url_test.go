package redisstore_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/internal/testca"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/redisstore"
)

// Each wrong URL is told by what is wrong with it and what would be right, and never shows what may be a password.
func TestWrongURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                      "the scheme is not understood: expected redis://",
		"canary":                                "the scheme is not understood",
		"http://u:canary@h":                     "the scheme is not understood",
		"redis://u:canary@":                     "no host: expected redis://user:password@host:6379/0",
		"redis://u:canary@h:x":                  "a host is not understood",
		"redis://u:canary@h:0":                  "a port is not understood",
		"redis://u:canary@h:70000":              "a port is not understood",
		"redis://u:can/ary@h":                   "a host is not understood (a /, ? or # in the password is written as %2F",
		"redis://u:p@canary/x@h":                "there is an @ after the host (a /, ? or # in the password is written as %2F",
		"redis+sentinel://u:1/canary@h":         "there is an @ after the host",
		"redis://u:can#ary@h":                   "there is a #, which is written as %23",
		"redis://u:canary@h/#canary":            "there is a #",
		"redis://u:%zcanary@h":                  "has a % in it: expected %25",
		"redis://canary@h":                      "a user without a password (a password without a user is written as :password@)",
		"redis://u:canary@h/canary":             "the database is not a number such as 0",
		"redis://u:canary@h/-1":                 "the database is not a number such as 0",
		"redis://u:canary@h,i":                  "several hosts: expected redis+sentinel:// for sentinels",
		"redis://u:canary@h?zzz=canary":         "an unknown parameter: expected one of ca, cert",
		"redis://u:canary@h?pasword_file=1":     "did you mean password_file?",
		"redis://u:canary@h?pool_size=0":        "pool_size is not understood: expected 1 to",
		"redis://u:canary@h?name=":              "the value of name is not understood",
		"redis://u:canary@h?name=canary":        "expected one with a hash tag",
		"redis://u:canary@h?ca=/x":              "are for TLS: write rediss instead of redis",
		"rediss://u:canary@h?ca=/no/such.pm":    "ca: open /no/such.pm",
		"rediss://u:canary@h?cert=/x":           "cert and key belong together",
		"redis://u:canary@h?password_file=x":    "a password and a password_file: remove one of them",
		"redis://u:canary@h?sentinel_user=x":    "sentinel_user and sentinel_password are for redis+sentinel://",
		"redis://u:canary@h?socket=/x":          "a host and a socket: remove one of them",
		"redis+sentinel://u:canary@h,i":         "no name of the primary after the sentinels: expected redis+sentinel://",
		"redis+sentinel://u:canary@h,i/m/x":     "the database is not a number",
		"redis+sentinel://u:canary@h,,i/m":      "no host",
		"redis+cluster://u:canary@h/1":          "a cluster has no database but 0",
		"redis+cluster://u:canary@h,u:canary@i": "several users: one is before all hosts",
	} {
		s, err := redisstore.Open(url)
		switch {
		case err == nil:
			t.Errorf("%s: no error", url)
			_ = s.Close()
		case !strings.Contains(err.Error(), want) || strings.Contains(strings.ReplaceAll(err.Error(), `name "canary"`, ""), "canary"):
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	for _, url := range []string{
		"redis://h", "redis://h:1/15", "redis://:p@h", "redis://u:p%40@[::1]:1/0?name={billing}&pool_size=3", "rediss://h?server_name=x", "redis:///?socket=/run/r",
		"redis+sentinel://u:p@a, b:2/m", "redis+sentinel://a/m/3?sentinel_user=u&sentinel_password=p", "rediss+cluster://a,b:2/0", "redis://u@h?password_file=/later",
	} {
		s, err := redisstore.Open(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		_ = s.Close()
	}
}

// The password's file is read for each connection, so that a new password is found without a restart.
func TestPasswordIsReplaced(t *testing.T) {
	t.Parallel()
	server := start(t)
	ctx := t.Context()
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	set := func(password string) {
		t.Helper()
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", "resetpass", ">"+password, "~*", "&*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.Do(ctx, "CLIENT", "KILL", "USER", "app").Err(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("one")
	write("one")
	s, err := redisstore.Open("redis://app@" + server.Addr() + "?password_file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Read(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	set("two")
	// Each of the connections that were killed fails once.
	denied := func() bool {
		_, err := s.Read(ctx, "g")
		if err != nil && (strings.Contains(err.Error(), "one") || strings.Contains(err.Error(), "two")) {
			t.Errorf("shows a password: %v", err)
		}
		return errors.Is(err, lease.ErrDenied)
	}
	first, second := denied(), denied()
	if !first && !second {
		t.Error("the old password is let in")
	}
	write("two")
	if _, err := s.Read(ctx, "g"); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	set("three")
	for range 2 {
		_, err = s.Read(ctx, "g")
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

// A program's own client reads a URL as a store does, and each form of one.
func TestNewClient(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]redis.UniversalClient{
		"redis://" + shared.Addr() + "/3?name={billing}&pool_size=2": &redis.Client{}, "redis+sentinel://a,b/m": &redis.Client{}, "rediss+cluster://a,b": &redis.ClusterClient{},
	} {
		c, err := redisstore.NewClient(url)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.TypeOf(c) != reflect.TypeOf(want) {
			t.Errorf("%s: %T, want %T", url, c, want)
		}
		if strings.HasPrefix(url, "redis://") {
			if err := c.Set(t.Context(), "newclient", "there", 0).Err(); err != nil {
				t.Errorf("%s: %v", url, err)
			}
			there := redis.NewClient(&redis.Options{Addr: shared.Addr(), DB: 3})
			if value, err := there.Get(t.Context(), "newclient").Result(); value != "there" {
				t.Errorf("%s: database 3 has %q, %v", url, value, err)
			}
			_ = there.Close()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := redisstore.NewClient("redis://u:canary@h/canary"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a wrong URL: %v", err)
	}
}

// A server with TLS is verified, and gets the client's certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a := testca.New(t, folder)
	a.Sign("server", &x509.Certificate{DNSNames: []string{"redis.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.Sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	other := t.TempDir()
	testca.New(t, other)
	path := func(name string) string { return filepath.Join(folder, name+".pem") }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	start(t, "--tls-port", port, "--tls-cert-file", path("server"), "--tls-key-file", path("server-key"), "--tls-ca-cert-file", path("ca"))
	mine := "?server_name=redis.example&cert=" + path("client") + "&key=" + path("client-key") + "&ca="
	for url, want := range map[string]string{
		"rediss://" + addr + mine + path("ca"):                                                              "",
		"rediss://" + addr + mine + filepath.Join(other, "ca.pem"):                                          "certificate signed by unknown authority",
		"rediss://" + addr + "?ca=" + path("ca") + "&cert=" + path("client") + "&key=" + path("client-key"): "127.0.0.1",
		"rediss://" + addr + "?server_name=redis.example&ca=" + path("ca"):                                  "certificate required",
		"redis://" + addr: "expects TLS",
	} {
		s, err := redisstore.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for range 20 { // the reset of a connection, whose handshake is over on this side, can overtake the server's alert
			if _, err = s.Read(ctx, "g"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				break
			}
		}
		client, clientErr := redisstore.NewClient(url)
		if clientErr == nil {
			clientErr = errors.Join(client.Ping(ctx).Err(), client.Close())
		}
		if (clientErr == nil) != (want == "") {
			t.Errorf("%s: a client of the program's own: %v, want %q", url, clientErr, want)
		}
		cancel()
		plain := strings.HasPrefix(url, "redis://")
		if f := s.Examine(t.Context(), 0)[0]; plain && !strings.Contains(f.Cure, "rediss instead of redis") {
			t.Errorf("%s: %s: %s (%s)", url, f.Grade, f.Text, f.Cure)
		} else if !plain && want != "" && !strings.Contains(f.Cure, "look at the certificates") {
			t.Errorf("%s: %s: %s (%s)", url, f.Grade, f.Text, f.Cure)
		}
		if (err == nil) != (want == "" && !plain) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
		_ = s.Close()
	}
}

// What is wrong with a URL is said where the server answers, too, and once: a server that does not is not asked again for each check.
func TestWrongServerIsNamed(t *testing.T) {
	t.Parallel()
	server := start(t)
	sentinel := redisserver.NewSentinel(server.Program(), "main", server.Addr(), 1, time.Minute)
	if err := sentinel.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep(t, sentinel)
	for url, want := range map[string]string{
		"redis://" + server.Addr() + "/99":            "give the number of a database",
		"rediss://" + server.Addr():                   "redis instead of rediss",
		"redis+cluster://" + server.Addr():            "write redis:// instead of redis+cluster://",
		"redis+sentinel://" + server.Addr() + "/main": "write redis:// instead of redis+sentinel://",
		"redis://" + sentinel.Addr():                  "write redis+sentinel:// instead of redis://",
	} {
		s, err := redisstore.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		hasty, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // as that of a heartbeat
		if _, err := s.Read(hasty, "g"); strings.HasPrefix(url, "rediss") && (err == nil || !strings.Contains(err.Error(), "takes no TLS")) {
			t.Errorf("%s: in haste: %v", url, err)
		}
		cancel()
		began := time.Now()
		found := s.Examine(t.Context(), 0)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: examined for %v", url, took)
		}
		if !strings.Contains(found[0].Cure, want) || strings.Contains(found[0].Text, "does not answer") || len(found) != 5 {
			t.Errorf("%s: %+v", url, found)
		}
		_ = s.Close()
	}
}
