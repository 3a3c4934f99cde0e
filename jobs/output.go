package jobs

import (
	"context"
	"io"

	"github.com/cronlease/cronlease/internal/tail"
)

// MaxOutput is how much of what an attempt writes to its [Output] is kept, in bytes: the
// end.
const MaxOutput = 4 << 10

// Output is where a run may write what people should see of it: the ledger keeps the
// last 4 KiB of each attempt with the run, and [Group.Output] reads it. Anyone who can read
// the ledger can read it: write no secrets. It never fails and never waits, and may be
// used by several goroutines. What is written after the attempt has ended is lost, and so
// is everything where ctx is not that of a run, or of one that runs everywhere.
func Output(ctx context.Context) io.Writer {
	if w := tail.Of(ctx); w != nil {
		return w
	}
	return io.Discard
}
