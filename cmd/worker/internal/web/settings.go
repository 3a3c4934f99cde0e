// Package web serves a worker's page, its health and its metrics, and knows its users.
package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// Settings say where a worker listens for HTTP, and who may use its page. The zero
// Settings listen nowhere.
type Settings struct {
	// Address is host:port; an empty host means all addresses of the machine. Empty: nothing is served.
	Address string
	// NoPage leaves out the page: health and metrics are served alone, to all.
	NoPage bool
	// Hosts are the names under which users reach the page, beside addresses and localhost.
	Hosts []string
	// PasswordFile has a line for each user: see [passwords]. Empty: none.
	PasswordFile string
	// Proxy is one that has checked who the user is.
	Proxy Proxy
	// Steer names the users who may act, and "*" all. The others may only look. It does not
	// concern a page without logins.
	Steer []string
	// Cert and Key are files, in PEM, for TLS; both or none. They are read for each connection.
	Cert, Key string
}

// Proxy says in which header of its requests a proxy names the user.
type Proxy struct {
	Header string // empty: there is no proxy
	// From are the addresses of the proxy: the header counts from no other.
	From []netip.Prefix
}

// logins reports whether users have to say who they are.
func (s Settings) logins() bool { return s.PasswordFile != "" || s.Proxy.Header != "" }

// errOpen is about a page that anybody could use.
var errOpen = errors.New("it is reached from other machines: expected password_file or proxy under listen, or page: false there for health and metrics alone")

// Check says what is wrong with the address, or with what it needs.
func (s Settings) Check() error {
	if s.Address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("expected host:port such as 127.0.0.1:8080")
	}
	if !isLoopback(host) {
		return s.checkOpen()
	}
	return nil
}

// checkOpen says what is missing for an address that other machines reach.
func (s Settings) checkOpen() error {
	if !s.NoPage && !s.logins() {
		return errOpen
	}
	return nil
}

// isLoopback reports whether the host can only be this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// CheckFiles says what is wrong with the files that the settings name.
func (s Settings) CheckFiles() (key string, err error) {
	if s.PasswordFile != "" {
		if _, err := readPasswords(s.PasswordFile); err != nil {
			return "password_file", err
		}
	}
	if s.Cert != "" {
		if _, err := s.certificate(nil); err != nil {
			return "cert", err
		}
	}
	return "", nil
}

// CheckFrom says what is wrong with the address of a proxy. It returns what the text stands for.
func CheckFrom(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if addr, alone := netip.ParseAddr(text); alone == nil {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return prefix, errors.New("expected an address such as 10.0.0.7, or a network such as 10.0.0.0/24")
	case prefix.Bits() == 0:
		return prefix, errors.New("any machine could name itself any user then: expected the addresses of the proxy")
	}
	return prefix.Masked(), nil
}

// maySteer reports whether a user may act.
func (s Settings) maySteer(name string) bool {
	return slices.Contains(s.Steer, name) || slices.Contains(s.Steer, "*")
}

// checkName says what keeps a text from being the name of a user.
func checkName(name string) error {
	const most = 128 // as much as a name may have elsewhere
	if name == "" || len(name) > most || !isPrintable(name) {
		return fmt.Errorf("expected a user's name of 1 to %d bytes of printable UTF-8", most)
	}
	return nil
}
