//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what is printed of a run.
type result struct {
	server   string
	plan     plan
	lasted   time.Duration
	verdicts [figures]verdict
	samples  []sample
	counts   counts
	restarts int

	ran, missing, doubled int // ticks of the jobs with one each second
	compared              int // of them, with the ledger
	wrong                 []string

	written int      // by the rows
	left    []string // by workers at their end
	open    int      // connections after the end
	stacks  []string
}

// result makes the result, once the workers have ended.
func (s *soaking) result(ctx context.Context, lasted time.Duration) (result, error) {
	r := result{
		server: s.database.kind + " " + s.database.version, plan: s.plan, lasted: lasted,
		samples: s.samples, counts: s.past, restarts: s.restarts, left: s.left, stacks: s.stacks,
	}
	for i, f := range measured {
		var values []float64
		for _, sample := range s.samples {
			if sample.at >= s.plan.warmup {
				values = append(values, sample.values[i])
			}
		}
		r.verdicts[i] = f.judge(values, max(0, lasted-s.plan.warmup)/4)
	}
	r.ran, r.missing, r.doubled = s.seconds.total()
	var err error
	if r.compared, r.wrong, err = s.seconds.compare(ctx, s.database.dsn); err != nil {
		return r, fmt.Errorf("compare the ledger: %w", err)
	}
	if r.written, err = s.database.written(ctx); err != nil {
		return r, fmt.Errorf("count what was written: %w", err)
	}
	if r.open, err = s.database.leftConnections(ctx); err != nil {
		return r, fmt.Errorf("count the connections that are left: %w", err)
	}
	return r, nil
}

// well reports whether all is as it has to be. What was too short to tell is no fault.
func (r result) well() bool {
	for _, v := range r.verdicts {
		if v.judged && !v.flat {
			return false
		}
	}
	return r.missing == 0 && r.doubled == 0 && len(r.wrong) == 0 && r.written == r.counts.Written && len(r.left) == 0 && r.open == 0
}

// ran is how many runs there were, of all jobs.
func (c counts) ran() int {
	n := 0
	for _, runs := range c.Runs {
		n += runs
	}
	return n
}

// format prints a measured number.
func (f figure) format(v float64) string { return strconv.FormatFloat(v/f.unit, 'f', f.digits, 64) }

// String returns the table and the sums, a paragraph each.
func (r result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s: %v, the first %v of it as warm-up", r.server, r.lasted.Round(time.Second), r.plan.warmup)
	if r.lasted < r.plan.total-r.plan.sample {
		text.WriteString("; ended early")
	}
	text.WriteString("\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  all workers\tfirst quarter\tlast quarter\tpeak\tlast sample\tverdict")
	for i, f := range measured {
		v, first, last, peak, now := r.verdicts[i], "-", "-", "-", "-"
		if len(r.samples) > 0 {
			now = f.format(r.samples[len(r.samples)-1].values[i])
		}
		if v.any {
			first, last, peak = f.format(v.first), f.format(v.last), f.format(v.peak)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\n", f.name, first, last, peak, now, v)
	}
	_ = table.Flush() // a builder returns no error
	c := r.counts
	fmt.Fprintf(&text, "\n  %d runs, %d of which returned an error; %d terms, %d restarts; %d locks taken beside the jobs\n",
		c.ran(), c.Failed, c.Terms, r.restarts, c.Locks)
	fmt.Fprintf(&text, "  ticks of the %d jobs with one each second: %d run, %d missing, %d doubled\n", secondCount, r.ran, r.missing, r.doubled)
	fmt.Fprintf(&text, "  of them in the ledger, the last %v: %d looked at, %d wrong\n", looked, r.compared, len(r.wrong))
	for _, w := range r.wrong[:min(20, len(r.wrong))] {
		fmt.Fprintf(&text, "    %s\n", w)
	}
	fmt.Fprintf(&text, "  fenced transactions of jobs: %d committed, %d there\n", c.Written, r.written)
	fmt.Fprintf(&text, "  left at the end: %d connections, goroutines in %d workers\n", r.open, len(r.left))
	for _, l := range r.left {
		fmt.Fprintf(&text, "    %s\n", l)
	}
	for _, message := range slices.Sorted(maps.Keys(c.Log)) {
		fmt.Fprintf(&text, "  logged: %d × %s\n", c.Log[message], message)
	}
	if v := r.verdicts[goroutines]; v.judged && !v.flat {
		for _, s := range r.stacks {
			fmt.Fprintf(&text, "\n%s", s)
		}
	}
	return text.String()
}
