//go:build unix

package execjob

import (
	"fmt"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// CheckEnv says what is wrong with the files of variables, as they are now.
func CheckEnv(variables []Variable) (wrong []error) {
	for _, v := range variables {
		if _, err := values([]Variable{v}); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// values are the variables as a program gets them.
func values(variables []Variable) ([]string, error) {
	var env []string
	for _, v := range variables {
		if v.File != "" {
			var err error
			if v.Value, err = plainfile.Text(v.File, plainfile.MostText); err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
		}
		env = append(env, v.Name+"="+v.Value)
	}
	return env, nil
}
