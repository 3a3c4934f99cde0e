package config

import (
	"fmt"

	"github.com/cronlease/cronlease/jobs"
)

// readLabels reads what a worker says of itself, or what a job wants of the one that runs it.
func readLabels(v value, into *jobs.Labels) {
	const what, name, of = "labels such as {disk: ssd, zone: a}", "a label's name such as disk", "a label's value such as ssd"
	const form = "1 to 63 letters, digits and . _ : / @ + -, the first a letter or a digit"
	valid := func(key, text string) bool { return jobs.Labels{key: text}.Validate() == nil }
	same := func(name string) string { return name }
	check := func(key string) error {
		if !valid(key, "x") {
			return fmt.Errorf("expected %s: %s", name, form)
		}
		return nil
	}
	labels := jobs.Labels{}
	readNamed(v, what, name, same, check, func(v value, key string) {
		t, ok := readText(v, of)
		switch {
		case !ok:
		case v.form == nil && !valid("x", t.expanded):
			t.bad("expected %s: %s", of, form)
		default:
			labels[key] = t.expanded
		}
	})
	if v.form == nil && len(labels) > jobs.MaxLabels {
		v.report("%d labels: expected at most %d", len(labels), jobs.MaxLabels)
	}
	*into = labels
}
