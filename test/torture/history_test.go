package torture

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Lines of events: what is cut off at the end is left out, and anything else that is no event is an error.
func TestReadEvents(t *testing.T) {
	t.Parallel()
	const first, second = `{"at":1,"worker":"w1","kind":"up","owner":"ö"}` + "\n", `{"at":2,"worker":"w1","kind":"follow"}` + "\n"
	for _, c := range []struct {
		name, text string
		want       int
		wrong      string // part of the error
	}{
		{"nothing", "", 0, ""},
		{"two", first + second, 2, ""},
		{"the last one has no end of line", first + strings.TrimSpace(second), 2, ""},
		{"the last one is cut off", first + second[:10], 1, ""},
		{"cut off within a letter", first[:strings.Index(first, "ö")+1], 0, ""},
		{"cut off after a brace", first + "{", 1, ""},
		{"cut off, and more", first[:10] + "\n" + second, 0, "line 1"},
		{"cut off, and more in one line", second[:10] + first, 0, "line 1"},
		{"an empty line", first + "\n" + second, 1, "line 2"},
		{"two in a line", strings.TrimSpace(first) + second, 0, "line 1"},
		{"zeros at the end", first + "\x00\x00\x00", 1, "line 2"},
		{"text at the end", first + "panic: oh", 1, "line 2"},
		{"a panic", first + "panic: oh\n\ngoroutine 1 [running]:\n", 1, "line 2"},
		{"another field", `{"at":1,"kind":"up","what":1}` + "\n", 0, "line 1"},
		{"another type", `{"at":"1","kind":"up"}` + "\n", 0, "line 1"},
		{"no kind", `{"at":1}` + "\n", 0, "line 1"},
		{"no object", "7\n", 0, "line 1"},
	} {
		var got []Event
		err := ReadEvents(strings.NewReader(c.text), func(e Event) { got = append(got, e) })
		switch {
		case (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong):
			t.Errorf("%s: got the error %v, want %q in it", c.name, err, c.wrong)
		case len(got) != c.want:
			t.Errorf("%s: got %v, want %d events", c.name, got, c.want)
		}
	}
	broken := iotest.ErrReader(io.ErrClosedPipe)
	if err := ReadEvents(broken, func(Event) {}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a pipe that is broken: %v", err)
	}
	var got []Event
	_ = ReadEvents(strings.NewReader(first+second), func(e Event) { got = append(got, e) })
	if want := []Event{{At: 1, Worker: "w1", Kind: Up, Owner: "ö"}, {At: 2, Worker: "w1", Kind: Follow}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
