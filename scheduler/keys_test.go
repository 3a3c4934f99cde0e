package scheduler

import (
	"encoding/json"
	"testing"
)

// The key is the value, and not how it was written.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{`"caf\u00e9"`, `"café"`}, {`"A\u0026B"`, `"A&B"`}, {`1`, `1.0`, `10e-1`, `0.1e1`}, {`0`, `-0.0`}, {`100`, `1e2`}, {`9007199254740993`, `9007199254740993.0`},
		{`{"a": 1, "b": [2, 3]}`, `{"b":[2.0,3],"a":1}`}, {`1e999999999`}, {`1e-9000000`}, {`1e-100000`}, {`true`}, {`null`}, {`"1"`}, {`9007199254740992`},
	} {
		for _, text := range same {
			if a, b := keyOf(json.RawMessage(`{"k": `+same[0]+`}`), "k"), keyOf(json.RawMessage(`{"other": 1, "k":`+text+`}`), "k"); a != b || a == "" {
				t.Errorf("%s has the key %q, and %s %q", same[0], a, text, b)
			}
		}
	}
	seen := map[string]string{}
	for _, text := range []string{`1`, `"1"`, `true`, `null`, `9007199254740992`, `9007199254740993`, `[1]`, `{"1":1}`, `1e999999999`, `1e999999998`, `1e-9000000`, `0`, `0.1`} {
		key := keyOf(json.RawMessage(`{"k":`+text+`}`), "k")
		if other, is := seen[key]; is {
			t.Errorf("%s and %s have the key %q", text, other, key)
		}
		seen[key] = text
	}
	for _, args := range []string{``, `1`, `{}`, `{"K": 1}`, `[]`} {
		if key := keyOf(json.RawMessage(args), "k"); key != "" {
			t.Errorf("%s has the key %q", args, key)
		}
	}
}
