// Package ledgerrows has what the ledgers of this module share: which claims and
// moves they take, how they bound an error's text, keep pauses as text, and count
// starts.
package ledgerrows

import (
	"unicode/utf8"

	"github.com/cronlease/cronlease/store"
)

// CutError bounds an error's text for the ledger, at the end of a character.
func CutError(text string) string {
	if len(text) <= store.MaxError {
		return text
	}
	end := store.MaxError
	for end > store.MaxError-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
