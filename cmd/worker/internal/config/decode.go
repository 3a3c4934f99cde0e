package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/internal/spelling"
)

// Limits on what a file that is small enough can still blow up to.
const (
	maxValues = 200_000 // beyond those that it has; aliases count each time they are used
	maxErrors = 50      // more than a user reads
	maxMerges = 20      // mappings that merge one another
)

type position struct{ line, column int }

// document is a file while it is read.
type document struct {
	name   string
	lookup func(string) (string, bool)
	lines  int // of the file
	place  map[string]position
	errors []*Error
	more   int // errors that were not kept
	values int // that were read
	most   int // that may be

	// What the file consists of beside its settings: each is nil where it is missing.
	jobs, defaults, include *value
}

// value is a node of the file and the way to it.
type value struct {
	doc  *document
	node *yaml.Node
	key  string
	form *Schema // not nil: nothing is read, but noted in it what would be
}

// Parse reads a configuration from data; name is the file's name in errors. It
// may include no files. See [Load].
func Parse(name string, data []byte, lookup func(string) (string, bool)) (*Config, error) {
	return parseWith(name, data, lookup, nil)
}

// parseWith reads a configuration, and the files that it includes with read.
func parseWith(name string, data []byte, lookup func(string) (string, bool), read func(path string) ([]byte, error)) (*Config, error) {
	doc := newDocument(name, lookup)
	config := &Config{file: name, place: doc.place}
	docs := []*document{doc}
	if root := doc.parse(data, "the keys database, group and jobs"); root != nil {
		docs = append(docs, readConfig(value{doc: doc, node: root}, config, read)...)
	}
	var bad []error
	for _, doc := range docs {
		bad = append(bad, doc.err()...)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return config, nil
}

func newDocument(name string, lookup func(string) (string, bool)) *document {
	return &document{name: name, lookup: lookup, place: map[string]position{}}
}

// parse returns the root of the only document in data, or nil and a report.
func (d *document) parse(data []byte, keys string) *yaml.Node {
	if len(data) > MaxSize {
		d.report(position{1, 1}, "", "larger than %d bytes: expected a configuration file", MaxSize)
		return nil
	}
	if at := invalid(data); at >= 0 {
		d.report(position{1 + bytes.Count(data[:at], []byte("\n")), at - bytes.LastIndexByte(data[:at], '\n')}, "",
			"expected UTF-8 text without control characters")
		return nil
	}
	d.lines = lines(data)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, next yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		d.report(position{1, 1}, "", "empty: expected %s", keys)
		return nil
	case err != nil:
		d.reportSyntax(data, err)
		return nil
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		d.report(position{max(next.Line, 1), max(next.Column, 1)}, "", "a second document: expected one per file")
		return nil
	case !errors.Is(err, io.EOF):
		d.reportSyntax(data, err)
		return nil
	}
	d.most = count(&root) + maxValues
	return root.Content[0]
}

// count is how many nodes there are, with none behind an alias.
func count(node *yaml.Node) int {
	n := 1
	for _, inside := range node.Content {
		n += count(inside)
	}
	return n
}

// lines is how many there are, as YAML counts them.
func lines(data []byte) int {
	n := 1 - bytes.Count(data, []byte("\r\n"))
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		n += bytes.Count(data, []byte(end))
	}
	return n
}

// invalid returns where data is no text, or -1.
func invalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return i
		}
		i += size
	}
	return -1
}

var (
	syntaxError   = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// reportSyntax gives an error of the YAML parser its place. The parser names the
// line where the enclosing list or mapping began, and none at all for the first
// line and for aliases. So the place is the first line after which the parser
// already finds the same fault.
func (d *document) reportSyntax(data []byte, err error) {
	fault, line := syntaxFault(err)
	if match := unknownAnchor.FindStringSubmatch(fault); match != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+match[1]))
		line = 1 + bytes.Count(before, []byte("\n"))
		if !plainKey.MatchString(match[1]) {
			fault = "unknown anchor " + quote(match[1]) + " referenced"
		}
	} else {
		lines := bytes.SplitAfter(data, []byte("\n"))
		line = max(line, 1+sort.Search(len(lines)-1, func(n int) bool {
			end := 0
			for _, l := range lines[:n+1] {
				end += len(l)
			}
			found, _ := syntaxFault(parses(data[:end]))
			return found == fault
		}))
	}
	at := position{line, 1}
	if hint, column := syntaxHint(data, line); hint != "" {
		at.column, fault = column, fault+": "+hint
	}
	d.report(at, "", "not YAML: %s", fault)
}

var (
	tabIndent = regexp.MustCompile(`^ *\t`)
	// What begins with one of these characters is no plain text in YAML.
	unquoted     = regexp.MustCompile(`^(?:.*[{,])?[ -]*([A-Za-z_]+): +[*&!%@` + "`" + `|>]`)
	unquotedCron = regexp.MustCompile(`\bcron: +[*@]`)
)

