package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/jobs"
)

var poolFields = []field[jobs.Pool]{
	{"runs", func(v value, p *jobs.Pool) { p.Limit = readCount(v, maxRuns) }},
	{"starts", func(v value, p *jobs.Pool) { p.Starts = readCount(v, maxRuns) }},
	{"per", func(v value, p *jobs.Pool) {
		if p.Per = readDuration(v); p.Per > 0 && (p.Per < time.Second || p.Per > 24*time.Hour) {
			v.report("must be from 1s to 24h")
		}
	}},
}

// readPools reads how many runs each pool of jobs may have at a time, and how many may begin in a time.
func readPools(v value) map[string]jobs.Pool {
	const what, name = "pools such as {reports: 3}", "a pool's name such as reports"
	same := func(name string) string { return name }
	check := func(key string) error {
		if !names.Valid(key) {
			return fmt.Errorf("expected %s: 1 to 128 letters, digits and . _ : / @ + -, the first a letter or a digit", name)
		}
		return nil
	}
	pools := map[string]jobs.Pool{}
	readNamed(v, what, name, same, check, func(v value, key string) {
		p := jobs.Pool{Name: key}
		either(v, yaml.MappingNode, func(v value) {
			found := readMapping(v, "a pool such as {runs: 3, starts: 100, per: 1m}", poolFields, &p)
			onlyBeside(found, "per", "it is the time in which so many runs may begin", "starts")
			if at, ok := found["starts"]; ok {
				if _, ok := found["per"]; !ok {
					at.report("expected per beside it, the time in which so many runs may begin, such as 1m")
				}
			} else if v.form == nil {
				require(v, found, "runs", "how many runs go on at a time, or starts and per")
			}
		}, func(v value) { p.Limit = readCount(v, maxRuns) })
		pools[key] = p
	})
	return pools
}
