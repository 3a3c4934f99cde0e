package httpjob_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/internal/tail"
	"github.com/cronlease/cronlease/jobs"
)

// call runs a job with this request once.
func call(t *testing.T, r httpjob.Request) error {
	t.Helper()
	client := httpjob.NewClient("v1")
	t.Cleanup(client.Close)
	return client.Job(r)(t.Context(), run)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Headers and body come from the file as it is at the start of each run.
func TestHeadersAndBody(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got, body = r, string(data)
	}))
	defer server.Close()
	folder := t.TempDir()
	token, text := filepath.Join(folder, "token"), filepath.Join(folder, "body")
	client := httpjob.NewClient("v1")
	defer client.Close()
	job := client.Job(httpjob.Request{
		Method: "POST", URL: server.URL, BodyFile: text,
		Headers: []httpjob.Header{
			{Name: "authorization", File: token, Prefix: "Bearer "}, {Name: "X-Plain", Value: "a b"}, {Name: "Host", Value: "x.example"}, {Name: "User-Agent", Value: "mine"},
		},
	})
	for _, value := range []string{"one", "two"} {
		write(t, token, value+"\n")
		write(t, text, `{"value": "`+value+`"}`)
		if err := job(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"Authorization": "Bearer " + value, "X-Plain": "a b", "User-Agent": "mine", "Cronlease-Job": "ping"} {
			if header := got.Header.Get(name); header != want {
				t.Errorf("%s: got %q, want %q", name, header, want)
			}
		}
		if want := `{"value": "` + value + `"}`; body != want || got.ContentLength != int64(len(want)) || got.Host != "x.example" {
			t.Errorf("got body %q of %d, host %s", body, got.ContentLength, got.Host)
		}
	}
	if err := call(t, httpjob.Request{Method: "GET", URL: server.URL, Body: "plain"}); err != nil || body != "plain" {
		t.Errorf("got %q, %v", body, err)
	}
}

// Nothing is sent when a file is missing or bad, and its content is not shown.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer server.Close()
	folder := t.TempDir()
	none, bad := filepath.Join(folder, "none"), write(t, filepath.Join(folder, "bad"), "canary\nmore")
	large := write(t, filepath.Join(folder, "large"), strings.Repeat("canary", 1<<18))
	for name, test := range map[string]struct {
		request httpjob.Request
		want    string
	}{
		"no header":    {httpjob.Request{Headers: []httpjob.Header{{Name: "X-A", File: none}}}, "not sent: headers: X-A: open " + none},
		"lines":        {httpjob.Request{Headers: []httpjob.Header{{Name: "X-A", File: bad}}}, "not sent: headers: X-A: " + bad + ": has a line break"},
		"large header": {httpjob.Request{Headers: []httpjob.Header{{Name: "X-A", File: large}}}, large + ": expected at most 65536 bytes"},
		"no body":      {httpjob.Request{BodyFile: none}, "not sent: body: open " + none},
		"large body":   {httpjob.Request{BodyFile: large}, large + ": expected at most 1048576 bytes"},
		"folder":       {httpjob.Request{BodyFile: folder}, "expected a regular file, not a directory"},
		"no CA":        {httpjob.Request{TLS: httpjob.TLS{CA: none}}, "not sent: ca: open " + none},
		"bad CA":       {httpjob.Request{TLS: httpjob.TLS{CA: bad}}, "not sent: ca: " + bad + ": expected certificates in PEM"},
		"bad cert":     {httpjob.Request{TLS: httpjob.TLS{Cert: bad, Key: bad}}, bad + " and " + bad + ": expected a certificate and its key in PEM"},
	} {
		test.request.Method, test.request.URL = "POST", server.URL
		err := call(t, test.request)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestExpect(t *testing.T) {
	t.Parallel()
	codes := func(all ...string) (expect []httpjob.Codes) {
		for _, s := range all {
			c, err := httpjob.ParseCodes(s)
			if err != nil || c.String() != s {
				t.Fatalf("%s: got %v, %v", s, c, err)
			}
			expect = append(expect, c)
		}
		return expect
	}
	for _, test := range []struct {
		expect []httpjob.Codes
		status int
		want   string
	}{
		{codes("200", "404"), 200, ""},
		{codes("200", "404"), 404, ""},
		{codes("200", "404"), 204, "answered 204 No Content, expected 200 or 404"},
		{codes("2xx", "409"), 299, ""},
		{codes("2xx", "409"), 400, "answered 400 Bad Request, expected 2xx or 409"},
		{codes("302"), 302, ""}, // which is not followed
		{codes("5xx"), 200, "answered 200 OK, expected 5xx"},
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.Header().Set("Location", "/other")
			w.WriteHeader(test.status)
		}))
		err := call(t, httpjob.Request{Method: "POST", URL: server.URL, Expect: test.expect})
		server.Close()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) || requests != 1 {
			t.Errorf("%d for %v: got %v with %d requests, want %q", test.status, test.expect, err, requests, test.want)
		}
	}
}

