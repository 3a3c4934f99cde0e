package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cronlease/cronlease/test/promtest"
)

// ruleCase is a time in which an alert fires and clears. Series have a value each half minute, in
// promtool's notation; "a" and "b" are replicas of the group billing.
type ruleCase struct {
	alert  string
	series map[string]string
	quiet  string // an instant before it fires, when what is wrong has begun already, if it has to last
	fires  string
	clears string
}

const (
	a     = `job="w", instance="a", group="billing"`
	b     = `job="w", instance="b", group="billing"`
	fine  = `0+0x200`
	leads = `1+0x200`
)

// well are two replicas of which a leads.
func well(more map[string]string) map[string]string {
	all := map[string]string{`cronlease_leader{` + a + `}`: leads, `cronlease_leader{` + b + `}`: fine}
	for series, values := range more {
		all[series] = values
	}
	return all
}

var ruleCases = []ruleCase{
	{"CronleaseGroupGone", map[string]string{
		`cronlease_leader{` + a + `}`: `1+0x9 stale _x60 1+0x40`,
		`cronlease_leader{` + b + `}`: `0+0x9 stale _x60 0+0x40`,
	}, "6m", "8m", "40m"},
	{"CronleaseNoLeader", well(map[string]string{
		`cronlease_leader{` + a + `}`:                    `1+0x9 0+0x19 1+0x40`,
		`cronlease_healthy{` + a + `, check="database"}`: `1+0x200`,
	}), "5m30s", "7m", "16m"},
	{"CronleaseTwoLeaders", well(map[string]string{`cronlease_leader{` + b + `}`: `0+0x9 1+0x9 0+0x40`}), "6m", "8m", "11m"},
	{"CronleaseReplicaDown", well(map[string]string{`up{job="w", instance="b"}`: `1+0x9 0+0x9 1+0x40`}), "6m", "8m", "11m"},
	{"CronleaseOneReplica", well(map[string]string{`cronlease_leader{` + b + `}`: `0+0x1 stale _x40 0+0x40`}), "15m", "17m", "23m"},
	{"CronleaseStuck", well(map[string]string{`cronlease_healthy{` + a + `, check="process"}`: `1+0x9 0+0x9 1+0x40`}), "5m30s", "7m", "11m"},
	{"CronleaseDatabase", well(map[string]string{`cronlease_healthy{` + b + `, check="database"}`: `1+0x9 0+0x9 1+0x40`}), "6m", "8m", "11m"},
	{"CronleaseHeartbeatErrors", well(map[string]string{`cronlease_heartbeat_errors_total{` + a + `}`: `0+0x9 1+1x5 6+0x40`}), "5m30s", "8m", "14m"},
	{"CronleaseTermsChange", well(map[string]string{
		`cronlease_terms_total{` + a + `, early="false"}`: `0+0x9 1+1x4 5+0x100`,
		`cronlease_terms_total{` + b + `, early="true"}`:  `0+0x9 1+1x4 5+0x100`,
	}), "5m30s", "9m", "25m"},
	{"CronleaseNotFiring", well(map[string]string{`cronlease_tick_overdue_seconds{` + a + `}`: `0+0x9 90+0x9 0+0x40`}), "5m30s", "7m", "11m"},
	{"CronleaseLeaderIdle", well(map[string]string{
		`cronlease_healthy{` + b + `, check="leader"}`:   `1+0x9 0+0x9 1+0x40`,
		`cronlease_healthy{` + b + `, check="database"}`: `1+0x200`,
	}), "6m", "8m", "11m"},
	{"CronleaseTicksLate", well(map[string]string{
		`cronlease_tick_lateness_seconds_bucket{` + a + `, le="60"}`:   `0+0x80 0+1x100`,
		`cronlease_tick_lateness_seconds_bucket{` + a + `, le="300"}`:  `0+1x80 81+1x100`,
		`cronlease_tick_lateness_seconds_bucket{` + a + `, le="+Inf"}`: `0+1x80 81+1x100`,
	}), "15m", "32m", "58m"},
	{"CronleaseTicksMissed", well(map[string]string{ // of a job that had missed none before
		`cronlease_ticks_missed_total{` + a + `, job_name="mail"}`: `_x10 3+0x100`,
	}), "4m", "6m", "22m"},
	{"CronleaseTicksMissed", well(map[string]string{
		`cronlease_ticks_missed_total{` + a + `, job_name="mail"}`: `3+0x40 4+0x100`,
	}), "18m", "22m", "38m"},
	{"CronleaseJobFails", well(map[string]string{
		`cronlease_job_failures_in_a_row{` + a + `, job_name="mail"}`: `0+0x9 1+0x19 0+0x40`,
	}), "9m", "11m", "16m"},
	{"CronleaseNoReplica", well(map[string]string{`cronlease_jobs_without_replica{` + a + `}`: `0+0x9 2+0x19 0+0x40`}), "9m", "11m", "16m"},
	{"CronleaseJobPausedByFailures", well(map[string]string{
		`cronlease_control_requests_total{` + a + `, action="pause_after"}`: `0+0x9 1+0x200`,
	}), "4m", "6m", "67m"},
	{"CronleaseJobHeldUp", well(map[string]string{
		`cronlease_job_held_up_timestamp_seconds{` + a + `, job_name="mail"}`: `_x10 300+0x19 stale`,
	}), "9m", "11m", "16m"},
	{"CronleaseNoticesLeftOut", well(map[string]string{
		`cronlease_notices_left_out_total{` + a + `, job_name="mail"}`: `_x10 1+0x100`,
	}), "4m", "6m", "22m"},
	{"CronleaseNoticesLeftOut", well(map[string]string{
		`cronlease_notices_left_out_total{` + a + `, job_name="mail"}`: `1+0x40 2+0x100`,
	}), "18m", "22m", "38m"},
	{"CronleaseRunsInterrupted", well(map[string]string{
		`cronlease_runs_interrupted_total{` + a + `, job_name="mail"}`: `_x10 1+0x100`,
	}), "4m", "6m", "22m"},
	{"CronleaseRunsInterrupted", well(map[string]string{
		`cronlease_runs_interrupted_total{` + a + `, job_name="mail"}`: `1+0x40 2+0x100`,
	}), "18m", "22m", "38m"},
	{"CronleaseClockSkew", well(map[string]string{
		`cronlease_clock_skew_seconds{` + a + `}`:       `0+0x9 -8+0x19 0+0x40`,
		`cronlease_clock_skew_error_seconds{` + a + `}`: `0.1+0x200`,
	}), "9m", "11m", "16m"},
	{"CronleaseSlowDatabase", well(map[string]string{
		`cronlease_statement_duration_seconds_bucket{` + a + `, statement="claim", le="1"}`:    `0+0x60 0+1x100`,
		`cronlease_statement_duration_seconds_bucket{` + a + `, statement="claim", le="2.5"}`:  `0+1x60 61+1x100`,
		`cronlease_statement_duration_seconds_bucket{` + a + `, statement="claim", le="+Inf"}`: `0+1x60 61+1x100`,
	}), "10m", "22m", "42m"},
	{"CronleaseReplicasDiffer", well(map[string]string{`cronlease_jobs_differing{` + b + `, how="not_led"}`: `0+0x1 2+0x140 0+0x40`}), "60m", "62m", "75m"},
	{"CronleaseLocksLost", map[string]string{`cronlease_locks_lost_total{job="w", instance="a", group=""}`: `0+0x9 2+0x100`}, "4m", "6m", "22m"},
	{"CronleaseEventsDropped", well(map[string]string{`cronlease_events_dropped_total{` + a + `}`: `0+0x9 50+0x100`}), "4m", "6m", "22m"},
}

