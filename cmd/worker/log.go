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

// newLogger returns a logger that writes JSON, or text for people if w is a
// terminal.
func newLogger(command *cobra.Command, w io.Writer, level string) (*zap.Logger, error) {
	least, ok := logLevels[level]
	if !ok {
		return nil, usagef(command, "--log-level %q: expected debug, info, warn or error", level)
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
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), least)), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
