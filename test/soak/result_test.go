//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Each single thing that must not be is found, and what was too short to tell is none.
func TestWell(t *testing.T) {
	t.Parallel()
	good := result{counts: counts{Written: 3}, written: 3}
	good.verdicts[goroutines] = verdict{any: true, judged: true, flat: true}
	good.verdicts[ledgerRows] = verdict{any: true}
	if !good.well() {
		t.Error("a good one is not well")
	}
	for name, change := range map[string]func(r *result){
		"grows":      func(r *result) { r.verdicts[heap] = verdict{any: true, judged: true} },
		"missing":    func(r *result) { r.missing = 1 },
		"doubled":    func(r *result) { r.doubled = 1 },
		"ledger":     func(r *result) { r.wrong = []string{"a tick"} },
		"written":    func(r *result) { r.written = 4 },
		"not stored": func(r *result) { r.written = 2 },
		"left":       func(r *result) { r.left = []string{"a goroutine"} },
		"open":       func(r *result) { r.open = 1 },
	} {
		bad := good
		change(&bad)
		if bad.well() {
			t.Errorf("%s: well", name)
		}
	}
}

func TestResultIsPrinted(t *testing.T) {
	t.Parallel()
	r := result{
		server: "mariadb 10.11", plan: newPlan(time.Hour), lasted: time.Hour,
		counts:  counts{Runs: map[string]int{"second": 7, "rate": 2}, Failed: 1, Terms: 4, Log: map[string]int{"run failed": 1}},
		samples: []sample{{at: time.Hour}}, restarts: 3, stacks: []string{"worker-1: in a select"}, wrong: slices.Repeat([]string{"tick"}, 30),
	}
	r.samples[0].values[heap] = 3.25 * mb
	r.verdicts[heap] = verdict{any: true, judged: true, first: 1 * mb, last: 2 * mb, peak: 4 * mb}
	text := r.String()
	for _, want := range []string{
		"mariadb 10.11: 1h0m0s, the first 6m0s of it as warm-up\n", "  heap after GC, MB    1.0            2.0           4.0   3.2          GROWS\n",
		"  9 runs, 1 of which returned an error; 4 terms, 3 restarts;", "  logged: 1 × run failed\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "    tick\n"); n != 20 {
		t.Errorf("%d lines on the ledger, want the first 20\n%s", n, text)
	}
	if strings.Contains(text, "select") || strings.Contains(text, "ended early") {
		t.Errorf("it says more than there is:\n%s", text)
	}
	r.verdicts[goroutines] = verdict{any: true, judged: true}
	r.lasted = 59 * time.Minute
	if text := r.String(); !strings.Contains(text, "worker-1: in a select") || !strings.Contains(text, "; ended early\n") {
		t.Errorf("it does not say where the goroutines are, or that it ended early:\n%s", text)
	}
}
