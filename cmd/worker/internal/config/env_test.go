package config_test

import (
	"reflect"
	"testing"

	"github.com/cronlease/cronlease/internal/execjob"
)

func TestEnv(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:x
group: g
jobs:
  - name: a
    every: 1m
    exec: [x]
    env:
      MODE: full
      NUMBER: 007
      PERIOD: ${EVERY}
      NOTHING: ""
      TOKEN: {file: /run/secrets/token}
`)
	want := []execjob.Variable{
		{Name: "MODE", Value: "full"}, {Name: "NUMBER", Value: "007"}, {Name: "PERIOD", Value: "5m"}, {Name: "NOTHING"},
		{Name: "TOKEN", File: "/run/secrets/token"},
	}
	if got := c.Jobs[0].Env; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
