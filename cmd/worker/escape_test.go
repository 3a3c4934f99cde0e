package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// hostile is text that a terminal acts on, or shows in another order.
const hostile = "a\u0085\u009b2J\x7f\u061c\u200e\u200f\u202a\u202egnirts\u2066\u2069\u2028\u2029\x1b[2Jé€😀"

func hasControls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp))
	})
}

// JSON stays JSON, and says the same.
func TestEscapedJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	want := map[string]string{hostile: "\\" + hostile + `"` + hostile}
	if err := json.NewEncoder(escaping{to: &out}).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got[hostile] != want[hostile] || hasControls(out.String()) {
		t.Errorf("%v: %q", err, out.String())
	}
}

func TestEscapedText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, want string
		colours  bool
	}{
		{in: "a\tb\né€😀", want: "a\tb\né€😀"},
		{in: "\x1b[2J\r\x00\u0085\x7f", want: `\u001b[2J\u000d\u0000\u0085\u007f`},
		{in: "\x1b[34mINFO\x1b[0m\u009b", want: "\x1b[34mINFO\x1b[0m" + `\u009b`, colours: true},
		{in: "a\x9b2J\xc2", want: `a\x9b2J\xc2`},
		{in: "\u202egnirts", want: `\u202egnirts`},
	} {
		var out bytes.Buffer
		n, err := escaping{&out, c.colours}.Write([]byte(c.in))
		if err != nil || n != len(c.in) || out.String() != c.want {
			t.Errorf("%q: %d, %v, %q", c.in, n, err, out.String())
		}
	}
}

// atMost takes so many bytes.
type atMost int

func (m atMost) Write(p []byte) (int, error) { return min(int(m), len(p)), io.ErrShortWrite }

// A write that is cut off tells how much of what was given is written.
func TestEscapedInPart(t *testing.T) {
	t.Parallel()
	for taken, want := range map[atMost]int{0: 0, 2: 2, 7: 2, 8: 4, 9: 5, 10: 5, 11: 7} {
		n, err := escaping{to: taken}.Write([]byte("ab\u0085cé"))
		if !errors.Is(err, io.ErrShortWrite) || n != want {
			t.Errorf("%d: %d, %v", taken, n, err)
		}
	}
}

// What another program has written into the database reaches no terminal as a
// command, in any form of output.
func TestHostileTextInOutput(t *testing.T) {
	t.Parallel()
	path, s, h := ledIdle(t, hostile)
	ctx := t.Context()
	key := jobs.Key{Job: "idle", Tick: time.Unix(1, 0).UTC()}
	if _, err := s.Claim(ctx, h, store.ClaimID{1}, []store.Claim{{Key: key, State: jobs.Skipped, Error: hostile}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(ctx, "UPDATE cronlease_lease SET owner = ?1", hostile); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"runs"}, {"jobs"}, {"status"}, {"runs", "--json"}, {"jobs", "--json"}, {"status", "--json"}, {"trigger", "idle", "--json"}, {"cancel", "idle", "--json"},
	} {
		r := command(t, append(args, "--config", path)...)
		if hasControls(r.stdout) {
			t.Errorf("worker %v: %q", args, r.stdout)
		}
		if args[len(args)-1] == "--json" && !json.Valid([]byte(r.stdout)) {
			t.Errorf("worker %v is no JSON: %q", args, r.stdout)
		}
	}
	if runs := decode[[]runRecord](t, command(t, "runs", "--status", "skipped", "--json", "--config", path)); len(runs) != 1 || runs[0].Error != hostile {
		t.Errorf("got %+v", runs)
	}
}

// What a job writes is logged with its controls escaped.
func TestHostileOutputOfAJob(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: tick, every: 1s, exec: [printf, '\\302\\2332J\\342\\200\\256\\033[2J\\177\\n']}\n")
	w := startWorker(t, "run", "--config", path)
	line := w.await("its output", func(line map[string]any) bool { return strings.Contains(asText(line["line"]), "2J") })
	if got := asText(line["line"]); !strings.Contains(got, "\u009b2J\u202e") {
		t.Errorf("got %q", got)
	}
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if hasControls(w.text.String()) {
		t.Errorf("got %q", w.text.String())
	}
}

// On a terminal the message is written as it is by the encoder of others.
func TestConsoleMessages(t *testing.T) {
	t.Parallel()
	e := plainMessages{zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m"})}
	line, err := e.Clone().EncodeEntry(zapcore.Entry{Message: "a\x1b[2J\nb"}, nil)
	if err != nil || line.String() != `a\x1b[2J\nb`+"\n" {
		t.Errorf("%v, %q", err, line)
	}
}
