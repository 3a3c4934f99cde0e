package web

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/cronlease/cronlease/page"
)

// login knows the users of a page.
type login struct {
	settings  Settings
	group     string
	passwords *passwords // nil for none
	log       *zap.Logger
	faults    rate.Sometimes // how often the log says that the file cannot be used
}

func newLogin(s Settings, group string, log *zap.Logger) *login {
	l := &login{settings: s, group: group, log: log, faults: rate.Sometimes{Interval: time.Minute}}
	if s.PasswordFile != "" {
		l.passwords = newPasswords(s.PasswordFile)
	}
	return l
}

// user is a [page.Auth]: the user that the proxy names, or that knows a password.
func (l *login) user(w http.ResponseWriter, r *http.Request) (page.User, bool) {
	refuse := func(status int, why string) (page.User, bool) {
		http.Error(w, why, status)
		return page.User{}, false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return refuse(http.StatusForbidden, "the address that this comes from is not known")
	}
	from := peer.Addr().Unmap().WithZone("")
	name, ok, err := l.settings.Proxy.user(r, from)
	switch {
	case err != nil:
		return refuse(http.StatusForbidden, err.Error())
	case ok:
		return l.known(name)
	case l.passwords == nil:
		return refuse(http.StatusForbidden, "this page is reached through its proxy, which says who the user is")
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return l.demand(w)
	}
	switch err := l.passwords.check(r.Context(), from, name, password); {
	case err == nil:
		return l.known(name)
	case errors.Is(err, errWrongPassword):
		if checkName(name) != nil {
			name = "" // no user has it, and it may be anything
		}
		l.log.Warn("a login failed", zap.String("user", name), zap.String("from", r.RemoteAddr))
		return l.demand(w)
	case errors.Is(err, errTooMany):
		l.log.Debug("a login was refused, because too many have failed", zap.String("from", r.RemoteAddr))
		w.Header().Set("Retry-After", "60")
		return refuse(http.StatusTooManyRequests, err.Error())
	case r.Context().Err() != nil:
		return refuse(http.StatusServiceUnavailable, "too many log in at the same time")
	default:
		l.faults.Do(func() { l.log.Error("the file of passwords cannot be used: nobody can log in", zap.Error(err)) })
		return refuse(http.StatusServiceUnavailable, "the file of passwords cannot be used: the log says why")
	}
}

func (l *login) known(name string) (page.User, bool) {
	role := page.Look
	if l.settings.maySteer(name) {
		role = page.Steer
	}
	return page.User{Name: name, Role: role}, true
}

// demand asks for a password.
func (l *login) demand(w http.ResponseWriter) (page.User, bool) {
	w.Header().Set("WWW-Authenticate", `Basic realm="cronlease `+l.group+`", charset="UTF-8"`) // a group's name has no quotes
	http.Error(w, "expected a user and a password", http.StatusUnauthorized)
	return page.User{}, false
}

var errIdentity = errors.New("the proxy names no user, or more than one")

// user is the name that a trusted proxy gives. False: the request is not from one.
func (p Proxy) user(r *http.Request, from netip.Addr) (string, bool, error) {
	if p.Header == "" || !p.trusts(from) {
		return "", false, nil
	}
	names := r.Header.Values(p.Header)
	if len(names) == 0 {
		return "", false, nil
	}
	// Two headers may be the proxy's and one of the client's.
	if len(names) > 1 || checkName(names[0]) != nil {
		return "", false, errIdentity
	}
	return names[0], true, nil
}

func (p Proxy) trusts(from netip.Addr) bool {
	for _, prefix := range p.From {
		if prefix.Contains(from) {
			return true
		}
	}
	return false
}
