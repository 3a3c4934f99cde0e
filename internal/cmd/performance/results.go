package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// results are what a run of the benchmarks has printed.
type results struct {
	// Facts are lines such as "date: 2027-01-01", before the benchmarks.
	Facts map[string]string
	// values by the benchmark, as in performance.Kill/idle/mariadb, and the unit.
	values map[string]map[string]float64
}

// The two dialects, as benchmarks and as readers call them.
var dialects = []struct{ name, title string }{{"mariadb", "MariaDB"}, {"mysql", "MySQL"}}

var procs = regexp.MustCompile(`-\d+$`)

// parse reads the output of go test -bench.
func parse(text string) (*results, error) {
	r := &results{Facts: map[string]string{}, values: map[string]map[string]float64{}}
	pkg := ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		name, rest, found := strings.Cut(line, ": ")
		switch {
		case found && name == "pkg":
			pkg = rest[strings.LastIndexByte(rest, '/')+1:]
		case found && !strings.Contains(name, " "):
			r.Facts[name] = rest
		case strings.HasPrefix(line, "FAIL"), strings.HasPrefix(line, "--- FAIL"):
			return nil, errors.New("a benchmark has failed: " + line)
		case strings.HasPrefix(line, "Benchmark"):
			fields := strings.Fields(line)
			if len(fields) < 4 || len(fields)%2 != 0 {
				continue // the name alone, before a line of its log
			}
			key := pkg + "." + procs.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
			units := map[string]float64{}
			for i := 2; i < len(fields); i += 2 {
				value, err := strconv.ParseFloat(fields[i], 64)
				if err != nil {
					return nil, fmt.Errorf("%q: %w", line, err)
				}
				units[fields[i+1]] = value
			}
			r.values[key] = units
		}
	}
	return r, lines.Err()
}

// get returns a value, and NaN where it was not measured.
func (r *results) get(benchmark, unit string) float64 {
	if value, ok := r.values[benchmark][unit]; ok {
		return value
	}
	return math.NaN()
}

// number prints a value with the digits that it deserves.
func number(v float64) string {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return "not measured"
	case v != 0 && math.Abs(v) < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case math.Abs(v) < 10 && v != math.Trunc(v):
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	case math.Abs(v) < 100 && v != math.Trunc(v):
		return fmt.Sprintf("%.1f", v)
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// with prints a value with its unit.
func with(v float64, unit string) string {
	if math.IsNaN(v) || unit == "" {
		return number(v)
	}
	return number(v) + " " + unit
}
