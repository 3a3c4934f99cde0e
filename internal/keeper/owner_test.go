package keeper_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

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
		owner := keeper.NewOwner(label)
		if err := store.CheckName("owner", owner); err != nil {
			t.Errorf("label %q: %v", label, err)
		}
		if form := ownerForm.FindStringSubmatch(owner); form == nil || form[1] != part {
			t.Errorf("label %q: owner %q, want it to begin with %q", label, owner, part)
		}
		if keeper.NewOwner(label) == owner {
			t.Errorf("label %q: the same owner twice", label)
		}
	}
}

func FuzzNewOwner(f *testing.F) {
	for _, s := range []string{"", "a", "ü", "a/b", "\xff", strings.Repeat("/", 99)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, label string) {
		owner := keeper.NewOwner(label)
		if err := store.CheckName("owner", owner); err != nil || ownerForm.FindString(owner) == "" || !utf8.ValidString(owner) {
			t.Errorf("label %q: owner %q, %v", label, owner, err)
		}
	})
}

// The rows of sessions of locks are deleted; no other group may be among them.
func TestReservedGroups(t *testing.T) {
	t.Parallel()
	for group, ok := range map[string]bool{"locks": true, "lockss/a": true, "a/locks/b": true, "locks/a": false, "locks/": false, "": false} {
		if err := store.CheckGroup(group); (err == nil) != ok {
			t.Errorf("group %q: %v", group, err)
		}
		k, err := keeper.New(memdb.New(), keeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Candidate(group); (err == nil) != ok {
			t.Errorf("candidate for group %q: %v", group, err)
		}
	}
	k, err := keeper.New(memdb.New(), keeper.Config{Sessions: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Candidate("locks/a"); err != nil {
		t.Errorf("a session: %v", err)
	}
}
