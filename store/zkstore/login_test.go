package zkstore_test

import (
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/testca"
	"github.com/cronlease/cronlease/internal/zkserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/zkstore"
)

// with starts a server of its own, whose Java machine has these flags.
func with(t *testing.T, flags ...string) *zkserver.Server {
	t.Helper()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := zkserver.New(program, append(flags, "-Dzookeeper.forceSync=no")...)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// jaas writes a file of logins for servers, and returns the flags that name it.
func jaas(t *testing.T, entries string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jaas.conf")
	text := "Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n " + entries + ";\n};\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-Djava.security.auth.login.config=" + path, "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "-Dzookeeper.fips-mode=false"}
}

// A server that takes none but users who log in by SASL.
func TestSASL(t *testing.T) {
	t.Parallel()
	server := with(t, append(jaas(t, `user_app="sec,r\"et=1" user_other="other"`), "-Dzookeeper.sessionRequireClientSASLAuth=true")...)
	mine := newBench(t, "app:sec,r%22et=1@"+server.Addr(), "/apps/billing?auth=sasl")
	if err := mine.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine.run(at(1))
	if g := grades(t, mine.Store); g["server"] != store.Good {
		t.Errorf("grades: %v", g)
	}
	for user, says := range map[string]string{
		"app:wrong@":           "check the user and the password",
		"nobody:sec,r%22et=1@": "check the user and the password",
		"other:other@":         "ACL", // logs in, and may not use the nodes
	} {
		s := open(t, user+server.Addr(), "/apps/billing?auth=sasl")
		err := s.Check(t.Context())
		if !errors.Is(err, lease.ErrDenied) || !strings.Contains(fmt.Sprint(err), says) || strings.Contains(fmt.Sprint(err), "sec,r") {
			t.Errorf("Check as %q: %v", user, err)
		}
		if g := grades(t, s); g["server"] != store.Problem {
			t.Errorf("grades as %q: %v", user, g)
		}
	}
	// The login is repeated with each connection.
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := mine.Check(t.Context()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// A server without such logins.
func TestNoSASL(t *testing.T) {
	t.Parallel()
	s := open(t, "app:secret@"+shared.Addr(), "/sasl?auth=sasl")
	if err := s.Check(t.Context()); !errors.Is(err, lease.ErrDenied) || !strings.Contains(err.Error(), "JAAS") {
		t.Errorf("Check: %v", err)
	}
}

// In FIPS mode, the default since ZooKeeper 3.9, a server offers no DIGEST-MD5. Older ones do not know the mode.
func TestSASLInFIPSMode(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"SASL is required": {"-Dzookeeper.sessionRequireClientSASLAuth=true"}, "SASL is not required": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := with(t, append(append(jaas(t, `user_app="secret"`), flags...), "-Dzookeeper.fips-mode=true")...)
			err := open(t, "app:secret@"+server.Addr(), "/sasl?auth=sasl").Check(t.Context())
			if err != nil && (!errors.Is(err, lease.ErrDenied) || !strings.Contains(err.Error(), "zookeeper.fips-mode=false")) {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// A server that lets those in whom it refuses: the store does not take that for a login.
func TestSASLThatRefusesNobody(t *testing.T) {
	t.Parallel()
	server := with(t, append(jaas(t, `user_app="secret"`), "-Dzookeeper.allowSaslFailedClients=true")...)
	if err := open(t, "app:wrong@"+server.Addr(), "/sasl?auth=sasl").Check(t.Context()); !errors.Is(err, lease.ErrDenied) {
		t.Errorf("Check with a wrong password: %v", err)
	}
	if err := open(t, "app:secret@"+server.Addr(), "/sasl?auth=sasl").Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// A server that does not know the password cannot pass for one that does, and learns nothing that logs in elsewhere.
func TestFalseSASL(t *testing.T) {
	t.Parallel()
	refuse := func(conn net.Conn, code uint32) { // and an answer without a token
		request(conn)
		text := binary.BigEndian.AppendUint32(nil, 16)
		text = append(text, make([]byte, 12)...)
		_, _ = conn.Write(binary.BigEndian.AppendUint32(text, code))
	}
	answer := func(conn net.Conn, token string) {
		request(conn)
		text := binary.BigEndian.AppendUint32(nil, uint32(20+len(token)))
		text = append(text, make([]byte, 16)...)
		text = binary.BigEndian.AppendUint32(text, uint32(len(token)))
		_, _ = conn.Write(append(text, token...))
	}
	const authFailed = 1<<32 - 115 // KeeperException.Code.AUTHFAILED
	const challenge = `realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`
	for name, c := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"confirms nothing": {func(conn net.Conn) { answer(conn, challenge); answer(conn, "") }, "does not know the password"},
		"guesses":          {func(conn net.Conn) { answer(conn, challenge); answer(conn, "rspauth=0123456789abcdef0123456789abcdef") }, "does not know the password"},
		"another one":      {func(conn net.Conn) { answer(conn, `realm="x",algorithm=plain`) }, "no DIGEST-MD5"},
		"nothing":          {func(conn net.Conn) { refuse(conn, 0) }, "zookeeper.fips-mode=false"},
		"refuses at once":  {func(conn net.Conn) { refuse(conn, authFailed) }, "zookeeper.fips-mode=false"},
		"garbage":          {func(conn net.Conn) { answer(conn, `=,"\`) }, "no DIGEST-MD5"},
		"too long":         {func(conn net.Conn) { answer(conn, strings.Repeat("x", 5000)) }, "not ZooKeeper"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := foreign(t, func(conn net.Conn) {
				greet(conn, 6000)
				c.serve(conn)
			})
			err := open(t, "app:secret@"+addr, "/sasl?auth=sasl").Check(t.Context())
			if !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// The example of RFC 2831, section 4, with the name of the service that ZooKeeper has.
func TestSASLResponse(t *testing.T) {
	t.Parallel()
	response, confirmation, err := zkstore.SASLAnswer("chris", "secret", "imap/elwood.innosoft.com",
		`realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`, "OA6MHXh6VqTrRk")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(response, "response=d388dad90d4bbd760a152321f2143af7,") || confirmation != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Errorf("%s, to be confirmed by %s", response, confirmation)
	}
}

// With a dialer of the program's own, nothing goes over its connections without TLS either.
func TestTLSWithDialer(t *testing.T) {
	t.Parallel()
	first := make(chan byte, 100)
	addr := foreign(t, func(conn net.Conn) {
		begin := make([]byte, 1)
		if _, err := conn.Read(begin); err == nil {
			first <- begin[0]
		}
	})
	s, err := zkstore.Open("zks://app:secret@"+addr, zkstore.WithSessionTimeout(time.Second), zkstore.WithDialer(net.DialTimeout))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err == nil {
		t.Error("Check: no error")
	}
	const handshake = 22 // RFC 8446, section 5.1
	if b := <-first; b != handshake {
		t.Errorf("the client began with %d", b)
	}
}

// TLS, with a server that knows its clients by their certificates, and with one that knows none.
func TestTLS(t *testing.T) {
	t.Parallel()
	for version, ciphers := range map[string]string{"TLSv1.2": "", "TLSv1.3": "TLS_AES_128_GCM_SHA256"} { // for which ZooKeeper 3.8 has none by default
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			flags := []string{"-Dzookeeper.ssl.protocol=" + version, "-Dzookeeper.ssl.enabledProtocols=" + version}
			if ciphers != "" {
				flags = append(flags, "-Dzookeeper.ssl.ciphersuites="+ciphers)
			}
			testTLS(t, flags...)
		})
	}
}

func testTLS(t *testing.T, flags ...string) {
	t.Helper()
	folder, other := t.TempDir(), t.TempDir()
	a := testca.New(t, folder)
	a.Sign("server", &x509.Certificate{DNSNames: []string{"zookeeper.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.Sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	testca.New(t, other)
	file := func(name string) string { return filepath.Join(folder, name) }
	var store []byte // the key and the certificate
	for _, name := range []string{"server-key.pem", "server.pem"} {
		text, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		store = append(store, text...)
	}
	if err := os.WriteFile(file("store.pem"), store, 0o600); err != nil {
		t.Fatal(err)
	}
	server := with(t, append(flags, "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "-Dzookeeper.client.portUnification=true",
		"-Dzookeeper.authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"-Dzookeeper.ssl.keyStore.location="+file("store.pem"), "-Dzookeeper.ssl.trustStore.location="+file("ca.pem"))...)
	verified, cert := "?server_name=zookeeper.example&ca=", "&cert="+file("client.pem")+"&key="+file("client-key.pem")
	check := func(path string, timeout time.Duration) error {
		s, err := zkstore.Open("zks://app:secret@"+server.Addr()+path, zkstore.WithSessionTimeout(timeout))
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Check(t.Context())
	}
	if err := check("/tls"+verified+file("ca.pem")+cert, 20*time.Second); err != nil {
		t.Errorf("with all files: %v", err)
	}
	for path, says := range map[string]string{
		verified + filepath.Join(other, "ca.pem") + cert: "unknown authority",
		"?ca=" + file("ca.pem") + cert:                   "127.0.0.1",
		verified + file("nowhere.pem"):                   "nowhere.pem",
		verified + file("ca.pem"):                        "bad certificate",
	} {
		var err error
		for range 10 { // a Java machine that is busy is late with its handshakes
			if err = check("/tls"+path, 2*time.Second); strings.Contains(fmt.Sprint(err), says) {
				break
			}
		}
		if !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	s, err := zkstore.Open("zks://"+shared.Addr(), zkstore.WithSessionTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); !strings.Contains(fmt.Sprint(err), "zk instead of zks") {
		t.Errorf("a server without TLS: %v", err)
	}
}
