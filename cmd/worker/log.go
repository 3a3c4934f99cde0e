package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
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
	if isTerminal(w) {
		settings := zap.NewDevelopmentEncoderConfig()
		settings.EncodeLevel = zapcore.CapitalColorLevelEncoder
		settings.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(settings)
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
