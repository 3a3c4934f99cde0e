package config

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Schema is a JSON schema, as far as a configuration needs one.
type Schema struct {
	Dialect              string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 any                `json:"type,omitempty"`
	Enum                 []any              `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              int                `json:"minimum,omitempty"`
	Maximum              int                `json:"maximum,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	PatternProperties    map[string]*Schema `json:"patternProperties,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	MinItems             int                `json:"minItems,omitempty"`
	AnyOf                []*Schema          `json:"anyOf,omitempty"`
	OneOf                []*Schema          `json:"oneOf,omitempty"`
	AllOf                []*Schema          `json:"allOf,omitempty"`
}

// FileSchema returns the schema of a configuration file, for editors. What reads the
// file makes it, so that it has every key: reading a value with a form reads nothing
// and notes what would be read. It checks less than [Load]: a value may be a
// ${VARIABLE}, and what keys mean together is left to the worker.
func FileSchema() *Schema {
	form := &Schema{Dialect: "http://json-schema.org/draft-07/schema#", Title: "worker.yaml of cronlease"}
	doc := newDocument("", nil)
	readConfig(value{doc: doc, node: &yaml.Node{}, form: form}, &Config{}, nil)
	form.PatternProperties = map[string]*Schema{"^x-": {Description: "a place for anchors"}}
	return form
}

// either reads a value that may be of the kind, or something else.
func either(v value, kind yaml.Kind, is, otherwise func(value)) {
	if v.form != nil {
		a, b := v, v
		a.form, b.form = &Schema{}, &Schema{}
		is(a)
		otherwise(b)
		v.form.AnyOf = []*Schema{a.form, b.form}
		return
	}
	if resolved, ok := v.resolve(); ok && resolved.node.Kind == kind {
		is(resolved)
	} else if ok {
		otherwise(v)
	}
}

// isObject notes a mapping.
func (s *Schema) isObject(what string) {
	s.Type, s.Description, s.AdditionalProperties = "object", what, false
}

// isText notes a scalar: the worker takes each as it is written.
func (s *Schema) isText(what string) {
	s.Type, s.Description = []string{"string", "number", "boolean"}, what
}

// variable is a value with a variable in it, of which nothing else is known.
var variable = &Schema{Type: "string", Pattern: `\$\{`}

// is notes what a scalar may be beside a variable.
func (s *Schema) is(only *Schema) { s.Type, s.AnyOf = nil, []*Schema{only, variable} }

// isOneOf notes words, in any case. YAML takes true and false, without quotes, for
// something else than text.
func (s *Schema) isOneOf(words ...string) {
	var all []any
	forms := make([]string, len(words))
	for i, w := range words {
		if w == "true" || w == "false" {
			all = append(all, w == "true")
		}
		all = append(all, w)
		for _, c := range w {
			forms[i] += string([]rune{'[', unicode.ToLower(c), unicode.ToUpper(c), ']'})
		}
	}
	s.is(&Schema{AnyOf: []*Schema{{Enum: all}, {Type: "string", Pattern: "^(" + strings.Join(forms, "|") + ")$"}}})
}

// isCount notes a number, which may stand in quotes.
func (s *Schema) isCount(most int) {
	s.is(&Schema{AnyOf: []*Schema{{Type: "integer", Minimum: 1, Maximum: most}, {Type: "string", Pattern: `^[+]?0*[1-9][0-9]*$`}}})
}

func (s *Schema) isDuration() {
	s.is(&Schema{Type: []string{"string", "number"}, Pattern: `^[+]?(\d+d)?(\d+(\.\d*)?(ns|us|µs|μs|ms|s|m|h))*$`})
}

// isExactlyOne notes that one of the keys has to be there.
func (s *Schema) isExactlyOne(keys []string) {
	var choice []*Schema
	for _, key := range keys {
		choice = append(choice, &Schema{Required: []string{key}})
	}
	s.AllOf = append(s.AllOf, &Schema{OneOf: choice})
}
