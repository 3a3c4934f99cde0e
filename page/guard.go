package page

import (
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// headers are those of every answer. Referrer-Policy is not no-referrer, because
// browsers would send actions with the origin "null" then.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	"Referrer-Policy":              "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// guard lets requests pass that may be answered, with their user in the context.
func (p *Page) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		deny := func(status int, why string) {
			p.set.log.Debug("a request was refused", zap.String("from", r.RemoteAddr), zap.String("path", r.URL.Path), zap.String("why", why))
			refuse(w, r, status, why)
		}
		if !p.knowsHost(r.Host) {
			deny(http.StatusMisdirectedRequest, "this page is not served under that host name: an administrator has to allow it")
			return
		}
		if err := p.cross.Check(r); err != nil {
			deny(http.StatusForbidden, "a page of another origin asked for this")
			return
		}
		user, ok := p.set.auth(w, r)
		switch {
		case !ok:
			p.set.log.Debug("a request was refused", zap.String("from", r.RemoteAddr), zap.String("path", r.URL.Path))
			return
		case user.Role != Look && user.Role != Steer:
			deny(http.StatusForbidden, "you may not see this page")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r.WithContext(withUser(r.Context(), user)))
	})
}

// refuse answers a request that may not pass: programs by JSON, as everything that they ask for.
func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if wantsJSON(r) || strings.HasPrefix(r.URL.Path, "/api/") {
		writeJSON(w, status, map[string]string{"error": why})
		return
	}
	http.Error(w, why, status)
}

// steers lets users pass who may act.
func (p *Page) steers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const why = "You may look, but not act."
		switch {
		case userOf(r.Context()).Role == Steer:
			next.ServeHTTP(w, r)
		case wantsJSON(r):
			refuse(w, r, http.StatusForbidden, why)
		default:
			p.render(w, r, http.StatusForbidden, shown{title: "Not allowed", template: "error.html", data: failure{Text: why}})
		}
	})
}

// local is the Auth of a page that only this machine may use.
func local(w http.ResponseWriter, r *http.Request) (User, bool) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() || !isDirect(r) {
		refuse(w, r, http.StatusForbidden, "this page is open to clients of its own machine only: an administrator has to set up logins")
		return User{}, false
	}
	return User{Name: "local", Role: Steer}, true
}

// isDirect reports whether nothing in a request shows that a proxy has forwarded it. Of proxies that
// add no header by themselves, nginx asks by HTTP/1.0.
func isDirect(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return false
	}
	for name := range r.Header { // an empty one is one, too
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains(forwarding, name) {
			return false
		}
	}
	return true
}

// forwarding are further headers that proxies add, in their canonical form.
var forwarding = []string{"Forwarded", "X-Real-Ip", "Via", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For"}

// knowsHost reports whether a request may be for that host. A page of another site can
// lead its name to this address (DNS rebinding), and would then be of the same origin. It
// cannot do so with an address, or with localhost.
func (p *Page) knowsHost(host string) bool {
	host = plainHost(withoutPort(host))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || slices.Contains(p.set.hosts, host)
}

// withoutPort cuts the port off, and the brackets of an address.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// plainHost is a host's name in one form.
func plainHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

var hostForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$`)

func isHost(host string) bool { return hostForm.MatchString(host) }
