// Package ctxerr tells from the error of a call why the context of the call ended.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// With adds the cause of an ended context to the error of a call that got that
// context, unless the error has it already. Nil stays nil.
func With(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
