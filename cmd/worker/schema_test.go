package main

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

// fits reports whether the value is as the schema says, for the parts of JSON
// schemas that ours has.
func fits(s *config.Schema, v any) bool {
	kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "number", reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object"}[reflect.ValueOf(v).Kind()]
	if _, whole := v.(int); s.Type == "integer" && !whole {
		return false
	}
	if s.Type != nil && s.Type != "integer" && s.Type != kind {
		if list, ok := s.Type.([]any); !ok || !slices.Contains(list, any(kind)) {
			return false
		}
	}
	all := func(list []*config.Schema) (n int) {
		for _, one := range list {
			if fits(one, v) {
				n++
			}
		}
		return n
	}
	text, isText := v.(string)
	number, isNumber := v.(int)
	switch {
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, v),
		isText && s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text),
		isNumber && s.Maximum > 0 && (number < s.Minimum || number > s.Maximum),
		len(s.AnyOf) > 0 && all(s.AnyOf) == 0, len(s.OneOf) > 0 && all(s.OneOf) != 1, all(s.AllOf) != len(s.AllOf):
		return false
	}
	switch v := v.(type) {
	case []any:
		return len(v) >= s.MinItems && (s.Items == nil || !slices.ContainsFunc(v, func(v any) bool { return !fits(s.Items, v) }))
	case map[string]any:
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				return false
			}
		}
		for key, member := range v {
			form := s.Properties[key]
			if form == nil && s.PatternProperties["^x-"] != nil && strings.HasPrefix(key, "x-") {
				continue
			}
			if more, ok := s.AdditionalProperties.(map[string]any); form == nil && ok {
				data, _ := json.Marshal(more)
				if json.Unmarshal(data, &form) != nil {
					return false
				}
			}
			if form == nil && s.AdditionalProperties != nil || form != nil && !fits(form, member) {
				return false
			}
		}
	}
	return true
}

// decodeYAML reads YAML with its merges, with instants as the text that they are.
func decodeYAML(t *testing.T, text string) any {
	t.Helper()
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		t.Fatal(err)
	}
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		if n.Tag == "!!timestamp" {
			n.Tag = "!!str"
		}
		for _, inside := range n.Content {
			plain(inside)
		}
	}
	plain(&node)
	var v map[string]any
	if err := node.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// printed is the schema as worker schema prints it.
func printed(t *testing.T) (string, *config.Schema) {
	t.Helper()
	r := command(t, "schema")
	var s config.Schema
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	return r.stdout, &s
}

func TestSchemaIsInTheDocuments(t *testing.T) {
	t.Parallel()
	text, _ := printed(t)
	const file = "../../docs/worker.schema.json"
	have, err := os.ReadFile(file)
	if err != nil || string(have) != text {
		t.Errorf("%s is old: run `go run ./cmd/worker schema > docs/worker.schema.json` (%v)", file, err)
	}
}

// Every example of the documents fits the schema.
func TestExamplesFitSchema(t *testing.T) {
	t.Parallel()
	_, schema := printed(t)
	doc, err := os.ReadFile("../../docs/worker.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 5 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		text := block[1]
		if strings.HasPrefix(text, "# yaml-language-server") {
			continue // a comment alone
		}
		if !strings.Contains(text, "group:") {
			text = "database: x\ngroup: g\njobs:\n" + text
		}
		if !fits(schema, decodeYAML(t, text)) {
			t.Errorf("does not fit:\n%s", text)
		}
	}
}

