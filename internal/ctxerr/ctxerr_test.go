package ctxerr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cronlease/cronlease/internal/ctxerr"
)

func TestWith(t *testing.T) {
	t.Parallel()
	cause, failed := errors.New("no answer"), errors.New("broken pipe")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), nil, "<nil>"},
		{t.Context(), failed, "broken pipe"},
		{over, nil, "<nil>"},
		{over, failed, "no answer: broken pipe"},
		{over, context.Canceled, "no answer: context canceled"},
		{over, fmt.Errorf("read: %w", cause), "read: no answer"},
	} {
		got := ctxerr.With(c.ctx, c.err)
		if fmt.Sprint(got) != c.want || c.err != nil && !errors.Is(got, c.err) {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
}
