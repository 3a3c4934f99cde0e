package config

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Keys of jobs that have no default: they are what a job is.
var withoutDefault = []string{"name", "cron", "every", "at", "fixed_rate", "fixed_delay", "manual", "after", "notify", "exec", "http", "sql"}

// A default applies to a job that has one of these keys.
var defaultBeside = map[string][]string{
	"from": withTicks, "until": withTicks, "except": withTicks, "jitter": withTicks,
	"zone": {"cron", "except", alsoExcept}, "dialect": {"cron"}, "dst": {"cron"}, "initial_delay": {"fixed_rate", "fixed_delay"},
	"env": {"exec"}, "dir": {"exec"}, "umask": {"exec"}, "user": {"exec"}, "limits": {"exec"},
}

// alsoExcept stands for an except that is itself a default, for the zone.
const alsoExcept = "the default except"

// A default applies to a job that does not have this key.
var defaultUnless = map[string]string{
	"timeout": "lock_at_most_for", "lock_at_most_for": "timeout", "max_runs": "overlap",
}

// readDefaults checks the defaults and returns them. It returns nil after it has
// reported, so that no job repeats what is wrong.
func readDefaults(v value) *value {
	fields := slices.DeleteFunc(slices.Clone(jobFields), func(f field[jobFile]) bool { return slices.Contains(withoutDefault, f.key) })
	before := len(v.doc.errors) + v.doc.more
	var f jobFile
	found := readMapping(v, "keys of jobs such as {timeout: 1h, zone: Europe/Berlin}", fields, &f)
	checkTogether(found, &f)
	if found == nil || len(v.doc.errors)+v.doc.more > before {
		return nil
	}
	v, _ = v.resolve()
	v.node = &yaml.Node{Kind: yaml.MappingNode, Content: v.members(0)}
	return &v
}

// withDefaults returns a job as if it merged the defaults that fit it, behind all
// that it merges itself.
func withDefaults(v value, defaults *value) value {
	job, ok := v.resolve()
	if defaults == nil || !ok || job.node.Kind != yaml.MappingNode {
		return v
	}
	has := map[string]bool{}
	members := job.members(0)
	for i := 0; i+1 < len(members); i += 2 {
		has[members[i].Value] = true
	}
	all := slices.Clone(members)
	for i := 0; i+1 < len(defaults.node.Content); i += 2 {
		if key := defaults.node.Content[i].Value; key == "except" && slices.ContainsFunc(withTicks, func(k string) bool { return has[k] }) {
			has[alsoExcept] = true
		}
	}
	for i := 0; i+1 < len(defaults.node.Content); i += 2 {
		key := defaults.node.Content[i].Value
		beside, bound := defaultBeside[key]
		fits := !bound || slices.ContainsFunc(beside, func(k string) bool { return has[k] })
		if has[key] || !fits || has[defaultUnless[key]] {
			continue
		}
		is := *defaults.node.Content[i+1]
		v.doc.most += count(&is) // no alias has made them more
		if v.doc != defaults.doc {
			is.Line, is.Column = job.node.Line, job.node.Column // an error names this file
		}
		all = append(all, defaults.node.Content[i], &is)
	}
	return value{doc: v.doc, node: &yaml.Node{Kind: yaml.MappingNode, Line: job.node.Line, Column: job.node.Column, Content: all}, key: v.key}
}
