package simulation_test

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// blockable is a log that can block like a pipe without a reader: every write then
// waits.
type blockable struct {
	waited atomic.Bool // a line has waited
	waits  func()      // called for each line that waits
	says   func(line string)

	mu      sync.Mutex
	blocked chan struct{} // nil when it is not
	ended   bool          // its process is over: it blocks no more
}

func (b *blockable) block() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocked == nil && !b.ended {
		b.blocked = make(chan struct{})
	}
}

// end frees it for good.
func (b *blockable) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.free()
}

func (b *blockable) free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocked != nil {
		close(b.blocked)
		b.blocked = nil
	}
}

func (b *blockable) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

func (b *blockable) With([]zapcore.Field) zapcore.Core { return b }

func (b *blockable) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !b.Enabled(e.Level) {
		return to
	}
	return to.AddCore(e, b)
}

func (b *blockable) Write(e zapcore.Entry, _ []zapcore.Field) error {
	b.says(e.Message)
	b.mu.Lock()
	blocked := b.blocked
	b.mu.Unlock()
	if blocked != nil {
		b.waited.Store(true)
		b.waits()
		<-blocked
	}
	return nil
}

func (b *blockable) Sync() error { return nil }
