package postgresstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/postgresstore"
)

// A URL that cannot be used is refused with what would be right, and without its password.
func TestURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u:canary@h/d?password_file=x": "a password (of the URL, PGPASSWORD or a passfile) and a password_file: remove one of them",
		"postgres://u@h/d?password_file=":         "expected the path of a file",
		"postgres://u:canary@h/d?pool_size=0":     `pool_size="0": expected a number from 1`,
		"postgres://u:canary@h/d?pool_size=many":  `pool_size="many": expected a number from 1`,
		"postgres://u:canary@h/d?ca=/x":           "unknown parameter ca: expected sslrootcert",
		"host=h user=u password=canary tls=true":  "unknown parameter tls: expected sslmode",
		"postgres://u:canary@h:port/d":            "",
	} {
		_, err := postgresstore.Open(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	signals := postgresstore.WithSignals("postgres://u:canary@h/d?password_file=x") // has the same parameters
	if _, err := postgresstore.Open("postgres://u@h/d", signals); err == nil || !strings.Contains(err.Error(), "a password_file: remove one of them") {
		t.Errorf("a URL for signals: %v", err)
	}
	s := open(t, "host=h user=u password=p pool_size=7")
	if n := s.DB().Stats().MaxOpenConnections; n != 7 {
		t.Errorf("a pool of %d", n)
	}
}

// The password is read from its file for each connection: a new one needs no restart.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	server := private(t)
	admin := connect(t, server.URL("postgres"))
	run(t, admin, "CREATE ROLE app LOGIN PASSWORD 'one'")
	run(t, admin, "GRANT CREATE, USAGE ON SCHEMA public TO app")
	access := filepath.Join(server.Folder(), "data", "pg_hba.conf")
	if err := os.WriteFile(access, []byte("host all cronlease 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, admin, "SELECT pg_reload_conf()")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	s := open(t, strings.Replace(server.URL("postgres"), "cronlease@", "app@", 1)+"&password_file="+file)
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	run(t, admin, "ALTER ROLE app PASSWORD 'two'")
	run(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	err := s.Check(soon(t)) // the first is of a connection that was ended
	if err == nil || !errors.Is(err, lease.ErrDenied) {
		err = s.Check(soon(t))
	}
	if !errors.Is(err, lease.ErrDenied) {
		t.Errorf("with the password of before: %v", err)
	}
	write("two")
	if err := s.Check(soon(t)); err != nil {
		t.Error(err)
	}
	if err := s.DB().PingContext(soon(t)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	other := open(t, strings.Replace(server.URL("postgres"), "cronlease@", "app@", 1)+"&password_file="+file)
	if err := other.Check(soon(t)); err == nil || !strings.Contains(err.Error(), "read the password") {
		t.Errorf("without the file: %v", err)
	}
}
