package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Keys of jobs that have no default: they are what a job is.
var withoutDefault = slices.Concat([]string{"name"}, scheduleKeys, kindKeys)

// A default applies to a job that does not have this key.
var defaultUnless = map[string]string{
	"timeout": "lock_at_most_for", "lock_at_most_for": "timeout", "max_runs": "overlap", "concurrency_key": "overlap",
}

// readDefaults checks the defaults and returns them. It returns nil after it has
// reported, so that no job repeats what is wrong.
func readDefaults(v value, spread bool) *value {
	fields := slices.DeleteFunc(slices.Clone(jobFields), func(f field[jobFile]) bool { return slices.Contains(withoutDefault, f.key) })
	before := len(v.doc.errors) + v.doc.more
	var f jobFile
	found := readMapping(v, "keys of jobs such as {timeout: 1h, zone: Europe/Berlin}", fields, &f)
	checkTogether(found, &f, spread)
	if found == nil || len(v.doc.errors)+v.doc.more > before {
		return nil
	}
	v, _ = v.resolve()
	v.node = &yaml.Node{Kind: yaml.MappingNode, Content: v.members(0)}
	return &v
}

// withDefaults returns a job as if it merged the defaults that fit it, behind all
// that it merges itself. notEverywhere are keys that a job which runs everywhere cannot have.
func withDefaults(v value, defaults *value, notEverywhere map[string]string) value {
	job, ok := v.resolve()
	if defaults == nil || !ok || job.node.Kind != yaml.MappingNode {
		return v
	}
	has := map[string]bool{}
	members := job.members(0)
	for i := 0; i+1 < len(members); i += 2 {
		has[members[i].Value] = true
	}
	all, given := slices.Clone(members), defaults.node.Content
	local := job.says(members, "everywhere", "true")
	if defaults.says(given, "everywhere", "true") && !has["everywhere"] {
		if local = !hasOne(has, notEverywhere); !local {
			has["everywhere"] = true // the default does not fit
		}
	}
	if defaults.says(given, "overlap", "replace") && hasOne(has, notReplacing) {
		has["overlap"] = true
	}
	beside := maps.Clone(has) // and an except that is itself a default, for the zone
	for i := 0; i+1 < len(given); i += 2 {
		if key := given[i].Value; key == "except" && slices.ContainsFunc(withTicks, func(k string) bool { return has[k] }) {
			beside[key] = true
		}
	}
	for i := 0; i+1 < len(given); i += 2 {
		key := given[i].Value
		need, bound := needKeys[key]
		fits := !bound || slices.ContainsFunc(need.one, func(k string) bool { return beside[k] })
		if _, not := notEverywhere[key]; not && local {
			fits = false
		}
		if has[key] || !fits || has[defaultUnless[key]] {
			continue
		}
		is := *given[i+1]
		v.doc.most += count(&is) // no alias has made them more
		if v.doc != defaults.doc {
			is.Line, is.Column = job.node.Line, job.node.Column // an error names this file
		}
		all = append(all, given[i], &is)
	}
	return value{doc: v.doc, node: &yaml.Node{Kind: yaml.MappingNode, Line: job.node.Line, Column: job.node.Column, Content: all}, key: v.key}
}

// hasOne reports whether a job has one of the keys that exclude a default.
func hasOne(has map[string]bool, keys map[string]string) bool {
	for key := range keys {
		if has[key] {
			return true
		}
	}
	return false
}

// says reports whether the members of a mapping have the key with that word. What is wrong
// with the value is told where it is read.
func (v value) says(members []*yaml.Node, key, word string) bool {
	for i := 0; i+1 < len(members); i += 2 {
		if members[i].Value != key {
			continue
		}
		at, _ := v.child(members[i], members[i+1]).resolve()
		text, err := expand(at.node.Value, v.doc.lookup)
		return err == nil && strings.EqualFold(text, word)
	}
	return false
}
