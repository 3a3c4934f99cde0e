package argtext_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/argtext"
)

func TestHide(t *testing.T) {
	long := strings.Repeat("secret", 100)
	args := json.RawMessage(`{"n":1,"key":"secret-1","list":["secret-2",{"k":"` + long + `"}],"a":"abc"}`)
	base := errors.New("no")
	for text, want := range map[string]string{
		"key secret-1 and secret-2, abc": "key (hidden) and (hidden), abc",
		"value '" + string(args) + "'":   "value '(hidden)'",
		"value '" + long[:128] + "...'":  "value '(hidden)",
		"nothing":                        "nothing",
	} {
		err := argtext.Hide(fmt.Errorf("%s: %w", text, base), args)
		if got, _, _ := strings.Cut(err.Error(), ": no"); got != want || !errors.Is(err, base) {
			t.Errorf("%.40q: got %q, want %q", text, err, want)
		}
	}
	if err := argtext.Hide(base, nil); argtext.Hide(nil, args) != nil || !errors.Is(err, base) || err.Error() != base.Error() {
		t.Error("without an error or arguments")
	}
}
