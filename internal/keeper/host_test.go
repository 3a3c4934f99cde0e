package keeper

import (
	"os"
	"strings"
	"testing"
)

// What a host can be called, which a test cannot choose.
func TestNamePart(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"db-1.example.com":      "db-1.example.com",
		"fe80::1%eth0":          "fe80::1-eth0",
		"..":                    "x",
		"münchen":               "m-nchen",
		strings.Repeat("h", 64): strings.Repeat("h", 40),
		"a/b/c":                 "a-b-c",
		"(none)":                "none-",
	} {
		if got := namePart(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if host, err := os.Hostname(); err != nil || !strings.HasPrefix(NewOwner("billing"), "billing/"+namePart(host)+"/") {
		t.Errorf("on host %q (%v): owner %q", host, err, NewOwner("billing"))
	}
}
