package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/time/rate"

	"github.com/cronlease/cronlease/page"
)

// passwordFile writes a file with these users, whose passwords are their names and "-secret".
func passwordFile(t *testing.T, users ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	writePasswords(t, path, users...)
	return path
}

func writePasswords(t *testing.T, path string, users ...string) {
	t.Helper()
	text := "# users of the page\n\n"
	for _, user := range users {
		hash, err := bcrypt.GenerateFromPassword([]byte(user+"-secret"), bcrypt.DefaultCost)
		if err != nil {
			t.Fatal(err)
		}
		text += user + ":" + string(hash) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// request is one from an address, with a user and a password unless the user is empty.
func request(from, user, password string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = from
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// ask returns the user, or the status of the refusal.
func ask(l *login, r *http.Request) (page.User, int) {
	w := httptest.NewRecorder()
	user, ok := l.user(w, r)
	if ok {
		return user, 0
	}
	return user, w.Code
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	path := passwordFile(t, "alice", "bob")
	l := newLogin(Settings{PasswordFile: path, Steer: []string{"alice"}}, "billing", zap.NewNop())
	const from = "192.0.2.7:1234"
	for _, test := range []struct {
		user, password string
		status         int
		role           page.Role
	}{
		{"alice", "alice-secret", 0, page.Steer},
		{"alice", "alice-secret", 0, page.Steer},
		{"bob", "bob-secret", 0, page.Look},
		{"alice", "bob-secret", http.StatusUnauthorized, 0},
		{"alice", "", http.StatusUnauthorized, 0},
		{"carol", "alice-secret", http.StatusUnauthorized, 0},
		{"", "", http.StatusUnauthorized, 0},
	} {
		user, status := ask(l, request(from, test.user, test.password))
		if status != test.status || user.Role != test.role || status == 0 && user.Name != test.user {
			t.Errorf("%s with %q: %+v, status %d", test.user, test.password, user, status)
		}
	}
	w := httptest.NewRecorder()
	l.user(w, request(from, "", ""))
	if got := w.Header().Get("WWW-Authenticate"); got != `Basic realm="cronlease billing", charset="UTF-8"` {
		t.Error(got)
	}
	// A header that a proxy would send counts for nothing.
	if user, status := ask(l, request(from, "", "", "X-Forwarded-User", "alice")); status != http.StatusUnauthorized {
		t.Error(user, status)
	}

	// A changed file counts at once, also for those that were in.
	writePasswords(t, path, "bob")
	if user, status := ask(l, request("192.0.2.8:1", "alice", "alice-secret")); status != http.StatusUnauthorized {
		t.Error(user, status)
	}
	if err := os.WriteFile(path, []byte("bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if user, status := ask(l, request("192.0.2.8:1", "bob", "bob-secret")); status != http.StatusServiceUnavailable {
		t.Error(user, status)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if user, status := ask(l, request("192.0.2.8:1", "bob", "bob-secret")); status != http.StatusServiceUnavailable {
		t.Error(user, status)
	}
}

// A client that guesses is stopped, and a user that was in before goes on, also from the same address.
func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	l := newLogin(Settings{PasswordFile: passwordFile(t, "alice")}, "billing", zap.NewNop())
	const from = "192.0.2.7:1234"
	if _, status := ask(l, request(from, "alice", "alice-secret")); status != 0 {
		t.Fatal(status)
	}
	begun, tried := time.Now(), 0
	for i := range 2 * loginsAtOnce {
		_, status := ask(l, request(from, "alice", fmt.Sprint("guess", i)))
		switch status {
		case http.StatusUnauthorized:
			tried++
		case http.StatusTooManyRequests:
		default:
			t.Fatal(status)
		}
	}
	if most := loginsAtOnce + int(time.Since(begun)/loginEvery); tried < loginsAtOnce-1 || tried > most {
		t.Errorf("%d guesses were tried", tried)
	}
	if _, status := ask(l, request(from, "alice", "alice-secret")); status != 0 {
		t.Errorf("the user is locked out: %d", status)
	}
}

// From many addresses, the guesses are bounded as a whole.
func TestGuessesFromManyAddresses(t *testing.T) {
	t.Parallel()
	l, begun, tried := newLimits(), time.Now(), 0
	for i := range 250 {
		if l.allow(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})) {
			tried++
		}
	}
	if most := allAtOnce + 1 + int(time.Since(begun)/allEvery); tried > most {
		t.Errorf("%d guesses were tried, want %d at most", tried, most)
	}
}

// A change of the file that does not concern a user logs that one out as little as the
// attempts of others do.
func TestNewUserLocksNobodyOut(t *testing.T) {
	t.Parallel()
	path := passwordFile(t, "alice", "bob")
	l := newLogin(Settings{PasswordFile: path}, "billing", zap.NewNop())
	for _, user := range []string{"alice", "bob"} {
		if _, status := ask(l, request("192.0.2.1:1", user, user+"-secret")); status != 0 {
			t.Fatal(status)
		}
	}
	l.passwords.limits.all = rate.NewLimiter(0, 0) // used up, by one who tries passwords from many addresses
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(string(data), "\n")
	writePasswords(t, path, "carol", "bob")
	more, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range all {
		if strings.HasPrefix(line, "bob:") {
			all[i] = "" // the password of bob changes
		}
	}
	if err := os.WriteFile(path, append([]byte(strings.Join(all, "")), more...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, status := ask(l, request("192.0.2.1:1", "alice", "alice-secret")); status != 0 {
		t.Errorf("alice, who had logged in: %d", status)
	}
	if _, status := ask(l, request("192.0.2.1:1", "bob", "bob-secret")); status != http.StatusTooManyRequests {
		t.Errorf("bob, whose hash is another one: %d", status)
	}
	writePasswords(t, path, "bob")
	if n := len(l.passwords.good); n != 2 {
		t.Fatal(n)
	}
	if _, status := ask(l, request("192.0.2.1:1", "alice", "alice-secret")); status == 0 || len(l.passwords.good) != 1 {
		t.Errorf("alice, who was removed: %d, %d remembered", status, len(l.passwords.good))
	}
}

func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLimits()
	for i := range 3 * maxLimits {
		l.allow(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(l.by) > maxLimits {
		t.Errorf("%d clients are kept", len(l.by))
	}
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1")
	if clientOf(a) != clientOf(b) || clientOf(a) == clientOf(netip.MustParseAddr("2001:db8:0:1::1")) {
		t.Error("a client of IPv6 has a network")
	}
	if clientOf(netip.MustParseAddr("::ffff:192.0.2.1")) != clientOf(netip.MustParseAddr("192.0.2.1")) {
		t.Error("an address is one in both forms")
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	network, err := CheckFrom("10.0.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	const header = "X-Forwarded-User"
	alone := newLogin(Settings{Proxy: Proxy{header, []netip.Prefix{network}}, Steer: []string{"*"}}, "billing", zap.NewNop())
	both := newLogin(Settings{Proxy: Proxy{header, []netip.Prefix{network}}, PasswordFile: passwordFile(t, "bob")}, "billing", zap.NewNop())
	for _, test := range []struct {
		name    string
		login   *login
		request *http.Request
		want    page.User
		status  int
	}{
		{"named", alone, request("10.0.0.7:1", "", "", header, "alice"), page.User{Name: "alice", Role: page.Steer}, 0},
		{"in IPv6", alone, request("[::ffff:10.0.0.7]:1", "", "", header, "alice"), page.User{Name: "alice", Role: page.Steer}, 0},
		{"another address", alone, request("10.0.1.7:1", "", "", header, "alice"), page.User{}, http.StatusForbidden},
		{"loopback is no proxy", alone, request("127.0.0.1:1", "", "", header, "alice"), page.User{}, http.StatusForbidden},
		{"nobody", alone, request("10.0.0.7:1", "", ""), page.User{}, http.StatusForbidden},
		{"empty", alone, request("10.0.0.7:1", "", "", header, ""), page.User{}, http.StatusForbidden},
		{"two", alone, request("10.0.0.7:1", "", "", header, "mallory", header, "alice"), page.User{}, http.StatusForbidden},
		{"controls", alone, request("10.0.0.7:1", "", "", header, "a\x1b[2J"), page.User{}, http.StatusForbidden},
		{"a letter that nobody sees", alone, request("10.0.0.7:1", "", "", header, "alice\u3164"), page.User{}, http.StatusForbidden},
		{"long", alone, request("10.0.0.7:1", "", "", header, strings.Repeat("a", 129)), page.User{}, http.StatusForbidden},
		{"both, by proxy", both, request("10.0.0.7:1", "", "", header, "alice"), page.User{Name: "alice", Role: page.Look}, 0},
		{"both, by password", both, request("192.0.2.1:1", "bob", "bob-secret", header, "alice"), page.User{Name: "bob", Role: page.Look}, 0},
		{"both, neither", both, request("192.0.2.1:1", "", "", header, "alice"), page.User{}, http.StatusUnauthorized},
	} {
		if user, status := ask(test.login, test.request); user != test.want || status != test.status {
			t.Errorf("%s: %+v, status %d, want %+v, %d", test.name, user, status, test.want, test.status)
		}
	}
}

func TestPasswordFileIsChecked(t *testing.T) {
	t.Parallel()
	line, err := Hash("alice", "long enough")
	if err != nil {
		t.Fatal(err)
	}
	weak, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ text, want string }{
		{line + "\n", ""},
		{"# a comment\n\n" + strings.Replace(line, "$2a$", "$2y$", 1), ""}, // as htpasswd writes it
		{"", "no user"},
		{"alice\n", ":1: expected NAME:HASH"},
		{line + "\nbob:secret-in-the-wrong-place\n", ":2: expected a bcrypt hash"},
		{line + "\n" + line + "\n", ":2: the user \"alice\" has a line before this one"},
		{"alice:" + string(weak), ":1: a hash of cost 4"},
	} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Settings{PasswordFile: path}.CheckFiles()
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%q: %v, want %s", test.text, err, test.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("shows what may be a secret: %v", err)
		}
	}
	for _, bad := range []struct{ name, password string }{{"", "long enough"}, {"a:b", "long enough"}, {"alice", "short"}, {"alice", strings.Repeat("a", 73)}, {"a\nb", "long enough"}} {
		if line, err := Hash(bad.name, bad.password); err == nil {
			t.Errorf("%q, %q: %s", bad.name, bad.password, line)
		}
	}
}

func TestAddressesAreClosed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings Settings
		open     bool
		wrong    bool
	}{
		{Settings{Address: "127.0.0.1:8080"}, false, false},
		{Settings{Address: "[::1]:8080"}, false, false},
		{Settings{Address: "localhost:8080"}, false, false},
		{Settings{Address: ":8080"}, true, true},
		{Settings{Address: "0.0.0.0:8080"}, true, true},
		{Settings{Address: "[::]:8080"}, true, true},
		{Settings{Address: "10.1.2.3:8080"}, true, true},
		{Settings{Address: "web-1:8080"}, true, true},
		{Settings{Address: "localhost.example.com:8080"}, true, true},
		{Settings{Address: ":8080", NoPage: true}, false, false},
		{Settings{Address: ":8080", PasswordFile: "x"}, false, false},
		{Settings{Address: ":8080", Proxy: Proxy{Header: "X-User"}}, false, false},
		{Settings{Address: "127.0.0.1"}, false, true},
		{Settings{Address: "127.0.0.1:http"}, false, true},
		{Settings{Address: "127.0.0.1:99999"}, false, true},
		{Settings{}, false, false},
	} {
		if err := test.settings.Check(); errors.Is(err, errOpen) != test.open || (err != nil) != test.wrong {
			t.Errorf("%+v: %v", test.settings, err)
		}
	}
}

// Clients without a login cannot fill the log.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.InfoLevel)
	path := passwordFile(t, "alice")
	l := newLogin(Settings{PasswordFile: path}, "billing", zap.New(core))
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, status := ask(l, request("192.0.2.7:1", "alice", "guess")); status != http.StatusServiceUnavailable {
			t.Fatal(status)
		}
	}
	if n := lines.Len(); n != 1 {
		t.Errorf("%d lines for 100 requests while the file is broken", n)
	}
	writePasswords(t, path, "alice")
	ask(l, request("192.0.2.7:1", strings.Repeat("x", 10_000), "guess"))
	for _, line := range lines.All() {
		if text := fmt.Sprint(line.ContextMap()); len(text) > 500 {
			t.Errorf("a line of %d bytes", len(text))
		}
	}
}
