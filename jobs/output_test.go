package jobs_test

import (
	"io"
	"testing"

	"github.com/cronlease/cronlease/internal/tail"
	"github.com/cronlease/cronlease/jobs"
)

// What a run prints is kept, and what is printed elsewhere is lost without an error.
func TestOutput(t *testing.T) {
	t.Parallel()
	kept := tail.New(10)
	if n, err := io.WriteString(jobs.Output(t.Context()), "lost"); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := io.WriteString(jobs.Output(tail.With(t.Context(), kept)), "kept"); n != 4 || err != nil || string(kept.Bytes()) != "kept" {
		t.Errorf("%d, %v: %q", n, err, kept.Bytes())
	}
}
