package stream

import (
	"log/slog"
	"slices"

	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/event"
)

// notes is a core of a logger that makes its lines events.
type notes struct {
	stream *Stream
	with   []zapcore.Field
}

func (*notes) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel }

func (n *notes) With(fields []zapcore.Field) zapcore.Core {
	return &notes{n.stream, slices.Concat(n.with, fields)}
}

func (n *notes) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if n.Enabled(e.Level) {
		return checked.AddCore(e, n)
	}
	return checked
}

func (n *notes) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(n.with, fields) {
		f.AddTo(all)
	}
	note := event.Note{Header: event.Header{At: e.Time}, Level: slog.Level(4 * e.Level), Message: e.Message}
	note.Group, _ = all.Fields["group"].(string)
	note.Owner, _ = all.Fields["owner"].(string)
	note.Token, _ = all.Fields["token"].(uint64)
	for _, key := range []string{"group", "owner", "token"} {
		delete(all.Fields, key)
	}
	if len(all.Fields) > 0 {
		note.Fields = all.Fields
	}
	n.stream.post(note)
	return nil
}

func (*notes) Sync() error { return nil }
