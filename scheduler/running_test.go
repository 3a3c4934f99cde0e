package scheduler

import (
	"testing"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
)

// What is around a run hears what the term has said of its end, also if the term is over by
// then.
func TestEndIsToldAsTheTermSaidIt(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	close(over)
	for range 100 {
		var told event.RunFinished
		a := &attempt{
			ctx: t.Context(), ended: make(chan event.RunFinished, 1),
			ends: []func(event.RunFinished){func(e event.RunFinished) { told = e }},
		}
		a.ended <- event.RunFinished{State: jobs.Failed, WillRetry: true}
		a.tellEnd(over, event.RunFinished{State: jobs.Failed}, zap.NewNop())
		if !told.WillRetry {
			t.Fatalf("%+v", told)
		}
	}
}
