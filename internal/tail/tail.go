// Package tail keeps the end of what is written.
package tail

import (
	"context"
	"sync"
)

// Tail keeps the end of what is written to it. It is safe for concurrent use.
type Tail struct {
	most int

	mu  sync.Mutex
	end []byte
}

// New returns a Tail that keeps the last most bytes.
func New(most int) *Tail { return &Tail{most: most} }

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p[max(0, n-t.most):]...)
	if len(t.end) > 2*t.most { // not each time: it moves what is kept
		t.end = append(t.end[:0], t.end[len(t.end)-t.most:]...)
	}
	return n, nil
}

// Bytes returns a copy of what is kept; nil if nothing was written.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.end) == 0 {
		return nil
	}
	return append([]byte(nil), t.end[max(0, len(t.end)-t.most):]...)
}

type key struct{}

// With returns a context that has t.
func With(ctx context.Context, t *Tail) context.Context { return context.WithValue(ctx, key{}, t) }

// Of returns what a context has; nil if it has none.
func Of(ctx context.Context) *Tail {
	t, _ := ctx.Value(key{}).(*Tail)
	return t
}
