// Package percentiles reports what benchmarks have measured.
package percentiles

import (
	"math"
	"slices"
	"testing"
	"time"
)

// Report reports the median and the 99th percentile of times in ms, under names that begin with the prefix, and how
// many there are. Of no times it reports nothing.
func Report(b *testing.B, prefix string, times []time.Duration) {
	b.Helper()
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	at := func(p float64) float64 {
		return float64(times[int(math.Ceil(p*float64(len(times))))-1].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), prefix+"p50-ms")
	b.ReportMetric(at(0.99), prefix+"p99-ms")
	b.ReportMetric(float64(len(times)), "n")
	b.ReportMetric(0, "ns/op")
}
