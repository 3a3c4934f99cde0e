package lease_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "7", "billing", "a.b_c:d/e@f+g-h", "A", strings.Repeat("x", lease.MaxName)} {
		if err := lease.CheckName("group", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", " ", "a ", " a", "a\n", "a\x00", ".a", "_a", "-a", "/a", "@a", "a b", "ä", "a\u0301", "ａ", "a\xff", "a;b", "a`b", "a'b", `a"b`, "a%b", "a\\b",
		strings.Repeat("x", lease.MaxName+1), strings.Repeat("ä", 1000),
	} {
		err := lease.CheckName("group", name)
		if err == nil {
			t.Errorf("%q is accepted", name)
		} else if !strings.Contains(err.Error(), "group") || len(err.Error()) > 300 {
			t.Errorf("%q: error %q", name, err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"", "billing", "a ", "a\n", "\u212a", strings.Repeat("x", 129)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if lease.CheckName("job", s) != nil {
			return
		}
		if len(s) == 0 || len(s) > 128 {
			t.Errorf("%d bytes are accepted", len(s))
		}
		for i := range len(s) {
			if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte("`'\"\\%;,()*?", c) >= 0 {
				t.Errorf("%q is accepted", s)
			}
		}
	})
}

var ownerForm = regexp.MustCompile(`^([^/]{1,40})/[^/]{1,40}/[0-9]+/[A-Z2-7]{13}$`)

func TestNewOwner(t *testing.T) {
	t.Parallel()
	for label, part := range map[string]string{
		"":                       "worker",
		"billing":                "billing",
		"a b":                    "a-b",
		"a/b":                    "a-b",
		"-._:@+a":                "a",
		"---":                    "x",
		"ä":                      "x",
		"\x00\n":                 "x",
		"übung":                  "bung",
		strings.Repeat("l", 500): strings.Repeat("l", 40),
	} {
		owner := lease.NewOwner(label)
		if err := lease.CheckName("owner", owner); err != nil {
			t.Errorf("label %q: %v", label, err)
		}
		if form := ownerForm.FindStringSubmatch(owner); form == nil || form[1] != part {
			t.Errorf("label %q: owner %q, want it to begin with %q", label, owner, part)
		}
		if lease.NewOwner(label) == owner {
			t.Errorf("label %q: the same owner twice", label)
		}
	}
}

func FuzzNewOwner(f *testing.F) {
	for _, s := range []string{"", "a", "ü", "a/b", "\xff", strings.Repeat("/", 99)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, label string) {
		owner := lease.NewOwner(label)
		if err := lease.CheckName("owner", owner); err != nil || ownerForm.FindString(owner) == "" || !utf8.ValidString(owner) {
			t.Errorf("label %q: owner %q, %v", label, owner, err)
		}
	})
}

// The rows of sessions of locks are deleted; no other group may be among them.
func TestReservedGroups(t *testing.T) {
	t.Parallel()
	for group, ok := range map[string]bool{"locks": true, "lockss/a": true, "a/locks/b": true, "locks/a": false, "locks/": false, "": false} {
		if err := lease.CheckGroup(group); (err == nil) != ok {
			t.Errorf("group %q: %v", group, err)
		}
		k, err := lease.NewKeeper(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Candidate(group); (err == nil) != ok {
			t.Errorf("candidate for group %q: %v", group, err)
		}
	}
	k, err := lease.NewKeeper(memstore.New(), lease.WithSessions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Candidate("locks/a"); err != nil {
		t.Errorf("a session: %v", err)
	}
}
