package web

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/plainfile"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

// start serves a group that is led.
func start(t *testing.T, set Settings, mounts ...Mount) *Server {
	t.Helper()
	db := memstore.New()
	s, err := scheduler.New(db, "billing")
	if err != nil {
		t.Fatal(err)
	}
	server, err := Start(set, s, db, zap.NewNop(), mounts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	t.Parallel()
	metrics := Mount{"/metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1") })}
	server := start(t, Settings{Address: "127.0.0.1:0"}, metrics)
	url := "http://" + server.Address()
	for path, want := range map[string]string{"/": "<html", "/healthz": "ok\n", "/metrics": "up 1"} {
		if status, body := get(t, url+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d: %.200s", path, status, body)
		}
	}
	// Logins close the page and the metrics, and leave health open.
	server = start(t, Settings{Address: "127.0.0.1:0", PasswordFile: passwordFile(t, "alice")}, metrics)
	url = "http://" + server.Address()
	for path, want := range map[string]int{"/": 401, "/healthz": 200, "/metrics": 401, "/events": 401, "/static/page.css": 401} {
		if status, body := get(t, url+path); status != want {
			t.Errorf("%s: %d: %.200s", path, status, body)
		}
	}
	// Without the page, there is nothing but health and metrics.
	server = start(t, Settings{Address: "127.0.0.1:0", NoPage: true}, metrics)
	url = "http://" + server.Address()
	for path, want := range map[string]int{"/": 404, "/healthz": 200, "/metrics": 200, "/events": 404, "/do": 404} {
		if status, body := get(t, url+path); status != want {
			t.Errorf("%s: %d: %.200s", path, status, body)
		}
	}
}

// A file of users that every user of the machine can read is named at the start.
func TestExposedPasswords(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o600, 0o640, 0o644} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte("# none yet\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		core, logs := observer.New(zap.WarnLevel)
		server, err := Start(Settings{Address: "127.0.0.1:0", NoPage: true, PasswordFile: path}, nil, nil, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if named := logs.FilterField(zap.String("file", path)).Len() == 1; named != plainfile.Exposed(path) || runtime.GOOS == "linux" && named != (mode == 0o644) {
			t.Errorf("mode %o: the log has %v", mode, logs.All())
		}
	}
}

func TestServerRefusesToBeOpen(t *testing.T) {
	t.Parallel()
	db := memstore.New()
	s, err := scheduler.New(db, "billing")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		if server, err := Start(Settings{Address: address}, s, db, zap.NewNop()); err == nil {
			_ = server.Close()
			t.Errorf("%s is served to all", address)
		}
	}
}

// A certificate that is replaced counts for the next connection.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	set := Settings{Address: "127.0.0.1:0", Cert: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	if key, err := set.CheckFiles(); key != "cert" || err == nil {
		t.Error("without files:", key, err)
	}
	writeCertificate(t, set, 1)
	if _, err := set.CheckFiles(); err != nil {
		t.Fatal(err)
	}
	server := start(t, set)
	for serial := int64(1); serial <= 2; serial++ {
		writeCertificate(t, set, serial)
		c, err := tls.Dial("tcp", server.Address(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("certificate %d, want %d", got, serial)
		}
		_ = c.Close()
	}
	if status, _ := get(t, "https://"+server.Address()+"/healthz"); status != http.StatusOK {
		t.Error(status)
	}
}

func writeCertificate(t *testing.T, set Settings, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{set.Cert: {Type: "CERTIFICATE", Bytes: cert}, set.Key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Clients that send nothing, read nothing or follow the events hold up neither other
// clients nor the end.
func TestBlockedClients(t *testing.T) {
	t.Parallel()
	server := start(t, Settings{Address: "127.0.0.1:0"})
	for range 20 {
		for _, text := range []string{"", "GET / HTTP/1.1\r\n", "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\na"} {
			c, err := net.Dial("tcp", server.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status, _ := get(t, "http://"+server.Address()+"/"); status != http.StatusOK {
		t.Error(status)
	}
	begun := time.Now()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > endsWithin+15*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// A client that opens as many connections as it can, whatever it does with them, keeps out itself
// alone: the probes of another one, and events that are followed, go on.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	server := start(t, Settings{Address: "127.0.0.1:0"})
	events, err := net.Dial("tcp", server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	if _, err := io.WriteString(events, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	hostile := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	texts := []string{"", "G", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\na"}
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for i := range maxConnections + 100 {
		c, err := hostile.Dial("tcp", server.Address())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		_, _ = io.WriteString(c, texts[i%len(texts)]) // it may be closed already
		if i >= maxConnections-10 && i%10 == 0 {
			if status, _ := get(t, "http://"+server.Address()+"/healthz"); status != http.StatusOK {
				t.Error(status)
			}
		}
	}
	// They are closed, and not only out of sight.
	closed := 0
	for _, c := range all[:100] {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.Copy(io.Discard, c); err == nil || !os.IsTimeout(err) {
			closed++
		}
	}
	if closed < 50 {
		t.Errorf("%d of the 100 oldest connections are closed", closed)
	}
	lines := bufio.NewScanner(events)
	_ = events.SetReadDeadline(time.Now().Add(10 * time.Second))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return
		}
	}
	t.Errorf("the events of another client have ended: %v", lines.Err())
}

// Clients that do not read their answers keep no other from the metrics.
func TestUnreadMetrics(t *testing.T) {
	t.Parallel()
	left, asked := make(chan struct{}), make(chan struct{}, 10*maxShare)
	s := newShares(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.RemoteAddr, "192.0.2.1:") {
			asked <- struct{}{}
			<-left
		}
		fmt.Fprint(w, "up 1")
	}))
	ask := func(from string) int {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	var wait sync.WaitGroup
	for i := range maxShare {
		wait.Go(func() { ask(fmt.Sprintf("192.0.2.1:%d", i+1)) })
		<-asked
	}
	if status := ask("192.0.2.1:99"); status != http.StatusServiceUnavailable {
		t.Errorf("one more for the same client: %d", status)
	}
	if status := ask("192.0.2.2:1"); status != http.StatusOK {
		t.Errorf("another client: %d", status)
	}
	close(left)
	wait.Wait()
	if status := ask("192.0.2.1:99"); status != http.StatusOK || s.all != 0 || len(s.of) != 0 {
		t.Errorf("the first client again: %d, %d on the way", status, s.all)
	}
}

// Room is made by a connection of the client that has the most, and of those by the one
// on which nothing has happened for longest.
func TestMakeRoom(t *testing.T) {
	t.Parallel()
	all := newConnections()
	add := func(from string) *fakeConn {
		c := &fakeConn{from: from}
		all.changed(c, http.StateNew)
		return c
	}
	lonely := add("[2001:db8:1::1]:1")
	first, second := add("[2001:db8::1]:1"), add("[2001:db8::2]:1")
	for i := range maxConnections - 3 {
		add(fmt.Sprintf("[2001:db8::%x]:1", i%100))
	}
	all.changed(first, http.StateActive)
	other := add("192.0.2.1:1")
	if lonely.closed || first.closed || !second.closed || other.closed {
		t.Error(lonely, first, second, other)
	}
	all.changed(second, http.StateClosed) // it was dropped before
	if n := len(all.open); n != maxConnections {
		t.Error(n)
	}
	for c := range all.open {
		all.changed(c, http.StateClosed)
	}
	if len(all.open) != 0 || len(all.of) != 0 {
		t.Error(all.open, all.of)
	}
}

type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return fakeAddr(c.from) }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

type fakeAddr string

func (fakeAddr) Network() string  { return "tcp" }
func (a fakeAddr) String() string { return string(a) }
