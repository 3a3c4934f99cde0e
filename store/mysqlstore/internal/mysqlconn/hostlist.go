package mysqlconn

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const defaultPort = "3306"

// findList returns where the addresses are in a DSN of the driver: what is in
// the parentheses of tcp(...), and of unix(...), which may not be a list. Other
// networks are the program's own, and so are their addresses.
func findList(dsn string) (from, to int) {
	slash := strings.LastIndexByte(dsn, '/') // as the driver looks for it
	if slash < 0 {
		return 0, 0
	}
	network := strings.LastIndexByte(dsn[:slash], '@') + 1
	open := strings.IndexByte(dsn[network:slash], '(')
	if open < 0 || dsn[slash-1] != ')' {
		return 0, 0
	}
	if name := dsn[network : network+open]; name != "tcp" && name != "unix" {
		return 0, 0
	}
	return network + open + 1, slash - 1
}

// findListInURL is findList for a URL.
func findListInURL(url string) (from, to int) {
	from = strings.Index(url, "//") + 2
	to = len(url)
	if end := strings.IndexAny(url[from:], "/?#"); end >= 0 {
		to = from + end
	}
	return from + strings.LastIndexByte(url[from:to], '@') + 1, to
}

var hostRule = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?$`)

// parseHosts reads a list of hosts. Its errors only say which one is wrong:
// what is not understood may be a part of a password.
func parseHosts(list string) ([]string, error) {
	var hosts []string
	for i, entry := range strings.Split(list, ",") {
		host, wrong := parseHost(strings.TrimSpace(entry))
		if slices.ContainsFunc(hosts, func(other string) bool { return strings.EqualFold(other, host) }) {
			wrong = "is there twice"
		}
		if wrong != "" {
			return nil, fmt.Errorf("host %d of its list %s: want host1:port1,host2:port2, over TCP, with brackets around IPv6 addresses", i+1, wrong)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// parseHost returns an entry of a list as host:port, or what is wrong with it.
func parseHost(entry string) (host, wrong string) {
	if entry == "" {
		return "", "is empty"
	}
	name, port, hasPort := strings.Cut(entry, ":")
	if inner, isIPv6 := strings.CutPrefix(entry, "["); isIPv6 {
		var after string
		var closed bool
		name, after, closed = strings.Cut(inner, "]")
		if address, err := netip.ParseAddr(name); err != nil || !address.Is6() || address.Zone() != "" {
			return "", "is no IPv6 address without a zone"
		}
		var before string
		if before, port, hasPort = strings.Cut(after, ":"); before != "" || !closed {
			return "", "is not understood"
		}
	} else if !hostRule.MatchString(name) {
		return "", "is not understood"
	}
	if !hasPort {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "has no port of 1 to 65535 after its colon"
	}
	return net.JoinHostPort(name, port), ""
}
