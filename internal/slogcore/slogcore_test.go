package slogcore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/slogcore"
)

// logger writes lines from a level on, which decoded returns.
func logger(at slog.Level) (l *zap.Logger, decoded func(t *testing.T) []map[string]any) {
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true, Level: at})
	return slogcore.New(slog.New(handler)), func(t *testing.T) (lines []map[string]any) {
		t.Helper()
		for d := json.NewDecoder(&out); ; {
			var line map[string]any
			err := d.Decode(&line)
			if errors.Is(err, io.EOF) {
				return lines
			}
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line)
		}
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	l, lines := logger(slog.LevelInfo)
	l.Debug("1")
	l.Info("2")
	l.Warn("3")
	l.Error("4")
	l.DPanic("5")
	got := ""
	for _, line := range lines(t) {
		got += line["level"].(string) + line["msg"].(string) + " "
	}
	if got != "INFO2 WARN3 ERROR4 ERROR+45 " {
		t.Errorf("got %s", got)
	}
	if l.Core().Enabled(zap.DebugLevel) || !l.Core().Enabled(zap.InfoLevel) {
		t.Error("other levels are enabled")
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	l, lines := logger(slog.LevelDebug)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l.With(zap.String("group", "g"), zap.Uint64("token", 1<<63)).Info("a", zap.Error(errors.New("no luck")), zap.Time("tick", at), zap.Duration("took", time.Second),
		zap.Any("why", map[string]int{"paused": 3}), zap.ByteString("stack", []byte("main")), zap.Strings("list", []string{"a", "b"}), zap.Error(nil),
		zap.Stringer("level", slog.LevelWarn), zap.Bool("b", true), zap.Float64("f", 1.5))
	l.With(zap.Int("a", 1), zap.Namespace("n"), zap.Int("b", 2)).Info("b", zap.Int("c", 3), zap.Namespace("m"), zap.Int("d", 4))
	l.With().Info("c")
	all := lines(t)
	for _, line := range all {
		for _, key := range []string{"time", "source", "msg"} {
			delete(line, key)
		}
	}
	want := []map[string]any{
		{
			"group": "g", "token": float64(1 << 63), "error": "no luck", "tick": "2026-11-20T12:00:00Z", "took": float64(time.Second), "why": map[string]any{"paused": 3.0},
			"stack": "main", "list": []any{"a", "b"}, "level": "WARN", "b": true, "f": 1.5,
		},
		{"level": "INFO", "a": 1.0, "n": map[string]any{"b": 2.0, "c": 3.0, "m": map[string]any{"d": 4.0}}},
		{"level": "INFO"},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
}

// A line has the place in the source where it was logged.
func TestSource(t *testing.T) {
	t.Parallel()
	l, lines := logger(slog.LevelInfo)
	l.Info("here")
	source := lines(t)[0]["source"].(map[string]any)
	text, err := os.ReadFile("slogcore_test.go")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Count(strings.Split(string(text), `l.Info("here`)[0], "\n") + 1
	if source["line"] != float64(want) || !strings.HasSuffix(source["file"].(string), "slogcore_test.go") {
		t.Errorf("got %v, want line %d", source, want)
	}
}

// An error stays one, for handlers that look into it.
func TestErrorValue(t *testing.T) {
	t.Parallel()
	var h holder
	slogcore.New(slog.New(&h)).Info("x", zap.Error(io.EOF))
	h.r.Attrs(func(a slog.Attr) bool {
		if a.Value.Any() != io.EOF { //nolint:errorlint // the very value
			t.Errorf("got %v", a)
		}
		return true
	})
	if h.r.NumAttrs() != 1 || slogcore.New(nil) != nil {
		t.Error("no error, or a logger for nil")
	}
}

// holder is a handler that keeps the last line.
type holder struct{ r slog.Record }

func (*holder) Enabled(context.Context, slog.Level) bool        { return true }
func (h *holder) Handle(_ context.Context, r slog.Record) error { h.r = r; return nil }
func (h *holder) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h *holder) WithGroup(string) slog.Handler                 { return h }
