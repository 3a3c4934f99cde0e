package config

import (
	"net/netip"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/web"
)

const listenForm = "an address such as 127.0.0.1:8080"

var (
	headerForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)
	hostForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$`)
)

var listenFields = []field[web.Settings]{
	{"address", readAddress},
	{"page", func(v value, s *web.Settings) {
		page := true
		set(&page, readBool(v))
		s.NoPage = !page
	}},
	{"hosts", func(v value, s *web.Settings) {
		const what = "a host's name such as cron.example.com, without port"
		readList(v, "names such as [cron.example.com]", func(v value) {
			if t, ok := readText(v, what); ok {
				if !hostForm.MatchString(t.expanded) {
					t.bad("expected %s", what)
				}
				s.Hosts = append(s.Hosts, t.expanded)
			}
		})
	}},
	{"password_file", func(v value, s *web.Settings) { s.PasswordFile = readPath(v, "/etc/worker/users") }},
	{"proxy", func(v value, s *web.Settings) {
		found := readMapping(v, "a proxy such as {header: X-Forwarded-User, from: [10.0.0.7]}", proxyFields, &s.Proxy)
		require(v, found, "header", "the header in which the proxy names the user")
		require(v, found, "from", "the addresses of the proxy")
	}},
	{"steer", func(v value, s *web.Settings) {
		readList(v, `names of users such as [alice, bob], or ["*"] for all`, func(v value) {
			if t, ok := readText(v, "the name of a user"); ok {
				s.Steer = append(s.Steer, t.expanded)
			}
		})
	}},
	{"cert", func(v value, s *web.Settings) { s.Cert = readPath(v, "/etc/worker/page.pem") }},
	{"key", func(v value, s *web.Settings) { s.Key = readPath(v, "/run/secrets/page-key.pem") }},
}

var proxyFields = []field[web.Proxy]{
	{"header", func(v value, p *web.Proxy) {
		const what = "a header's name such as X-Forwarded-User"
		if t, ok := readText(v, what); ok {
			if !headerForm.MatchString(t.expanded) {
				t.bad("expected %s", what)
			}
			p.Header = t.expanded
		}
	}},
	{"from", func(v value, p *web.Proxy) {
		readList(v, "addresses such as [10.0.0.7] or [10.0.0.0/24]", func(v value) {
			if t, ok := readText(v, "an address such as 10.0.0.7, or a network such as 10.0.0.0/24"); ok {
				var prefix netip.Prefix
				var err error
				if prefix, err = web.CheckFrom(t.expanded); err != nil {
					t.bad("%v", err)
				}
				p.From = append(p.From, prefix)
			}
		})
	}},
}

func readAddress(v value, s *web.Settings) {
	if t, ok := readText(v, listenForm); ok {
		if s.Address = t.expanded; s.Address == "" {
			t.bad("expected %s", listenForm)
		}
	}
}

// readListen reads where the worker serves its page: an address, or a mapping with what
// else there is.
func readListen(v value, c *Config) {
	s := &c.Listen
	at := v
	either(v, yaml.MappingNode, func(v value) {
		found := readMapping(v, "settings such as {address: 127.0.0.1:8080}", listenFields, s)
		require(v, found, "address", listenForm)
		for _, pair := range [][2]string{{"cert", "key"}, {"key", "cert"}} {
			onlyBeside(found, pair[0], "a certificate and its key belong together", pair[1])
		}
		onlyBeside(found, "steer", "without logins, all users of this machine may act", "password_file", "proxy")
		for _, key := range []string{"hosts", "password_file", "proxy", "steer"} {
			if at, ok := found[key]; ok && s.NoPage {
				at.report("beside page: false: it is about the page")
			}
		}
		if address, ok := found["address"]; ok {
			at = address
		}
	}, func(v value) { readAddress(v, s) })
	if v.form == nil && s.Address != "" {
		reportAt(at, s.Check())
	}
}
