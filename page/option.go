package page

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// Auth says which user a request comes from. False: it has answered the request itself,
// such as with a demand for a password. It is called at the same time for several requests.
type Auth func(w http.ResponseWriter, r *http.Request) (User, bool)

// An Option changes a default of [New].
type Option func(*settings)

// settings are what the options set.
type settings struct {
	auth     Auth
	hosts    []string
	handlers []mounted
	clients  int
	log      *zap.Logger
}

// mounted is a handler of another package.
type mounted struct {
	path    string
	handler http.Handler
}

// WithAuth sets who may use the page. Default: clients of this machine that reach the
// page directly may do everything, and all others nothing. A request that a proxy has
// forwarded is not from this machine.
func WithAuth(auth Auth) Option { return func(s *settings) { s.auth = auth } }

// WithHosts names the hosts under which users reach the page, such as cron.example.com, without
// port. IP addresses and localhost are always allowed. Default: no other.
func WithHosts(hosts ...string) Option {
	return func(s *settings) { s.hosts = append(s.hosts, hosts...) }
}

// WithHandler serves a handler below the page, for GET requests of users who may look,
// such as /metrics.
func WithHandler(path string, h http.Handler) Option {
	return func(s *settings) { s.handlers = append(s.handlers, mounted{path, h}) }
}

// WithMaxClients limits how many clients follow the page's events at a time. To the others
// it says so, and their pages stay as they are until they are loaded again. Zero: the
// default, 100.
func WithMaxClients(n int) Option { return func(s *settings) { s.clients = n } }

// WithLogger sets the logger: actions are logged at info, and requests that are refused or
// fail at debug, since clients are told. Default: silent.
func WithLogger(l *zap.Logger) Option { return func(s *settings) { s.log = l } }

func settingsOf(options []Option) (settings, error) {
	set := settings{log: zap.NewNop(), auth: local}
	for i, option := range options {
		if option == nil {
			return set, fmt.Errorf("page: option %d is nil", i+1)
		}
		option(&set)
	}
	switch {
	case set.auth == nil:
		return set, errors.New("page: WithAuth(nil): give a function, or leave the option out")
	case set.log == nil:
		return set, errors.New("page: WithLogger(nil): give a logger, or leave the option out")
	case set.clients < 0:
		return set, fmt.Errorf("page: WithMaxClients(%d): must not be negative", set.clients)
	case set.clients == 0:
		set.clients = 100
	}
	for i, host := range set.hosts {
		if !isHost(host) {
			return set, fmt.Errorf("page: WithHosts(%.100q): must be a host's name, without port", host)
		}
		set.hosts[i] = plainHost(host)
	}
	taken := slices.Clone(ownPaths)
	for _, m := range set.handlers {
		if slices.Contains(taken, m.path) {
			return set, fmt.Errorf("page: WithHandler(%.100q): the path is taken", m.path)
		}
		taken = append(taken, m.path)
		if !strings.HasPrefix(m.path, "/") || strings.ContainsAny(m.path, "{} ") || m.handler == nil {
			return set, fmt.Errorf("page: WithHandler(%.100q): expected a path such as /metrics, and a handler", m.path)
		}
	}
	return set, nil
}
