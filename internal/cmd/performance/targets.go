package main

import (
	"fmt"
	"math"
	"strings"
	"text/template"
	"time"

	"github.com/cronlease/cronlease/lease"
)

// target is a row of the table of targets.
type target struct {
	what string
	// goal is the most that value may be, or the least where more is better.
	goal  float64
	least bool
	unit  string
	value func(r *results, dialect string) float64
	// beside is what the value is compared with in the same run, if anything.
	beside func(r *results, dialect string) string
	// slack is how much of the value is only how it was counted.
	slack float64
}

func measured(benchmark, unit string) func(*results, string) float64 {
	return func(r *results, dialect string) float64 {
		return r.get(strings.ReplaceAll(benchmark, "DB", dialect), unit)
	}
}

func ratio(a, b func(*results, string) float64) func(*results, string) float64 {
	return func(r *results, dialect string) float64 { return a(r, dialect) / b(r, dialect) }
}

func pair(unit string, a, b func(*results, string) float64) func(*results, string) string {
	return func(r *results, dialect string) string {
		return fmt.Sprintf("%s, beside %s", with(a(r, dialect), unit), with(b(r, dialect), unit))
	}
}

// most is the highest value of the benchmark at any size.
func most(benchmark, unit string) func(*results, string) float64 {
	return func(r *results, dialect string) float64 {
		highest := math.NaN()
		for _, n := range []int{1, 10, 100, 1000} {
			if v := r.get(fmt.Sprintf("%s=%d", strings.ReplaceAll(benchmark, "DB", dialect), n), unit); !math.IsNaN(v) {
				highest = max(v, zeroed(highest))
			}
		}
		return highest
	}
}

