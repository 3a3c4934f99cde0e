// Package waiting ends the waits of signals that are closed.
package waiting

import (
	"context"
	"fmt"
)

// Until calls wait with a context that also ends with closing. The error of a wait is that
// of ctx if that has ended, with what was being done, then closed if closing has, and otherwise its own.
func Until(ctx, closing context.Context, doing string, closed error, wait func(context.Context) error) error {
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(closing, cancel)()
	err := wait(listening)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case closing.Err() != nil:
		return closed
	}
	return err
}
