package mysqlstore_test

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/testca"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func TestTLSByURL(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			folder, other := t.TempDir(), t.TempDir()
			a := testca.New(t, folder)
			a.Sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"db.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			a.Sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			testca.New(t, other)
			server := dbtest.Private(t, kind, "--ssl-ca="+filepath.Join(folder, "ca.pem"),
				"--ssl-cert="+filepath.Join(folder, "server.pem"), "--ssl-key="+filepath.Join(folder, "server-key.pem"))
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			migrated(t, db.DSN)
			user := uniqueName("user")
			userDSN(t, db, user, "ALL ON @.*")
			exec(t, db.Open(t), "ALTER USER '"+user+"'@'%' REQUIRE X509")
			socket := findSocket(t, server.Folder())

			ca, pair := "ca="+filepath.Join(folder, "ca.pem"), "cert="+filepath.Join(folder, "client.pem")+"&key="+filepath.Join(folder, "client-key.pem")
			start := "mysql://" + user + ":secret-4711@" + server.Addr() + "/" + db.Config(t).DBName + "?"
			local := "mysql://" + user + ":secret-4711@localhost/" + db.Config(t).DBName + "?socket=" + url.QueryEscape(socket) + "&"
			plain := user + ":secret-4711@tcp(" + server.Addr() + ")/" + db.Config(t).DBName + "?"
			for name, test := range map[string]struct {
				dsn   string
				fails func(error) bool
			}{
				"all":               {start + ca + "&" + pair, nil},
				"with tls=true":     {start + "tls=true&" + ca + "&" + pair, nil},
				"the driver's form": {plain + ca + "&" + pair, nil},
				"a name":            {start + ca + "&" + pair + "&server_name=db.example", nil},
				"a socket":          {local + ca + "&" + pair + "&server_name=db.example", nil},
				"another name":      {start + ca + "&" + pair + "&server_name=no.example", isCertificateError},
				"another authority": {start + "ca=" + filepath.Join(other, "ca.pem") + "&" + pair, isCertificateError},
				"the system's":      {start + pair, isCertificateError},
				"no certificate":    {start + ca, func(err error) bool { return errors.Is(err, lease.ErrDenied) }},
				"no TLS":            {strings.TrimSuffix(start, "?"), func(err error) bool { return errors.Is(err, lease.ErrDenied) }},
			} {
				s := open(t, test.dsn)
				for what, err := range map[string]error{"Check": s.Check(soon(t)), "DB": s.DB().PingContext(soon(t))} {
					if test.fails == nil && err != nil || test.fails != nil && (err == nil || what == "Check" && !test.fails(err) || keeper.Ends(err)) {
						t.Errorf("%s, %s: %v", name, what, err)
					}
				}
			}

			// The files are read for each connection.
			s := open(t, start+ca+"&"+pair)
			if err := s.DB().PingContext(soon(t)); err != nil {
				t.Fatal(err)
			}
			s.DB().SetMaxIdleConns(0)
			certificate := filepath.Join(folder, "client.pem")
			text, err := os.ReadFile(certificate)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(certificate); err != nil {
				t.Fatal(err)
			}
			if err := s.DB().PingContext(soon(t)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("without its file: %v", err)
			}
			if _, err := mysqlstore.Open(start + ca + "&" + pair); err == nil || !strings.Contains(err.Error(), "client.pem") {
				t.Errorf("Open without its file: %v", err)
			}
			if err := os.WriteFile(certificate, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.DB().PingContext(soon(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func isCertificateError(err error) bool {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	return errors.As(err, &authority) || errors.As(err, &name)
}

// findSocket returns the socket of a private server, by a path that is not too
// long for one.
func findSocket(t *testing.T, folder string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSocket != 0 {
			found = path
		}
		return nil
	})
	if err != nil || found == "" {
		t.Fatalf("no socket in %s: %v", folder, err)
	}
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	link := filepath.Join(short, "s")
	if err := os.Symlink(found, link); err != nil {
		t.Fatal(err)
	}
	return link
}