// Each rule of the file, as it stands, fires and clears, and no other one fires meanwhile.
func TestRules(t *testing.T) {
	t.Parallel()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(promtest.Promtool(t, "check", "rules", rules))

	type sample struct {
		Labels string `json:"labels"`
		Value  int    `json:"value"`
	}
	type check struct {
		Expr     string   `json:"expr"`
		EvalTime string   `json:"eval_time"`
		Samples  []sample `json:"exp_samples"`
	}
	type series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	type test struct {
		Name     string   `json:"name"`
		Interval string   `json:"interval"`
		Input    []series `json:"input_series"`
		Checks   []check  `json:"promql_expr_test"`
	}
	var tests []test
	tested := map[string]bool{}
	for _, c := range ruleCases {
		tested[c.alert] = true
		one := test{Name: c.alert, Interval: "30s"}
		for name, values := range c.series {
			one.Input = append(one.Input, series{name, values})
		}
		expect := func(at string, fires bool) {
			c2 := check{Expr: `count by (alertname) (ALERTS{alertstate="firing"})`, EvalTime: at, Samples: []sample{}}
			if fires {
				c2.Samples = append(c2.Samples, sample{fmt.Sprintf("{alertname=%q}", c.alert), 1})
			}
			one.Checks = append(one.Checks, c2)
		}
		expect(c.quiet, false)
		expect(c.fires, true)
		expect(c.clears, false)
		tests = append(tests, one)
	}
	for _, found := range regexp.MustCompile(`(?m)alert: (\w+)`).FindAllStringSubmatch(read(t, rulesFile), -1) {
		if !tested[found[1]] {
			t.Errorf("%s has no test", found[1])
		}
	}
	text, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "30s", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tests.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(promtest.Promtool(t, "test", "rules", file))
}

// The document says what to do about each alert.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	document := read(t, "../../docs/operating.md")
	for _, found := range regexp.MustCompile(`(?m)alert: (\w+)`).FindAllStringSubmatch(read(t, rulesFile), -1) {
		if !regexp.MustCompile(`(?m)^\| ` + "`" + found[1] + "` ").MatchString(document) {
			t.Errorf("%s is not in docs/operating.md", found[1])
		}
	}
}