func zeroed(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

var (
	handOver       = measured("e2e.HandOver/DB", "p50-ms")
	handOverBefore = measured("cronlease.HandOver/DB", "p50-ms") // of that version
	lockHandOver   = measured("mysqllocks.HandOver/DB/ours", "p50-ms")
	forUpdate      = measured("mysqllocks.HandOver/DB/for-update", "p50-ms")
)

func locks(workers int, way string) func(*results, string) float64 {
	return measured(fmt.Sprintf("performance.Lock/DB/workers=%d", workers), way+"-locks/s")
}

// wrong is how often what must not be was seen in all kills, and kills how many
// they were.
func wrong(r *results, dialect string) float64 {
	sum := 0.0
	for _, kind := range []string{"idle", "busy"} {
		for _, unit := range []string{"doubled", "overlapping", "lost"} {
			sum += zeroed(r.get("performance.Kill/"+kind+"/"+dialect, unit))
		}
	}
	if kills(r, dialect) == 0 {
		return math.NaN()
	}
	return sum
}

func wrongSpread(r *results, dialect string) float64 {
	sum := 0.0
	for _, unit := range []string{"cancelled", "doubled", "overlapping", "lost"} {
		sum += r.get("performance.Kill/spread/"+dialect, unit) // NaN: not measured
	}
	return sum
}

func batch(replicas int) func(*results, string) float64 {
	return measured(fmt.Sprintf("performance.Batch/replicas=%d/DB", replicas), "p99-ms")
}

func kills(r *results, dialect string) float64 {
	return zeroed(r.get("performance.Kill/idle/"+dialect, "kills")) + zeroed(r.get("performance.Kill/busy/"+dialect, "kills"))
}

func targets() []target {
	timing, err := lease.Timing{TTL: 15 * time.Second}.Complete()
	if err != nil {
		panic(err) // it is the default
	}
	busy := float64((timing.RenewEvery + timing.AttemptTimeout + 10*time.Millisecond).Milliseconds())
	return []target{
		{what: "SIGKILL of an idle leader, TTL 15 s, to the start of the next due tick: p50", goal: 10, unit: "ms", value: measured("performance.Kill/idle/DB", "p50-ms")},
		{what: "the same: p99", goal: 30, unit: "ms", value: measured("performance.Kill/idle/DB", "p99-ms")},
		{what: "SIGKILL of a leader with a long run, to the next due tick of other jobs: p99", goal: busy, unit: "ms", value: measured("performance.Kill/busy/DB", "p99-ms")},
		{what: "ticks doubled, overlapping or lost in all these kills", goal: 0, value: wrong,
			beside: func(r *results, dialect string) string { return number(kills(r, dialect)) + " kills" }},
		{what: "clean hand-over between two processes, p50, as a part of that of ff9d486", goal: 0.6, value: ratio(handOver, handOverBefore),
			beside: pair("ms", handOver, handOverBefore)},
		{what: "trigger to start: p50", goal: 5, unit: "ms", value: measured("performance.Trigger/DB", "p50-ms")},
		{what: "statements at rest, 1 to 1,000 jobs: leader", goal: 0.2, unit: "/s", value: most("performance.Rest/DB/leader/jobs", "statements/s"), slack: 1.0 / 60},
		{what: "statements at rest, 1 to 1,000 jobs: follower", goal: 0.13, unit: "/s", value: most("performance.Rest/DB/follower/jobs", "statements/s"), slack: 1.0 / 60},
		{what: "lock and unlock, 1 worker, in upserts and deletes", goal: 1, least: true, unit: "times", value: ratio(locks(1, "ours"), locks(1, "upsert")),
			beside: pair("/s", locks(1, "ours"), locks(1, "upsert"))},
		{what: "the same, 64 workers", goal: 5, least: true, unit: "times", value: ratio(locks(64, "ours"), locks(64, "upsert")),
			beside: pair("/s", locks(64, "ours"), locks(64, "upsert"))},
		{what: "lock and unlock, 256 workers, in locks of Redis", goal: 1, least: true, unit: "times", value: ratio(locks(256, "ours"), locks(256, "redis")),
			beside: pair("/s", locks(256, "ours"), locks(256, "redis"))},
		{what: "lock hand-over between two processes, p50, in `SELECT ... FOR UPDATE`", goal: 1.5, unit: "times", value: ratio(lockHandOver, forUpdate),
			beside: pair("ms", lockHandOver, forUpdate)},
		{what: "10,000 jobs on one tick: start, p99", goal: 150, unit: "ms", value: measured("scheduler.Tick/10000/DB", "p99-ms"),
			beside: func(r *results, _ string) string {
				return "bare gocron " + with(r.get("scheduler.Tick/10000/gocron", "p99-ms"), "ms")
			}},
		{what: "the same: the longest of another group's heartbeats meanwhile", goal: 20, unit: "ms", value: measured("scheduler.Tick/10000/DB", "heartbeat-max-ms")},
		{what: "runs on all replicas: from a tick to the first line of its job in another replica, p50", goal: 5, unit: "ms", value: measured("performance.Start/spread/DB", "p50-ms"),
			beside: func(r *results, dialect string) string {
				return "in the leader " + with(r.get("performance.Start/leader/"+dialect, "p50-ms"), "ms")
			}},
		{what: "the same: p99", goal: 15, unit: "ms", value: measured("performance.Start/spread/DB", "p99-ms")},
		{what: "the same: SIGKILL of the leader while others have long runs, to the next leader: p50", goal: 10, unit: "ms", value: measured("performance.Kill/spread/DB", "leading-p50-ms")},
		{what: "the same: p99", goal: 30, unit: "ms", value: measured("performance.Kill/spread/DB", "leading-p99-ms")},
		{what: "the same: to the start of the next due tick, p99", goal: 50, unit: "ms", value: measured("performance.Kill/spread/DB", "p99-ms")},
		{what: "the same: runs of others that end, ticks doubled, overlapping or lost", goal: 0, value: wrongSpread},
		{what: "10,000 jobs on one tick over ten replicas: statements", goal: 140, value: measured("performance.Batch/replicas=10/DB", "statements/op")},
		{what: "the same: start, p99, as a part of that on one", goal: 1.5, unit: "times", value: ratio(batch(10), batch(1)), beside: pair("ms", batch(10), batch(1))},
	}
}

// verdict says whether the target is met, and by how much.
func (t target) verdict(v float64) string {
	met := v-t.slack <= t.goal
	if t.least {
		met = v >= t.goal
	}
	switch {
	case math.IsNaN(v):
		return "not measured"
	case t.goal == 0 && met:
		return "met"
	case met:
		return "met, at " + percent(v/t.goal)
	case t.goal == 0:
		return "**not met**"
	}
	return "**not met**, at " + percent(v/t.goal)
}

// percent prints a part; near the whole with the digits that show which side it is on.
func percent(part float64) string {
	if part > 0.99 && part < 1.01 && part != 1 {
		return fmt.Sprintf("%.2f %%", 100*part)
	}
	return number(100*part) + " %"
}

// table is the table of targets.
func (r *results) table() string {
	var out strings.Builder
	out.WriteString("| | target |")
	for _, d := range dialects {
		fmt.Fprintf(&out, " %s | |", d.title)
	}
	out.WriteString("\n| --- | --- | --- | --- | --- | --- |\n")
	for _, t := range targets() {
		side := "at most "
		if t.least {
			side = "at least "
		}
		fmt.Fprintf(&out, "| %s | %s%s |", t.what, side, with(t.goal, t.unit))
		for _, d := range dialects {
			v := t.value(r, d.name)
			shown := with(v, t.unit)
			if t.beside != nil && !math.IsNaN(v) {
				shown += " (" + t.beside(r, d.name) + ")"
			}
			fmt.Fprintf(&out, " %s | %s |", shown, t.verdict(v))
		}
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n")
}

// functions are those of the template.
func (r *results) functions() template.FuncMap {
	return template.FuncMap{
		"connections": r.connections,
		// value prints what was measured.
		"value": func(benchmark, unit, as string) string { return with(r.get(benchmark, unit), as) },
		// both prints a value of both servers.
		"both": func(benchmark, unit, as string) string {
			var texts []string
			for _, d := range dialects {
				texts = append(texts, with(measured(benchmark, unit)(r, d.name), as)+" ("+d.title+")")
			}
			return strings.Join(texts, " and ")
		},
		// bound prints how many times the sum of the bounds a value is.
		"bound": func(benchmark, unit string, parts ...string) string {
			var texts []string
			for _, d := range dialects {
				sum := 0.0
				for _, part := range parts {
					sum += r.get("performance.Bound/"+d.name+"/"+part, "p50-ms")
				}
				v := measured(benchmark, unit)(r, d.name)
				texts = append(texts, fmt.Sprintf("%s times that (%s beside %s, %s)", number(v/sum), with(v, "ms"), with(sum, "ms"), d.title))
			}
			return strings.Join(texts, " and ")
		},
		"targets": r.table,
		"costs":   r.costs,
		"bounds":  r.bounds,
	}
}

// bounds is the table of what bounds everything.
func (r *results) bounds() string {
	var out strings.Builder
	out.WriteString("| | MariaDB p50 | p99 | MySQL p50 | p99 |\n| --- | --- | --- | --- | --- |\n")
	for _, b := range []struct{ name, what string }{
		{"message", "message: a statement that does nothing, and its answer"},
		{"commit", "commit: an UPDATE of one row by its key"},
		{"release", "wake-up: from RELEASE_LOCK to the answer of the GET_LOCK that waits for it"},
		{"kill", "wake-up: from KILL QUERY to the end of the statement that it ends"},
		{"death", "wake-up: from the end of a connection to the answer of the GET_LOCK that waits for its lock"},
	} {
		fmt.Fprintf(&out, "| %s |", b.what)
		for _, d := range dialects {
			for _, unit := range []string{"p50-ms", "p99-ms"} {
				fmt.Fprintf(&out, " %s |", with(r.get("performance.Bound/"+d.name+"/"+b.name, unit), "ms"))
			}
		}
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n")
}
