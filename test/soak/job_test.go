//go:build linux

package main

import (
	"testing"
	"time"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	all := (&worker{tally: newTally()}).jobs()
	names := map[string]bool{}
	for _, j := range all {
		if err := j.Validate(); err != nil {
			t.Error(err)
		}
		if h := j.Complete().History; h.Keep > keptSecond || h.Keep == 0 && h.For > cycle {
			t.Errorf("%s: a history of %+v: nothing would be pruned in an hour", j.Name, h)
		}
		names[j.Name] = true
	}
	if len(all) != jobCount || len(names) != jobCount {
		t.Errorf("%d jobs of %d names, want %d", len(all), len(names), jobCount)
	}
	for i := range secondCount {
		if !names[secondName(i)] {
			t.Errorf("no job %s", secondName(i))
		}
	}
	if keptSecond*time.Second < looked+30*time.Second {
		t.Errorf("the ledger keeps %d ticks of a second, and the last %v are looked at", keptSecond, looked)
	}
}