// An error shows how the answer begins, but no secret of the request in it.
func TestAnswerRepeatsSecrets(t *testing.T) {
	t.Parallel()
	const key = "canary-of-a-key"
	secret := "canary-" + strings.Repeat("x", 2000)
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://x.example/"+key)
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	file := write(t, filepath.Join(t.TempDir(), "token"), secret+"\n")
	for _, before := range []int{0, 1010, 1020} { // the second and third end behind what is shown
		answer = strings.Repeat("a", before) + secret + " " + key + " end"
		err := call(t, httpjob.Request{
			Method: "POST", URL: server.URL, Secrets: []string{key, "", "end"}, Headers: []httpjob.Header{{Name: "X-Token", File: file, Prefix: "Bearer "}},
		})
		var bad *httpjob.StatusError
		if !errors.As(err, &bad) || strings.Contains(err.Error(), "canary") || !strings.Contains(bad.Body, "(hid") || len(bad.Body) > 1<<10 || before == 0 && bad.Body != "(hidden) (hidden) end" {
			t.Errorf("after %d: got %v", before, err)
		}
	}
}

// The ledger keeps the end of an answer, without the secrets of the request.
func TestAnswerIsKept(t *testing.T) {
	t.Parallel()
	const key = "canary-of-a-key"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("a", 5000)+key+" the end")
	}))
	defer server.Close()
	client := httpjob.NewClient("test")
	defer client.Close()
	kept := tail.New(jobs.MaxOutput)
	job := client.Job(httpjob.Request{Method: "GET", URL: server.URL, Secrets: []string{key}})
	if err := job(tail.With(t.Context(), kept), jobs.Run{}); err != nil {
		t.Fatal(err)
	}
	if got := string(kept.Bytes()); len(got) != jobs.MaxOutput || !strings.HasSuffix(got, "a(hidden) the end") {
		t.Errorf("kept %d bytes, which end with %q", len(got), got[max(0, len(got)-30):])
	}
}

// identity writes a new self-signed certificate and its key.
func identity(t *testing.T, cert, key string) tls.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	c := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	k := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	write(t, cert, c)
	write(t, key, k)
	pair, err := tls.X509KeyPair([]byte(c), []byte(k))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// The server is verified by the CA alone, it sees the client's certificate, and
// both may change between runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	var seen []byte
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.TLS.PeerCertificates[0].Raw }))
	now := identity(t, path("ca"), path("server.key"))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{ClientAuth: tls.RequireAnyClientCert, Certificates: []tls.Certificate{now}}, nil
	}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	client := httpjob.NewClient("v1")
	defer client.Close()
	r := httpjob.Request{Method: "POST", URL: fmt.Sprintf("https://localhost:%s/", port), TLS: httpjob.TLS{CA: path("ca"), Cert: path("cert"), Key: path("key")}}
	job := client.Job(r)
	for range 2 {
		mine := identity(t, path("cert"), path("key"))
		if err := job(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		if string(seen) != string(mine.Certificate[0]) {
			t.Error("the server saw another certificate than that of the file")
		}
		server.CloseClientConnections()
		now = identity(t, path("ca"), path("server.key"))
	}
	identity(t, path("ca"), path("other.key")) // of which the server has no certificate
	var unknown x509.UnknownAuthorityError
	if err := job(t.Context(), run); err == nil || !errors.As(err, &unknown) {
		t.Errorf("got %v, want a certificate that is not known", err)
	}
	r.TLS = httpjob.TLS{}
	if err := client.Job(r)(t.Context(), run); !errors.As(err, &unknown) {
		t.Errorf("without a CA: got %v, want a certificate that is not known", err)
	}
}

// The arguments of a run are the body of a request that has none of its own.
func TestArgsAreTheBody(t *testing.T) {
	t.Parallel()
	var method, body, kind string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		method, body, kind = r.Method, string(data), r.Header.Get("Content-Type")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("no such customer: canary-1"))
	}))
	t.Cleanup(server.Close)
	client := httpjob.NewClient("v1.2.3")
	t.Cleanup(client.Close)
	with := run
	with.Args = json.RawMessage(`{"customer":"canary-1"}`)
	for _, c := range []struct {
		request    httpjob.Request
		run        jobs.Run
		body, kind string
	}{
		{httpjob.Request{Method: "POST"}, with, string(with.Args), "application/json"},
		{httpjob.Request{Method: "POST", Headers: []httpjob.Header{{Name: "Content-Type", Value: "text/json"}}}, with, string(with.Args), "text/json"},
		{httpjob.Request{Method: "POST", Body: "own"}, with, "own", ""},
		{httpjob.Request{Method: "GET"}, with, "", ""},
		{httpjob.Request{Method: "POST"}, run, "", ""},
	} {
		c.request.URL = server.URL
		err := client.Job(c.request)(t.Context(), c.run)
		if method != c.request.Method || body != c.body || kind != c.kind {
			t.Errorf("%+v: got %s %q of %q", c.request, method, body, kind)
		}
		if err == nil || c.run.Args != nil && strings.Contains(err.Error(), "canary-1") {
			t.Errorf("%+v: %v", c.request, err)
		}
	}
}

