//go:build linux

package main

import (
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, total := range []time.Duration{minTotal, 2 * time.Minute, 10 * time.Minute, 20 * time.Minute, time.Hour, 24 * time.Hour} {
		p := newPlan(total)
		if p.warmup < time.Minute || p.warmup < total/10 || p.warmup > total*2/3 {
			t.Errorf("%v: a warm-up of %v", total, p.warmup)
		}
		if n := (total - p.warmup) / p.sample / 4; n < fewest {
			t.Errorf("%v: %d samples in a quarter: nothing can be told", total, n)
		}
		length := time.Duration(p.resigns) * p.between
		for i, at := range p.changes {
			end := at + length
			if i+1 < len(p.changes) && end > p.changes[i+1] || end > total {
				t.Errorf("%v: change %d goes on until %v; all: %v", total, i+1, end, p.changes)
			}
		}
		if n := len(p.changes); n < 2 || p.changes[0]+length > p.warmup || p.changes[1] < p.warmup {
			t.Errorf("%v: changes at %v, with a warm-up of %v: one has to be in it, and one after it", total, p.changes, p.warmup)
		}
	}
}

// In an hour, histories are pruned between two changes, in the first quarter and in the last, and a worker is restarted
// between them.
func TestPlanOfAnHour(t *testing.T) {
	t.Parallel()
	p := newPlan(time.Hour)
	for i := range p.changes[1:] {
		if calm := p.changes[i+1] - p.changes[i] - time.Duration(p.resigns)*p.between; i > 0 && calm < cycle {
			t.Errorf("a calm of %v, and a cycle takes %v", calm, cycle)
		}
	}
	if quarter := (p.total - p.warmup) / 4; quarter < cycle {
		t.Errorf("a quarter of %v is shorter than a cycle, %v", quarter, cycle)
	}
	if len(p.changes) != 7 || p.sample != 10*time.Second || p.ttl != 15*time.Second {
		t.Errorf("got %+v", p)
	}
}
