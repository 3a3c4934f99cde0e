package gameday

import (
	"context"
	"fmt"
	"strings"
	"time"

	cronjobs "github.com/cronlease/cronlease/jobs"
)

// count checks that no tick was lost or doubled, in the ledger and in what the jobs have done, and says how many there were. The
// workers have ended.
func (s *scene) count() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 30*time.Second)
	defer cancel()
	states := map[string]map[int64]cronjobs.State{}
	rows, err := s.root.QueryContext(ctx, "SELECT job, tick, state FROM app.cronlease_run WHERE trigger_id = 0 ORDER BY job, tick")
	if err != nil {
		s.t.Error(err)
		return ""
	}
	defer rows.Close()
	var ticks []int64 // of the job "tick"
	for rows.Next() {
		var job string
		var tick int64
		var state uint8
		if err := rows.Scan(&job, &tick, &state); err != nil {
			s.t.Error(err)
		}
		if states[job] == nil {
			states[job] = map[int64]cronjobs.State{}
		}
		states[job][tick] = cronjobs.State(state)
		if job == "tick" {
			ticks = append(ticks, tick)
		}
	}
	if err := rows.Err(); err != nil || len(ticks) == 0 {
		s.t.Errorf("%d ticks in the ledger: %v", len(ticks), err)
		return ""
	}
	lost, step := 0, (5 * time.Second).Microseconds()
	for i := 1; i < len(ticks); i++ {
		lost += int((ticks[i]-ticks[i-1])/step) - 1
	}
	if late := time.Since(time.UnixMicro(ticks[len(ticks)-1])); late > 30*time.Second {
		s.t.Errorf("the newest tick in the ledger is %v old", late)
	}
	called := map[int64]int{}
	for _, c := range s.target.called("/tick") {
		at, err := time.Parse(time.RFC3339Nano, c.tick)
		if err != nil {
			s.t.Error(err)
		}
		called[at.UnixMicro()]++
	}
	twice, unclaimed, undone, cut := 0, 0, 0, 0
	for tick, n := range called {
		if n > 1 {
			twice++
		}
		if _, ok := states["tick"][tick]; !ok {
			unclaimed++
		}
	}
	for tick, state := range states["tick"] {
		switch {
		case state == cronjobs.Succeeded && called[tick] == 0:
			undone++
		case state != cronjobs.Succeeded:
			cut++
		}
	}
	swept, doubt := s.swept(ctx, states["sweep"])
	text := fmt.Sprintf("%d of %d", len(ticks), len(ticks)+lost)
	if cut > 0 {
		text += fmt.Sprintf(", %d of them cut off or failed", cut)
	}
	if lost+twice+unclaimed+undone+doubt > 0 {
		s.t.Errorf("ticks lost %d, twice %d, without a claim %d, succeeded without a call %d; of the sql job's %d rows, wrong %d", lost, twice, unclaimed, undone, swept, doubt)
		text += fmt.Sprintf(", **lost %d, twice %d, wrong %d**", lost, twice, unclaimed+undone+doubt)
	}
	return text
}

// swept compares what the sql job has written with the ledger: a row for each tick that succeeded, and for no other.
func (s *scene) swept(ctx context.Context, states map[int64]cronjobs.State) (n, wrong int) {
	rows, err := s.root.QueryContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', tick) FROM app.swept")
	if err != nil {
		s.t.Error(err)
		return 0, 1
	}
	defer rows.Close()
	found := map[int64]bool{}
	for rows.Next() {
		var tick int64
		if err := rows.Scan(&tick); err != nil {
			s.t.Error(err)
		}
		found[tick] = true
		// A run whose replica was cut off after its commit is interrupted in the ledger: at most once, not at least.
		if state, ok := states[tick]; !ok || state != cronjobs.Succeeded && state != cronjobs.Interrupted && !strings.Contains(s.fault.name, "database") {
			wrong++
		}
	}
	if err := rows.Err(); err != nil {
		s.t.Error(err)
	}
	for tick, state := range states {
		if state == cronjobs.Succeeded && !found[tick] {
			wrong++
		}
	}
	return len(found), wrong
}
