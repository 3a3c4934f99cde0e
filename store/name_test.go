package store_test

import (
	"strings"
	"testing"

	"github.com/cronlease/cronlease/store"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "7", "billing", "a.b_c:d/e@f+g-h", "A", strings.Repeat("x", store.MaxName)} {
		if err := store.CheckName("group", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", " ", "a ", " a", "a\n", "a\x00", ".a", "_a", "-a", "/a", "@a", "a b", "ä", "a\u0301", "ａ", "a\xff", "a;b", "a`b", "a'b", `a"b`, "a%b", "a\\b",
		strings.Repeat("x", store.MaxName+1), strings.Repeat("ä", 1000),
	} {
		err := store.CheckName("group", name)
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
		if store.CheckName("job", s) != nil {
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
