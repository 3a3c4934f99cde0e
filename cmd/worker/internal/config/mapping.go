package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is a key that a mapping may have, and how its value is read into T.
// read reports what is wrong by itself.
type field[T any] struct {
	key  string
	read func(v value, into *T)
}

// readMapping reads a mapping by a table of its keys. It returns where each key
// of the table was found, also those with a bad value and those that are
// likely meant by a misspelt one, so that no error asks for a key that is there.
func readMapping[T any](v value, what string, fields []field[T], into *T) map[string]value {
	if v.form != nil {
		v.form.isObject(what)
		v.form.Properties = map[string]*Schema{}
		for _, f := range fields {
			member := v
			member.form = &Schema{}
			v.form.Properties[f.key] = member.form
			f.read(member, into)
		}
		return nil
	}
	found := map[string]value{}
	v, ok := v.resolve()
	if !ok {
		return nil
	}
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	if v.node.Kind != yaml.MappingNode {
		v.report("%s: expected %s with the keys %s", describe(v.node), what, strings.Join(known, ", "))
		return nil
	}
	members := v.members(0)
	for i := 0; i+1 < len(members); i += 2 {
		name, at := members[i], v.child(members[i], members[i+1])
		index := slices.Index(known, name.Value)
		switch before, twice := found[name.Value]; {
		case v.key == "" && strings.HasPrefix(name.Value, "x-"): // a place for anchors
		case name.Kind != yaml.ScalarNode:
			at.node, at.key = name, v.key
			at.report("%s: expected a key: one of %s", describe(name), strings.Join(known, ", "))
		case index < 0:
			meant := nearest(name.Value, known)
			at.node = name
			if meant == "" {
				at.report("unknown key: expected one of %s", strings.Join(known, ", "))
			} else {
				at.report("unknown key: did you mean %s? Expected one of %s", meant, strings.Join(known, ", "))
				if _, ok := found[meant]; !ok {
					found[meant] = at
				}
			}
		case twice && before.key == at.key:
			at.node = name
			at.report("given twice, first in line %d: expected it once", before.node.Line)
		default:
			found[name.Value] = at
			v.doc.place[at.key] = at.position()
			fields[index].read(at, into)
		}
	}
	return found
}

const mergeTag = "!!merge" // of the key <<

// members returns the keys of a mapping, each with its value behind it. Those that
// it merges come last: its own keys go before them, and earlier ones before later
// ones.
func (v value) members(depth int) []*yaml.Node {
	content := v.node.Content
	if !slices.ContainsFunc(content, func(n *yaml.Node) bool { return n.Tag == mergeTag }) {
		return content
	}
	if depth > maxMerges {
		v.report("<< merges more than %d mappings into one another: expected fewer, and none that merges itself", maxMerges)
		return nil
	}
	var own, merged []*yaml.Node
	known := map[string]bool{}
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Tag == mergeTag {
			from := v.child(content[i], content[i+1])
			from.key = v.key
			merged = append(merged, from.merges(depth, true)...)
			continue
		}
		own = append(own, content[i], content[i+1])
		known[content[i].Value] = true
	}
	for i := 0; i+1 < len(merged); i += 2 {
		if name := merged[i].Value; !known[name] {
			known[name] = true
			own = append(own, merged[i], merged[i+1])
		}
	}
	return own
}

// merges returns the members of what << names: a mapping, or a list of them.
func (v value) merges(depth int, isList bool) (all []*yaml.Node) {
	v, ok := v.resolve()
	switch {
	case !ok:
		return nil
	case v.node.Kind == yaml.MappingNode:
		return v.members(depth + 1)
	case v.node.Kind == yaml.SequenceNode && isList:
		for _, node := range v.node.Content {
			all = append(all, value{doc: v.doc, node: node, key: v.key}.merges(depth, false)...)
		}
		return all
	}
	v.report("<< merges %s: expected a mapping such as *base, or a list of them", describe(v.node))
	return nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// child is a member of a mapping. An empty value is where its key is.
func (v value) child(key, node *yaml.Node) value {
	path := key.Value
	if !plainKey.MatchString(path) {
		path = quote(path)
	}
	if v.key != "" {
		path = v.key + "." + path
	}
	if node.Line == 0 {
		node.Line, node.Column = key.Line, key.Column
	}
	return value{doc: v.doc, node: node, key: path}
}

// readNamed calls read with each member of a mapping whose keys the file chooses.
// Two keys are one if same makes them equal.
func readNamed(v value, what, name string, same func(string) string, check func(string) error, read func(v value, name string)) {
	if v.form != nil {
		v.form.isObject(what)
		member := v
		member.form = &Schema{}
		v.form.AdditionalProperties = member.form
		read(member, "")
		return
	}
	v, ok := v.resolve()
	if !ok {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.report("%s: expected %s", describe(v.node), what)
		return
	}
	lines := map[string]int{}
	members := v.members(0)
	for i := 0; i+1 < len(members); i += 2 {
		key := members[i]
		at := v.child(key, members[i+1])
		named := value{doc: v.doc, node: key, key: at.key}
		if key.Kind != yaml.ScalarNode {
			named.key = v.key
			named.report("%s: expected %s", describe(key), name)
			continue
		}
		if err := check(key.Value); err != nil {
			named.key = v.key
			named.report("%s: %v", describe(key), err)
			continue
		}
		if first, twice := lines[same(key.Value)]; twice {
			named.report("given twice, first in line %d: expected it once", first)
			continue
		}
		lines[same(key.Value)] = key.Line
		read(at, key.Value)
	}
}

// readList calls read with each member of a list.
func readList(v value, what string, read func(value)) {
	if v.form != nil {
		v.form.Type, v.form.Description, v.form.MinItems = "array", what, 1
		v.form.Items = &Schema{}
		v.form = v.form.Items
		read(v)
		return
	}
	v, ok := v.resolve()
	if !ok {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.report("%s: expected %s", describe(v.node), what)
		return
	}
	if len(v.node.Content) == 0 {
		v.report("an empty list: expected %s", what)
	}
	for i, node := range v.node.Content {
		read(value{doc: v.doc, node: node, key: fmt.Sprintf("%s[%d]", v.key, i)})
	}
}
