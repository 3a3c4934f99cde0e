//go:build unix

package execjob

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// Bounds on what is kept and logged of a run's output. All of it is read, so
// that a job never waits for its worker.
const (
	maxLine = 8 << 10
	maxTail = 4 << 10
	// lineCost is what an entry of the log costs beside its text: its group, owner, job, tick and so on.
	lineCost = 250
	// All runs of a job together log as much as this at once, and after that as much in a minute.
	maxOutput = 1 << 20
)

// newBudget returns what all runs of a job may log, in bytes.
func newBudget() *rate.Limiter {
	return rate.NewLimiter(rate.Every(time.Minute/maxOutput), maxOutput)
}

// output logs what a run writes.
type output struct {
	log  *zap.Logger
	kept io.Writer // what the ledger keeps the end of

	budget *rate.Limiter // of the job

	mu      sync.Mutex // guards all below
	streams []*stream
	silent  bool   // the budget was used up: the rest of this run is not logged
	end     []byte // the last lines
}

func newOutput(kept io.Writer, budget *rate.Limiter, log *zap.Logger) *output {
	return &output{log: log, kept: kept, budget: budget}
}

// stream is one of a run's two outputs. One goroutine writes to it.
type stream struct {
	to   *output
	name string
	line []byte
	cut  bool // line is not all of it
}

func (o *output) stream(name string) *stream {
	s := &stream{to: o, name: name}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams = append(o.streams, s)
	return s
}

// Write never fails.
func (s *stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(s.line); len(part) > room {
			part, s.cut = part[:room], true
		}
		s.line = append(s.line, part...)
		if ended {
			s.emit()
		}
		rest = after
	}
	return len(p), nil
}

func (s *stream) emit() {
	s.to.add(s.name, bytes.TrimSuffix(s.line, []byte("\r")), s.cut)
	s.line, s.cut = s.line[:0], false
}

func (o *output) add(stream string, line []byte, cut bool) {
	o.mu.Lock()
	_, _ = o.kept.Write(append(bytes.Clone(line), '\n')) // never fails
	o.end = append(append(o.end, line...), '\n')
	if len(o.end) > 2*maxTail { // not each time: it moves what is kept
		o.end = append(o.end[:0], o.end[len(o.end)-maxTail:]...)
	}
	before := o.silent
	o.silent = before || !o.budget.AllowN(time.Now(), len(line)+lineCost)
	after := o.silent
	o.mu.Unlock()

	switch {
	case !after:
		fields := []zap.Field{zap.String("stream", stream), zap.String("line", strings.ToValidUTF8(string(line), "\uFFFD"))}
		if cut {
			fields = append(fields, zap.Bool("truncated", true))
		}
		o.log.Info("output", fields...)
	case !before:
		o.log.Warn("output truncated: the rest of this run's output is not logged, since the job has logged as much as it may in a minute", zap.Int("limit", maxOutput))
	}
}

// flush emits what did not end with a newline. The streams are not written to
// any more.
func (o *output) flush() {
	for _, s := range o.streams {
		if len(s.line) > 0 {
			s.emit()
		}
	}
}

// tail returns the last lines.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := o.end[max(0, len(o.end)-maxTail):]
	return strings.TrimSpace(strings.ToValidUTF8(string(end), ""))
}