// Words and numbers fit the schema as the worker takes them: as YAML reads them, as text, and in any case.
func TestSchemaOfWords(t *testing.T) {
	t.Parallel()
	_, schema := printed(t)
	check := func(text string) {
		t.Helper()
		if _, err := config.Parse("worker.yaml", []byte(text), nil); err != nil {
			t.Errorf("the worker does not take it: %v", err)
		}
		if !fits(schema, decodeYAML(t, text)) {
			t.Errorf("does not fit:\n%s", text)
		}
	}
	const head = "database: sqlite:x\ngroup: g\n"
	for key, words := range map[string]string{
		"cron: '* * * * *', exec: [x], everywhere": "true false", "cron: '* * * * *', exec: [x], dialect": "auto unix", "cron: '* * * * *', exec: [x], dst": "once native",
		"every: 1m, exec: [x], misfire": "once skip all", "every: 1m, exec: [x], recover": "skip rerun", "every: 1m, exec: [x], overlap": "forbid queue allow replace",
		"exec: [x], manual": "true", "every: 1m, exec: [x], pause_after": "3", "every: 1m, http: {url: 'http://x/', method": "GET} POST}",
	} {
		for _, word := range strings.Fields(words) {
			check(head + "jobs: [{name: a, " + key + ": " + word + "}]\n")
			if word = strings.ToUpper(word); !strings.HasSuffix(word, "}") {
				check(head + "jobs: [{name: a, " + key + ": " + word + "}]\n")
				check(head + "jobs: [{name: a, " + key + ": '" + word + "'}]\n")
			}
		}
	}
	for _, page := range []string{"true", "false", "'true'", "'false'"} {
		check(head + "listen: {address: '127.0.0.1:0', page: " + page + "}\njobs: [{name: a, every: 1m, exec: [x]}]\n")
	}
	check(head + "clock: worker\nmax_runs: '20'\njobs: [{name: a, every: 1m, exec: [x]}]\n")
}

// What the worker takes fits the schema, and what it does not know does not.
func TestSchema(t *testing.T) {
	t.Parallel()
	_, schema := printed(t)
	const head = "database: sqlite:x\ngroup: g\n"
	variables := func(string) (string, bool) { return "5m", true }
	job := func(keys string) string { return head + "jobs: [{name: a, " + keys + "}]\n" }
	for _, text := range []string{
		job("every: '${EVERY}', exec: [echo, 010, true, 1.5], env: {A: 1, B: {file: /b}}"),
		job("manual: true, sql: [DELETE FROM a, {statement: 'DELETE FROM a WHERE b = ?', args: [tick]}]"),
		job("at: 2027-01-01T00:00:00Z, http: {url: 'http://x/', body: {file: /b}, expect: [200, 4xx], headers: {A: 1, B: {file: /b, prefix: c}}}"),
		job("cron: '* * * * *', zone: UTC, dialect: unix, dst: native, overlap: allow, max_runs: 3, misfire: all, recover: rerun, exec: [x]"),
		job("fixed_delay: 1d12h, initial_delay: 0s, retry: {attempts: 3}, history: {keep: 3, for: 30d}, exec: [x], limits: {memory: 1G}, umask: 027"),
		"x-a: 1\n" + job("every: 1m, exec: [x]") + "defaults: {timeout: 1h}\nlease: {ttl: 10s}\nclock: worker\nmax_runs: 20\n",
	} {
		if _, err := config.Parse("worker.yaml", []byte(text), variables); err != nil {
			t.Errorf("the worker does not take it: %v", err)
		}
		if !fits(schema, decodeYAML(t, text)) {
			t.Errorf("does not fit:\n%s", text)
		}
	}
	for _, text := range []string{
		head, "group: g\njobs: [{name: a, every: 1m, exec: [x]}]", head + "jobs: []", job("every: 1m"), job("exec: [x]"),
		job("every: 1m, cron: '* * * * *', exec: [x]"), job("every: 1m, exec: [x], timout: 1m"), job("every: 1m, exec: x"), job("every: 5 min, exec: [x]"),
		job("every: 1m, exec: [x], overlap: maybe"), job("every: 1m, exec: [x], overlap: allow, max_runs: 0"), job("manual: false, exec: [x]"),
		job("every: 1m, http: {method: GET}"), job("every: 1m, http: {url: x, method: FETCH}"), job("every: 1m, exec: [x], env: {A: {path: x}}"),
		job("every: 1m, sql: [{statement: x, args: [tock]}]"), job("every: 1m, exec: [x], catch_up: 5"), job("every: 1m, exec: [x]") + "defaults: {name: b}\n",
	} {
		if _, err := config.Parse("worker.yaml", []byte(text), variables); err == nil {
			t.Errorf("the worker takes:\n%s", text)
		}
		if fits(schema, decodeYAML(t, text)) {
			t.Errorf("fits:\n%s", text)
		}
	}
}
