// Package waiting has what the signals and notifiers of several stores share.
package waiting

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cronlease/cronlease/store"
)

// Closer ends the waits of a signal when that or its store is closed. It is made by [New], and safe for concurrent use.
type Closer struct {
	doing   string
	closing context.Context // ends with Close
	close   context.CancelFunc
}

// New returns a Closer for a signal of a store, whose context ends when it is closed. Doing is what errors say was done.
func New(store context.Context, doing string) *Closer {
	c := &Closer{doing: doing}
	c.closing, c.close = context.WithCancel(store)
	return c
}

// Close ends all waits, and those to come.
func (c *Closer) Close() error {
	c.close()
	return nil
}

// Closed returns an error once the signal or its store is closed, and nil before.
func (c *Closer) Closed() error {
	if c.closing.Err() != nil {
		return fmt.Errorf("%s: closed", c.doing)
	}
	return nil
}

// After calls f in a goroutine of its own when the signal or its store is closed.
func (c *Closer) After(f func()) { context.AfterFunc(c.closing, f) }

// Until calls wait with a context that also ends with the signal. The error of a wait is that
// of ctx if that has ended, with what was being done, then Closed, and otherwise its own.
func (c *Closer) Until(ctx context.Context, wait func(context.Context) error) error {
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	err := wait(listening)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c.doing, ctx.Err())
	case c.closing.Err() != nil:
		return c.Closed()
	}
	return err
}

// Moved reports whether a row of a lock does not contain its mark. Read reads at most so many rows at a time.
func Moved(ctx context.Context, read func(context.Context, ...string) (store.LockReading, error), rows []store.LockWatch, most int) (bool, error) {
	for part := range slices.Chunk(rows, most) {
		names := make([]string, len(part))
		for i, w := range part {
			names[i] = w.Name
		}
		r, err := read(ctx, names...)
		if err != nil {
			return false, err
		}
		for i, row := range r.Rows {
			if !bytes.Contains(row.Queue, part[i].Mark) {
				return true, nil
			}
		}
	}
	return false, nil
}