// A template makes a body of a run's arguments, whatever they hold.
func TestTemplate(t *testing.T) {
	t.Parallel()
	var bodies []string
	var kind string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies, kind = append(bodies, string(data)), r.Header.Get("Content-Type")
	}))
	t.Cleanup(server.Close)
	client := httpjob.NewClient("v1.2.3")
	t.Cleanup(client.Close)
	with := run
	with.Args = json.RawMessage(`{"text":"it \"failed\": <a>\n&\u2028","tick":12345678901234567,"list":[1]}`)
	for _, c := range []struct {
		text      string
		run       jobs.Run
		body, err string
	}{
		{`{"text": {{json .text}}, "n": {{.tick}}}`, with, `{"text": "it \"failed\": <a>\n&\u2028", "n": 12345678901234567}`, ""},
		{`{{.text | printf "%.4s"}}{{range .list}}{{.}}{{end}}`, with, `it "1`, ""},
		{`{{.other}}`, with, "", `not sent: body: `},
		{`{{json .text}}`, run, "", "not sent: body: its template needs arguments, and the run has none"},
	} {
		bodies = nil
		err := client.Job(httpjob.Request{Method: "POST", URL: server.URL, Template: c.text})(t.Context(), c.run)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "failed") || bodies != nil {
				t.Errorf("%s: %v, sent %q", c.text, err, bodies)
			}
		case err != nil || len(bodies) != 1 || bodies[0] != c.body || kind != "application/json":
			t.Errorf("%s: %v, sent %q as %s, want %s", c.text, err, bodies, kind, c.body)
		}
	}
	if err := httpjob.CheckTemplate("{{"); err == nil {
		t.Error("no error for a template that is none")
	}
}

// Files behind a symbolic link that is swapped, as Kubernetes does it, are read anew,
// the URL too. No error shows a part of the URL.
func TestFilesAreSwapped(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s?%s", r.Header.Get("Authorization"), r.URL.Path, r.URL.RawQuery)
	}))
	defer server.Close()
	mount := t.TempDir()
	data := filepath.Join(mount, "..data")
	swap := func(name, path, token string) {
		folder := filepath.Join(mount, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "url"), server.URL+path+"\n")
		write(t, filepath.Join(folder, "token"), token+"\n")
		if err := os.Symlink(name, data+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(data+"_tmp", data); err != nil {
			t.Fatal(err)
		}
	}
	secret := httpjob.Request{
		Method: "POST", URLFile: filepath.Join(data, "url"),
		Headers: []httpjob.Header{{Name: "Authorization", File: filepath.Join(data, "token")}},
	}
	client := httpjob.NewClient("v1")
	defer client.Close()
	job := client.Job(secret)
	swap("..1", "/hook-4711?key=key-4711", "token-4711")
	for _, version := range []string{"..1", "..2"} {
		if version == "..2" {
			swap(version, "/hook-4712?key=key-4712", "token-4712")
		}
		if err := errors.Join(secret.Check()...); err != nil {
			t.Error(err)
		}
		var bad *httpjob.StatusError
		err := job(t.Context(), run)
		if !errors.As(err, &bad) || bad.Body != "(hidden) (hidden)" && bad.Body != "(hidden) /(hidden)?(hidden)" || strings.Contains(err.Error(), "471") {
			t.Errorf("%s: %v", version, err)
		}
	}
	write(t, filepath.Join(mount, "..2", "url"), "ftp://user:pass-4713@host/\n")
	for _, err := range []error{job(t.Context(), run), errors.Join(secret.Check()...)} {
		if err == nil || !strings.Contains(err.Error(), "url: "+filepath.Join(data, "url")+": expected an absolute URL") || strings.Contains(err.Error(), "4713") {
			t.Error(err)
		}
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	secret.BodyFile, secret.TLS.CA = "/no/body", "/no/ca"
	err := errors.Join(secret.Check()...)
	for _, want := range []string{"url: ", "headers: Authorization: ", "body: ", "ca: open /no/ca: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// What the client cannot read of an answer, it repeats.
func TestMalformedAnswerRepeatsSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := write(t, filepath.Join(dir, "token"), "canary-token\n")
	for _, answer := range []string{
		"HTTP/1.1 /hook/canary-path?k=canary-query x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: Bearer canary-token\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: canary-token\r\n\r\n",
		"HTTP/1.1 200 OK\r\ncanary-token\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://[canary-token\r\n\r\n",
		"canary-token\r\n\r\n",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
		}()
		address := write(t, filepath.Join(dir, "url"), "http://"+listener.Addr().String()+"/hook/canary-path?k=canary-query\n")
		err = call(t, httpjob.Request{Method: "GET", URLFile: address, Headers: []httpjob.Header{{Name: "Authorization", File: token, Prefix: "Bearer "}}})
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "(hidden)") {
			t.Errorf("%q: %v", answer, err)
		}
		_ = listener.Close()
		<-answered
	}
}
