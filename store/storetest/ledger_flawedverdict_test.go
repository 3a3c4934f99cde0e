package storetest

import (
	"cmp"
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// verdictFlaws are the ways in which a flawed store gets wrong what moves say of their jobs.
var verdictFlaws = []string{
	"verdict: none",
	"verdict: only failures",
	"verdict: only successes",
	"verdict: by the state",
	"verdict: none says that the job works",
	"verdict: not of manual runs",
	"verdict: of the newest tick",
	"verdict: of what goes on",
	"verdict: of what is refused",
	"verdict: of what is not there",
	"verdict: of the replaced",
	"verdict: again",
	"verdict: again beside others",
	"verdict: the first of a call",
	"verdict: the last of a call, or nothing",
	"verdict: the last of a call, also if it is refused",
	"verdict: in the order of keys",
	"verdict: of the first 200",
	"verdict: of all jobs",
	"verdict: of all groups",
	"verdict: makes the job known",
	"declare: clears Failing",
	"prune: clears Failing",
}

// judged is a move and what has become of it.
type judged struct {
	store.Move
	there, current, done, changed bool
}

// judge writes the verdicts of a call.
func (s *ledgerReplica) judge(h store.Holder, all []judged) {
	if s.has("verdict: in the order of keys") {
		slices.SortStableFunc(all, func(a, b judged) int { return cmp.Or(cmp.Compare(a.Job, b.Job), a.Tick.Compare(b.Tick)) })
	}
	if len(all) > 200 && s.has("verdict: of the first 200") {
		all = all[:200]
	}
	decided, last, some := map[string]bool{}, map[string]int{}, map[string]bool{}
	for i, m := range all {
		some[m.Job] = some[m.Job] || m.changed
		if m.To.Over() {
			last[m.Job] = i
		}
	}
	for i, m := range all {
		if !s.counts(m, some[m.Job]) || !m.To.Over() && !s.has("verdict: of what goes on") ||
			s.has("verdict: the first of a call") && decided[m.Job] || s.has("verdict: the last of a call, or nothing") && i != last[m.Job] ||
			s.has("verdict: not of manual runs") && m.Trigger != 0 || s.has("verdict: of the newest tick") && s.cursor(jobKey{h.Group, m.Job}, nil).After(m.Tick) {
			continue
		}
		verdict := m.Verdict
		switch {
		case s.has("verdict: by the state") && m.To == jobs.Succeeded, verdict == store.NoVerdict && s.has("verdict: none says that the job works"):
			verdict = store.JobWorks
		case s.has("verdict: by the state"):
			verdict = store.JobFails
		}
		if verdict == store.NoVerdict || verdict == store.JobWorks && s.has("verdict: only failures") || verdict == store.JobFails && s.has("verdict: only successes") {
			continue
		}
		decided[m.Job] = true
		if of := (jobKey{h.Group, m.Job}); s.jobs[of] == nil && s.has("verdict: makes the job known") {
			s.jobs[of] = &jobs.Known{}
		}
		for k, known := range s.jobs {
			if (k.group == h.Group || s.has("verdict: of all groups")) && (k.job == m.Job || s.has("verdict: of all jobs")) {
				known.Failing = verdict == store.JobFails
			}
		}
	}
}

// counts reports whether the verdict of a move counts that was made in a call which has changed
// some run of its job.
func (s *ledgerReplica) counts(m judged, some bool) bool {
	switch {
	case s.has("verdict: none"):
		return false
	case m.changed:
		return true
	case m.done:
		return s.has("verdict: again") || some && s.has("verdict: again beside others")
	case !m.current:
		return s.has("verdict: of the replaced")
	case !m.there:
		return s.has("verdict: of what is not there")
	}
	return s.has("verdict: of what is refused") || some && s.has("verdict: the last of a call, also if it is refused")
}
