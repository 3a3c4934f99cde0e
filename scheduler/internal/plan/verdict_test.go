package plan

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, test := range []struct {
		name string
		end  End
		want store.Verdict
	}{
		{"succeeded", End{To: jobs.Succeeded}, store.JobWorks},
		{"failed", End{To: jobs.Failed}, store.JobFails},
		{"timed out", End{To: jobs.TimedOut}, store.JobFails},
		{"panicked", End{To: jobs.Panicked}, store.JobFails},
		{"interrupted", End{To: jobs.Interrupted}, store.JobFails},
		{"waits", End{To: jobs.Waiting}, store.NoVerdict},
		{"skipped", End{To: jobs.Skipped, Why: TooLate}, store.NoVerdict},
		{"cancelled by the end of its term", End{To: jobs.Cancelled, Why: "the lease was lost"}, store.JobFails},
		{"cancelled by request", End{To: jobs.Cancelled, Record: jobs.Record{CancelAsked: true}}, store.NoVerdict},
		{"cancelled by this term", End{To: jobs.Cancelled, Stop: failed}, store.NoVerdict},
		{"cancelled since its job was away", End{To: jobs.Cancelled, Why: NotDeclared}, store.NoVerdict},
		{"cancelled for a newer tick", End{To: jobs.Cancelled, Why: fmt.Sprint(jobs.ErrReplacedByTick, ": ", failed)}, store.NoVerdict},
		{"failed when its end was asked for", End{To: jobs.Failed, Stop: failed}, store.JobFails},
	} {
		if got := test.end.says(); got != test.want || test.end.Verdict() != test.want {
			t.Errorf("%s: %v, of its job %v, want %v", test.name, got, test.end.Verdict(), test.want)
		}
		test.end.Record.Key = aBackfill.Key
		if got := test.end.Verdict(); got != store.NoVerdict || test.end.says() != test.want {
			t.Errorf("%s, in a backfill: %v", test.name, got)
		}
	}
}