// syntaxHint says what is likely wrong in a line that is no YAML, and where. It
// shows nothing of the line, in which a password may stand.
func syntaxHint(data []byte, line int) (hint string, column int) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if line > len(lines) {
		return "", 0
	}
	text := lines[line-1]
	if tab := tabIndent.FindIndex(text); tab != nil {
		return "a tab as indentation: expected blanks", tab[1]
	}
	if cron := unquotedCron.FindIndex(text); cron != nil {
		return `a cron expression without quotes: expected them, as in cron: "*/5 * * * *"`, cron[1]
	}
	if value := unquoted.FindIndex(text); value != nil {
		return "a value that begins with a character of YAML's own: expected it in quotes", value[1]
	}
	return "", 0
}

// parses returns the parser's error on any document of data.
func parses(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// syntaxFault splits an error of the parser into what and where.
func syntaxFault(err error) (fault string, line int) {
	if err == nil {
		return "", 0
	}
	fault = err.Error()
	if match := syntaxError.FindStringSubmatch(fault); match != nil {
		fault = fault[len(match[0]):]
		line, _ = strconv.Atoi(match[1]) // absent for the first line
	}
	return fault, line
}

func (d *document) report(at position, key, format string, args ...any) {
	if d.lines > 0 && at.line > d.lines { // the parser puts what is missing at the end a line too far
		at = position{d.lines, 1}
	}
	if len(d.errors) >= maxErrors {
		d.more++
		return
	}
	d.errors = append(d.errors, &Error{File: d.name, Line: at.line, Column: at.column, Key: key, Problem: fmt.Sprintf(format, args...)})
}

// err returns what is wrong with the file, in its order.
func (d *document) err() []error {
	slices.SortStableFunc(d.errors, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, 0, len(d.errors)+1)
	for _, err := range d.errors {
		all = append(all, err)
	}
	if d.more > 0 {
		all = append(all, fmt.Errorf("%s: %d more errors", d.name, d.more))
	}
	return all
}

func (v value) position() position {
	return position{max(v.node.Line, 1), max(v.node.Column, 1)}
}

func (v value) report(format string, args ...any) {
	v.doc.report(v.position(), v.key, format, args...)
}

// resolve follows an alias, and counts what the file unfolds to. Nothing here
// recurses deeper than the keys of the tables, so that an alias which contains
// itself ends too.
func (v value) resolve() (value, bool) {
	v.doc.values++
	if v.doc.values > v.doc.most {
		if v.doc.values == v.doc.most+1 {
			v.report("the file unfolds to more than %d values: expected fewer aliases", v.doc.most)
		}
		return v, false
	}
	for range 100 {
		if v.node.Kind != yaml.AliasNode {
			return v, true
		}
		v.node = v.node.Alias
	}
	v.report("expected a value, this alias leads nowhere")
	return v, false
}

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

// text is a scalar: as it is written, which is what errors show, and with its
// variables put in.
type text struct {
	value
	raw, expanded string
}

// readText reads a scalar, whatever YAML takes it for.
func readText(v value, what string) (text, bool) {
	t, ok := readRaw(v, what)
	if !ok {
		return text{}, false
	}
	return t.expand(v.doc.lookup)
}

// expand puts in the values of variables.
func (t text) expand(lookup func(string) (string, bool)) (text, bool) {
	expanded, err := expand(t.raw, lookup)
	if err != nil {
		t.report("%v", err)
		return text{}, false
	}
	t.expanded = expanded
	return t, true
}

// readRaw reads a scalar and leaves its variables as they are.
func readRaw(v value, what string) (text, bool) {
	if v.form != nil {
		v.form.isText(what)
		return text{}, false
	}
	v, ok := v.resolve()
	if !ok {
		return text{}, false
	}
	switch {
	case v.node.Kind != yaml.ScalarNode, v.node.Tag == "!!null":
		v.report("%s: expected %s", describe(v.node), what)
		return text{}, false
	case v.node.Style&yaml.TaggedStyle != 0:
		v.report("the tag %s: expected %s, without a tag", quote(v.node.Tag), what)
		return text{}, false
	}
	return text{value: v, raw: v.node.Value}, true
}

// bad reports the value. It shows the text of the file, never that of a
// variable, which may be a secret.
func (t text) bad(format string, args ...any) {
	t.report("%s: %s", quote(t.raw), fmt.Sprintf(format, args...))
}

// A URL with a user part and a DSN of the driver; both may hold a password.
var (
	secretForm = regexp.MustCompile(`(?s)://.*@|:.*@(tcp|unix)\(`)
	schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+]{0,19}://`)
)

// quote shows a text, bounded, and next to nothing of one that may hold a
// password, which stands in the wrong place then.
func quote(s string) string {
	const most = 80
	if secretForm.MatchString(s) {
		return strconv.Quote(schemeForm.FindString(s)) + "..."
	}
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Kind == yaml.AliasNode:
		return "an alias"
	case node.Tag == "!!null":
		return "empty"
	default:
		return quote(node.Value)
	}
}

// nearest returns the known key that a misspelt one is likely to mean, or "".
func nearest(s string, known []string) string {
	best, most := "", 1+len(s)/4
	if len(s) > 40 {
		return ""
	}
	for _, k := range known {
		if d := spelling.Distance(strings.ToLower(s), k); d <= most {
			best, most = k, d-1
		}
	}
	return best
}
