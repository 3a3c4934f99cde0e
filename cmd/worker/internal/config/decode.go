package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
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
