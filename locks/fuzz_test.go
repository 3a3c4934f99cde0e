package locks

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/store"
)

// FuzzDecode decodes rows that any program may have written. A decoded row survives
// encoding and decoding unchanged; the rules hold for any queue; and no label looks
// like the mark of a place that holds the lock.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "w", "rr", "W", "RRwr", "WWRR"} {
		f.Add(line(text).encode(), `"id":"locks/a.7","granted":1,`)
	}
	f.Add([]byte(`{"places":[{"process":1}]}`), "")
	f.Fuzz(func(t *testing.T, row []byte, label string) {
		q, err := decode("stock", row)
		if err != nil {
			if text := err.Error(); !strings.Contains(text, `"stock"`) || !strings.Contains(text, "repair or delete it") {
				t.Errorf("%q: %v", row, err)
			}
			return
		}
		if len(q.Places) > 0 {
			again, err := decode("stock", q.encode())
			if err != nil || !reflect.DeepEqual(again, q) {
				t.Fatalf("%q: %+v became %+v: %v", row, q, again, err)
			}
		}
		before := len(q.Places)
		q.join(process{Group: "locks/a", Token: 1}, place{ID: "locks/a.7", Label: label})
		q.grant(9, 1)
		writers, held := 0, 0
		for i, p := range q.Places {
			if p.Granted == 0 {
				continue
			}
			held++
			if !p.Read {
				writers++
			}
			if store.CheckName("place", p.ID) == nil && !bytes.Contains(q.encode(), p.mark()) {
				t.Errorf("%q: place %d has the lock, and no mark", row, i)
			}
		}
		if before == 0 && (writers != 1 || held != 1) {
			t.Errorf("%q: the only place does not have the lock", row)
		}
		mine := q.find("locks/a.7")
		if forged := (place{ID: mine.ID, Granted: 1}); before == 0 && bytes.Contains(q.encode(), forged.mark()) {
			t.Errorf("label %q is the mark of another term", label)
		}
		q.keep(func(_ process, p place) bool { return p.ID != "locks/a.7" })
		for i, p := range q.Places {
			if p.Process < 0 || p.Process >= len(q.Processes) {
				t.Errorf("%q: place %d is of process %d of %d", row, i, p.Process, len(q.Processes))
			}
		}
	})
}
