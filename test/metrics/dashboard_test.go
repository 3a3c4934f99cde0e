package metrics_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/test/promtest"
)

// testDashboard has Prometheus evaluate the dashboard's expressions, as Grafana would send them. Each has to
// have series, but for those that are only there while something fails.
func testDashboard(t *testing.T, prometheus *promtest.Server) {
	type target struct{ Expr string }
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []target
		}
		Annotations struct{ List []target }
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	check := func(title, expr string) {
		expr = strings.NewReplacer("$job", ".*", "$group", ".*", "$__rate_interval", "30s").Replace(expr)
		n, err := prometheus.Query(t.Context(), expr)
		if err != nil {
			t.Errorf("%s: %s: %v", title, expr, err)
		}
		if n == 0 && !strings.Contains(expr, "> 0") {
			t.Errorf("%s: no series: %s", title, expr)
		}
	}
	panels := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			panels++
			check(panel.Title, target.Expr)
		}
	}
	if panels < 20 {
		t.Errorf("only %d expressions", panels)
	}
	for _, annotation := range dashboard.Annotations.List {
		check("annotations", annotation.Expr)
	}
}
