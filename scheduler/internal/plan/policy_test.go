package plan

import (
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

// A policy without a row would have zeros, which are a policy too.
func TestEachPolicyHasItsRow(t *testing.T) {
	t.Parallel()
	for _, m := range jobs.Misfires() {
		if _, ok := misfires[m]; !ok {
			t.Errorf("misfire %v has no row", m)
		}
	}
	for _, o := range jobs.Overlaps() {
		if _, ok := overlaps[o]; !ok {
			t.Errorf("overlap %v has no row", o)
		}
	}
}
