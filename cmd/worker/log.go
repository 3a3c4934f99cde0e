package main

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

var logLevels = map[string]zapcore.Level{
	"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "warn": zapcore.WarnLevel, "error": zapcore.ErrorLevel,
}

// lostLines is the message of the line that stands for lines of the log that
// were dropped.
const lostLines = "log lines were dropped: standard error was blocked or closed"

// newLogger returns a logger that writes JSON, or text for people if w is a
// terminal. It never waits for w: see [sink]. The function that it returns ends
// it, and what it has not written by then has [flushFor] to be.
func newLogger(command *cobra.Command, w io.Writer, level string) (*zap.Logger, func(), error) {
	least, ok := logLevels[level]
	if !ok {
		return nil, nil, usagef(command, "--log-level %q: expected debug, info, warn or error", level)
	}
	var encoder zapcore.Encoder
	if f, ok := terminal(w); ok {
		w = escaping{f, true}
		settings := zap.NewDevelopmentEncoderConfig()
		settings.EncodeLevel = zapcore.CapitalColorLevelEncoder
		settings.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = plainMessages{zapcore.NewConsoleEncoder(settings)}
	} else {
		settings := zap.NewProductionEncoderConfig()
		settings.EncodeTime = func(t time.Time, e zapcore.PrimitiveArrayEncoder) {
			zapcore.RFC3339NanoTimeEncoder(t.UTC(), e)
		}
		encoder = zapcore.NewJSONEncoder(settings)
	}
	lost := encoder.Clone()
	to := newSink(w, sinkSize, func(lines int) []byte {
		entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), Message: lostLines}
		line, err := lost.EncodeEntry(entry, []zapcore.Field{zap.Int("dropped", lines)})
		if err != nil {
			return []byte(lostLines + "\n")
		}
		defer line.Free()
		return append([]byte(nil), line.Bytes()...)
	})
	// Zap's own complaints and the standard library's log go the same way: to
	// standard error itself they could block.
	log := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(to), least), zap.ErrorOutput(zapcore.AddSync(to)))
	restore := zap.RedirectStdLog(log)
	return log, func() {
		restore()
		to.Close(flushFor)
	}, nil
}

// plainMessages is an encoder that escapes messages, which the one below it
// writes as they are: other packages may log what a server has sent.
type plainMessages struct{ zapcore.Encoder }

func (p plainMessages) Clone() zapcore.Encoder { return plainMessages{p.Encoder.Clone()} }

func (p plainMessages) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	entry.Message = strings.ReplaceAll(printableText(entry.Message), "\n", `\n`)
	return p.Encoder.EncodeEntry(entry, fields)
}
