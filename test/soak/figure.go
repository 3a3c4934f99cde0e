//go:build linux

package main

import (
	"slices"
	"time"
)

// figure is something that is measured, over all workers of one server.
type figure struct {
	name string
	rule rule
	// rows: it goes up and down with the pruning of histories.
	rows bool
	// unit is what a measured number is divided by, to be printed.
	unit   float64
	digits int
}

// The figures, by their index in a sample.
const (
	goroutines = iota
	heap
	descriptors
	resident
	connections
	ledgerRows
	lockRows
	figures
)

const mb = 1 << 20

// What may grow: the running jobs of a moment, and the noise of memory. What counts things is held to less than what
// counts bytes.
var measured = [figures]figure{
	goroutines:  {name: "goroutines", rule: rule{part: 0.05, slack: 3}, unit: 1},
	heap:        {name: "heap after GC, MB", rule: rule{part: 0.10, slack: 0.2 * mb}, unit: mb, digits: 1},
	descriptors: {name: "descriptors", rule: rule{part: 0.05, slack: 3}, unit: 1},
	resident:    {name: "resident memory, MB", rule: rule{part: 0.10, slack: 4 * mb}, unit: mb, digits: 1},
	connections: {name: "connections", rule: rule{part: 0.05, slack: 3}, unit: 1},
	ledgerRows:  {name: "ledger rows", rule: rule{part: 0.10, slack: 500}, unit: 1, rows: true},
	lockRows:    {name: "lock rows", rule: rule{part: 0, slack: 0}, unit: 1},
}

// sample is one look at everything. Bytes are bytes here.
type sample struct {
	at     time.Duration // since the start
	values [figures]float64
}

// rule says how much the median of the last quarter may be above that of the first: by a part of it, and so much more.
type rule struct{ part, slack float64 }

// verdict is what became of a figure.
type verdict struct {
	first, last, peak float64 // medians of the first and last quarter after the warm-up, and the highest value after it
	any               bool    // there was something to look at
	judged            bool    // there was enough to tell
	flat              bool
}

// String returns "flat", "GROWS", or "too short to tell".
func (v verdict) String() string {
	switch {
	case !v.judged:
		return "too short to tell"
	case v.flat:
		return "flat"
	default:
		return "GROWS"
	}
}

// fewest is how many samples a quarter needs.
const fewest = 5

// judge compares the quarters of what was measured from the warm-up to the end.
func (f figure) judge(values []float64, quarter time.Duration) verdict {
	if len(values) == 0 {
		return verdict{}
	}
	v := verdict{any: true, peak: slices.Max(values)}
	n := max(1, len(values)/4)
	v.first, v.last = median(values[:n]), median(values[len(values)-n:])
	v.judged = n >= fewest && (!f.rows || quarter >= cycle)
	v.flat = v.last <= v.first*(1+f.rule.part)+f.rule.slack
	return v
}

// median returns the middle value, and of two the mean. The values are at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
