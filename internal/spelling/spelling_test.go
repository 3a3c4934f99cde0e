package spelling_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cronlease/cronlease/internal/spelling"
)

func TestNear(t *testing.T) {
	t.Parallel()
	names := []string{"nightly-report", "weekly-report", "invoices", "mail/send", "mail/sync", "x"}
	tests := []struct {
		name string
		want []string
	}{
		{"nightly-reprot", []string{"nightly-report"}},
		{"Nightly-Report", []string{"nightly-report"}},
		{"report", []string{"nightly-report", "weekly-report"}},
		{"invoice", []string{"invoices"}},
		{"mail/sned", []string{"mail/send", "mail/sync"}},
		{"backup", nil},
		{"", nil},
		{"zz", nil},
	}
	for _, test := range tests {
		if got := spelling.Near(names, test.name); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.name, got, test.want)
		}
	}
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprint("job-", i))
	}
	if got := spelling.Near(many, "job-5"); len(got) != 3 || got[0] != "job-5" {
		t.Errorf("%q", got)
	}
	if got := spelling.Near(nil, "a"); got != nil {
		t.Errorf("%q", got)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "ttl", 3}, {"grace", "grace", 0}, {"grcae", "grace", 1}, {"grac", "grace", 1}, {"gracee", "grace", 1}, {"kitten", "sitting", 3},
	} {
		if there, back := spelling.Distance(test.a, test.b), spelling.Distance(test.b, test.a); there != test.want || back != test.want {
			t.Errorf("%q and %q: %d and %d, want %d", test.a, test.b, there, back, test.want)
		}
	}
}
