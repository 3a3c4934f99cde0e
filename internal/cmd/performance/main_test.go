package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The document and its pictures are what the last run of the benchmarks has printed:
// no figure in them was written by hand.
func TestDocumentIsGenerated(t *testing.T) {
	t.Parallel()
	files, err := render("results.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what results.txt makes of it: run go generate ./internal/cmd/performance", name)
		}
	}
}

// What people wrote has no measured figure.
func TestTemplateHasNoFigures(t *testing.T) {
	t.Parallel()
	written := regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAllString(text, "")
	if found := regexp.MustCompile(`\d[\d.,]* ?(ms|µs|times|MB|kB|/s|a second)\b`).FindAllString(strings.ReplaceAll(written, "killed 2 ms before", ""), -1); found != nil {
		t.Errorf("the template has figures that no command prints: %q", found)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	r, err := parse("date: 2027-01-01\ncpu: a: b\npkg: example.com/test/performance\nBenchmarkA/b/jobs=10-2 1 2.5 p50-ms 7 n\nBenchmarkA/b-2\n    log\nBenchmarkC-16 \t 1 \t 3 x/s\n")
	if err != nil {
		t.Fatal(err)
	}
	if r.Facts["date"] != "2027-01-01" || r.Facts["cpu"] != "a: b" {
		t.Errorf("%v", r.Facts)
	}
	if a, c := r.get("performance.A/b/jobs=10", "p50-ms"), r.get("performance.C", "x/s"); a != 2.5 || c != 3 {
		t.Errorf("%v, %v of %v", a, c, r.values)
	}
	if v := r.get("performance.C", "y/s"); !math.IsNaN(v) {
		t.Errorf("not measured, and %v", v)
	}
	if _, err := parse("--- FAIL: BenchmarkA\n"); err == nil {
		t.Error("a benchmark that failed is no error")
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.0123: "0.012", 2: "2", 2.5: "2.5", 3.14159: "3.14", 31.4159: "31.4", 314.159: "314", 1234567: "1,234,567", 123456: "123,456"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// Each target says whether it is met on each side of its goal.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		t    target
		v    float64
		want string
	}{
		{target{goal: 10}, 8, "met, at 80 %"},
		{target{goal: 10}, 12, "**not met**, at 120 %"},
		{target{goal: 8010}, 8016, "**not met**, at 100.07 %"},
		{target{goal: 5, least: true}, 6, "met, at 120 %"},
		{target{goal: 5, least: true}, 4, "**not met**, at 80 %"},
		{target{goal: 0}, 0, "met"},
		{target{goal: 0}, 1, "**not met**"},
		{target{goal: 0.2, slack: 0.02}, 0.21, "met, at 105 %"},
		{target{goal: 1}, math.NaN(), "not measured"},
	} {
		if got := c.t.verdict(c.v); got != c.want {
			t.Errorf("%v of %v: %s, want %s", c.v, c.t.goal, got, c.want)
		}
	}
}
