package config

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/execjob"
)

// variableFields are the keys of a variable whose value is not its text.
var variableFields = []field[execjob.Variable]{
	{"file", func(v value, to *execjob.Variable) {
		const what = "the path of a file such as /run/secrets/token"
		t, ok := readText(v, what)
		switch {
		case !ok:
		case t.expanded == "" || strings.ContainsRune(t.expanded, 0):
			t.bad("expected %s", what)
		default:
			to.File = t.expanded
		}
	}},
}

// readEnv reads a job's variables: each has its text, or a file that holds it.
func readEnv(v value, f *jobFile) {
	const what = "variables such as {MODE: full, TOKEN: {file: /run/secrets/token}}"
	v, ok := v.resolve()
	if !ok {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.report("%s: expected %s", describe(v.node), what)
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		at := v.child(key, v.node.Content[i+1])
		name := value{doc: v.doc, node: key, key: at.key}
		first, twice := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !variableName.MatchString(key.Value):
			name.key = v.key
			name.report("%s: expected a variable's name such as TOKEN: letters, digits and _, the first no digit", describe(key))
			continue
		case strings.HasPrefix(key.Value, "CRONLEASE_"):
			name.report("expected another name: those that begin with CRONLEASE_ are set by the worker")
			continue
		case twice:
			name.report("given twice, first in line %d: expected it once", first)
			continue
		}
		lines[key.Value] = key.Line
		f.job.Env = append(f.job.Env, readVariable(at, key.Value))
	}
}

func readVariable(v value, name string) execjob.Variable {
	variable := execjob.Variable{Name: name}
	if v, ok := v.resolve(); ok && v.node.Kind == yaml.MappingNode {
		found := readMapping(v, "a value", variableFields, &variable)
		require(v, found, "file", "the file that holds the value")
		return variable
	}
	const what = "text, or {file: /run/secrets/token}"
	if t, ok := readText(v, what); ok {
		if strings.ContainsRune(t.expanded, 0) {
			t.report("has a zero byte: expected text")
		}
		variable.Value = t.expanded
	}
	return variable
}
