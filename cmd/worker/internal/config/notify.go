package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/jobs"
)

// notifyFile is what a notifier tells of, while it is read.
type notifyFile struct {
	schedule  jobs.NotifySchedule
	limit     int
	unlimited bool
	per       time.Duration
}

var notifyFields = []field[notifyFile]{
	{"on_failure", func(v value, n *notifyFile) { n.on(v, jobs.NotifySchedule.OnFailure) }},
	{"on_recovery", func(v value, n *notifyFile) { n.on(v, jobs.NotifySchedule.OnRecovery) }},
	{"on_missed", func(v value, n *notifyFile) { n.on(v, jobs.NotifySchedule.OnMissed) }},
	{"limit", func(v value, n *notifyFile) {
		const none = "none"
		if v.form != nil {
			v.form.Description = "how many notices there are at most, from 1 to 1000, or none"
			v.form.AnyOf = []*Schema{{}, {Enum: []any{none}}}
			v.form = v.form.AnyOf[0]
		} else if resolved, ok := v.resolve(); ok && resolved.node.Value == none {
			n.unlimited = true
			return
		}
		n.limit = readCount(v, maxNotices)
	}},
	{"per", func(v value, n *notifyFile) { n.per = readDuration(v) }},
}

// on reads "all", or a list of jobs.
func (n *notifyFile) on(v value, add func(jobs.NotifySchedule, ...string) jobs.NotifySchedule) {
	const what = "all, or a list of jobs such as [invoices, report]"
	either(v, yaml.SequenceNode, func(v value) {
		var names []string
		readList(v, what, func(v value) {
			if name := readName(v, "job"); name != "" {
				names = append(names, name)
			}
		})
		if len(names) > 0 {
			n.schedule = add(n.schedule, names...)
		}
	}, func(v value) {
		t, ok := readText(v, what)
		switch {
		case v.form != nil:
			v.form.isOneOf("all")
		case ok && t.expanded != "all":
			t.bad("expected %s", what)
		case ok:
			n.schedule = add(n.schedule)
		}
	})
}

// readNotify reads what a notifier tells of, in the place of a schedule.
func readNotify(v value, f *jobFile) {
	var n notifyFile
	before := len(v.doc.errors) + v.doc.more
	found := readMapping(v, "what to tell of, such as {on_failure: all, on_recovery: all, on_missed: [invoices]}", notifyFields, &n)
	if v.form != nil {
		v.form.AnyOf = []*Schema{{Required: []string{"on_failure"}}, {Required: []string{"on_recovery"}}, {Required: []string{"on_missed"}}}
		return
	}
	onlyBeside(found, "per", "it is the time in which there may be so many notices", "limit")
	if at, ok := found["per"]; ok && n.unlimited {
		at.report("beside limit: none: expected only one of them")
	}
	if found == nil || len(v.doc.errors)+v.doc.more > before {
		return
	}
	if n.per == 0 {
		n.per = time.Hour
	}
	switch {
	case n.unlimited:
		n.schedule = n.schedule.AtMost(0, 0)
	case n.limit > 0:
		n.schedule = n.schedule.AtMost(n.limit, n.per)
	}
	if n.schedule.Err() != nil && found["on_failure"].node == nil && found["on_recovery"].node == nil && found["on_missed"].node == nil {
		v.report("expected on_failure, on_recovery, on_missed, or some of them")
		return
	}
	reportAt(v, n.schedule.Err())
	f.job.Schedule = n.schedule
}
