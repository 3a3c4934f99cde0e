package ledgerrows_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/store"
)

// FuzzCutError checks that what the ledger keeps of an error is its beginning.
func FuzzCutError(f *testing.F) {
	f.Add("failed", 1)
	f.Add("é", store.MaxError/2)
	f.Add("東", store.MaxError/3+1)
	f.Add("\xff\x80", store.MaxError)
	f.Fuzz(func(t *testing.T, text string, times int) {
		whole := strings.Repeat(text, max(0, times%4000))
		cut := ledgerrows.CutError(whole)
		switch {
		case !strings.HasPrefix(whole, cut), len(cut) > store.MaxError:
			t.Errorf("%d bytes of %q became %d of another text", len(whole), text, len(cut))
		case len(whole) <= store.MaxError && cut != whole, len(whole) > store.MaxError && len(cut) < store.MaxError-utf8.UTFMax:
			t.Errorf("%d bytes of %q became %d", len(whole), text, len(cut))
		case utf8.ValidString(whole) && !utf8.ValidString(cut):
			t.Errorf("%q is cut in a character", text)
		}
	})
}
