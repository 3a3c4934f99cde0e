package simulation_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// notifier is the job of each release that is told of all others.
const notifier = "tell"

var notifies = jobs.OnFailure().OnRecovery().OnMissed().AtMost(0, 0)

func newNotifier(l *link) jobs.Job {
	return jobs.Job{Name: notifier, Schedule: notifies, Overlap: jobs.OverlapAllow, Do: func(ctx context.Context, run jobs.Run) error {
		if l.dead.Load() {
			return errLink
		}
		n, err := jobs.StrictArgsOf[jobs.Notice](run)
		if err == nil && n.Job == "" {
			err = errWork
		}
		return err
	}}
}

// toldEnd are the events that a move is to be told as: what a recovery is depends on
// what the job came to before, and is left open.
func toldEnd(m store.Move) (want []jobs.NoticeEvent) {
	switch m.To {
	case jobs.Cancelled: // by the end of its term
		asked := strings.Contains(m.Error, jobs.ErrCancelled.Error()) || strings.Contains(m.Error, jobs.ErrReplacedByTick.Error())
		if !asked && !strings.Contains(m.Error, "not declared") {
			want = append(want, jobs.NoticeFailure)
		}
	case jobs.Failed, jobs.TimedOut, jobs.Panicked, jobs.Interrupted:
		if !strings.Contains(m.Error, "not declared") {
			want = append(want, jobs.NoticeFailure)
		}
	case jobs.Skipped:
		if isMissed(m.Error) {
			want = append(want, jobs.NoticeMissed)
		}
	}
	return want
}

func isMissed(why string) bool { return why == "missed" || why == "too late to start" }

// toldMissed are those of a claim.
func toldMissed(c store.Claim) (want []jobs.NoticeEvent) {
	if isMissed(c.Error) || c.State != jobs.Skipped && c.Missed > 0 {
		want = append(want, jobs.NoticeMissed)
	}
	return want
}

// told checks and keeps the notices of what the ledger has just changed, which it has
// inserted.
func (w *world) told(h store.Holder, of jobs.Key, then []store.Follower, want ...jobs.NoticeEvent) {
	if _, shards := triggers.ShardOf(of.Trigger); of.Job == notifier || shards > 0 { // what becomes of shards is told with their run
		want = nil
	}
	var got []jobs.NoticeEvent
	under := h.Keeps(jobs.Waiting, store.Assignee{})
	for _, f := range then {
		if f.Job != notifier {
			continue
		}
		var n jobs.Notice
		if err := json.Unmarshal(f.Args, &n); err != nil || n.Job != of.Job || !n.Tick.Equal(of.Tick) || n.Trigger != of.Trigger {
			w.failf("%v is told as %s: %v", of, f.Args, err)
		}
		if n.Event != jobs.NoticeRecovery && n.Event != "" && !slices.Contains(want, n.Event) || n.Event == jobs.NoticeRecovery && len(want) > 0 {
			w.failf("%v is told as %s", of, n.Event)
		}
		if n.Event != jobs.NoticeRecovery {
			got = append(got, n.Event)
		}
		if _, there := w.rows.rows[f.Key]; there && !w.rows.excused[f.Key] {
			w.failf("%v is told twice as %s", of, n.Event)
		}
		w.rows.rows[f.Key] = entry{state: jobs.Waiting, owner: under.Owner, token: under.Token, changed: time.Now()}
		w.counts["told of "+string(n.Event)]++
	}
	// Of a run that a user has cancelled, nothing need be told, even if something else ended it first.
	if !slices.Equal(got, want) && (len(got) > 0 || !w.asked[of]) {
		w.failf("%v is told as %q, want %q", of, got, want)
	}
}
