package config

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/internal/execjob"
)

// variableFields are the keys of a variable whose value is not its text.
var variableFields = []field[execjob.Variable]{
	{"file", func(v value, to *execjob.Variable) { to.File = readPath(v, "/run/secrets/token") }},
}

// readEnv reads a job's variables: each has its text, or a file that holds it.
func readEnv(v value, f *jobFile) {
	const what = "variables such as {MODE: full, TOKEN: {file: /run/secrets/token}}"
	const name = "a variable's name such as TOKEN: letters, digits and _, the first no digit"
	same := func(name string) string { return name }
	readNamed(v, what, name, same, checkVariable, func(v value, name string) {
		f.job.Env = append(f.job.Env, readVariable(v, name))
	})
}

func checkVariable(name string) error {
	switch {
	case !variableName.MatchString(name):
		return errors.New("expected a variable's name such as TOKEN: letters, digits and _, the first no digit")
	case strings.HasPrefix(name, "CRONLEASE_"):
		return errors.New("expected another name: those that begin with CRONLEASE_ are set by the worker")
	}
	return nil
}

func readVariable(v value, name string) execjob.Variable {
	variable := execjob.Variable{Name: name}
	either(v, yaml.MappingNode, func(v value) {
		found := readMapping(v, "a value", variableFields, &variable)
		require(v, found, "file", "the file that holds the value")
	}, func(v value) {
		if t, ok := readText(v, "text, or {file: /run/secrets/token}"); ok {
			if strings.ContainsRune(t.expanded, 0) {
				t.report("has a zero byte: expected text")
			}
			variable.Value = t.expanded
		}
	})
	return variable
}
