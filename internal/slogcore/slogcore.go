// Package slogcore lets a zap logger write to one of log/slog.
package slogcore

import (
	"context"
	"log/slog"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a zap logger whose lines go to l, with the same keys, levels and places in
// the source. It is nil for nil.
func New(l *slog.Logger) *zap.Logger {
	if l == nil {
		return nil
	}
	return zap.New(&core{handler: l.Handler()}, zap.AddCaller())
}

// core is a zap core on a slog handler.
type core struct{ handler slog.Handler }

var _ zapcore.Core = (*core)(nil)

// level is four times as wide in slog.
func level(l zapcore.Level) slog.Level { return slog.Level(4 * l) }

func (c *core) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), level(l))
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	h := c.handler
	for len(fields) > 0 {
		n := slices.IndexFunc(fields, isNamespace)
		if n < 0 {
			n = len(fields)
		}
		if attrs := attrsOf(fields[:n]); len(attrs) > 0 {
			h = h.WithAttrs(attrs)
		}
		if fields = fields[n:]; len(fields) > 0 {
			h, fields = h.WithGroup(fields[0].Key), fields[1:]
		}
	}
	return &core{h}
}

func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var pc uintptr
	if e.Caller.Defined {
		pc = e.Caller.PC + 1 // slog wants where the call returns to
	}
	r := slog.NewRecord(e.Time, level(e.Level), e.Message, pc)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrsOf(fields)...)
	return c.handler.Handle(context.Background(), r)
}

// Sync does nothing: slog has no buffers.
func (c *core) Sync() error { return nil }

func isNamespace(f zapcore.Field) bool { return f.Type == zapcore.NamespaceType }

// attrsOf returns fields as attributes: what is behind a namespace is a group.
func attrsOf(fields []zapcore.Field) (attrs []slog.Attr) {
	for i, f := range fields {
		if isNamespace(f) {
			return append(attrs, slog.Attr{Key: f.Key, Value: slog.GroupValue(attrsOf(fields[i+1:])...)})
		}
		attrs = append(attrs, attrOf(f)...)
	}
	return attrs
}

func attrOf(f zapcore.Field) []slog.Attr {
	switch f.Type {
	case zapcore.SkipType:
		return nil
	case zapcore.ErrorType:
		return []slog.Attr{slog.Any(f.Key, f.Interface)}
	case zapcore.ByteStringType:
		return []slog.Attr{slog.String(f.Key, string(f.Interface.([]byte)))}
	}
	values := zapcore.NewMapObjectEncoder()
	f.AddTo(values)
	attrs := make([]slog.Attr, 0, len(values.Fields))
	for key, value := range values.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	slices.SortFunc(attrs, func(a, b slog.Attr) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return attrs
}
