package config

import (
	"errors"
	"strings"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// A table names every key of a mapping: those of the file and of its lease are here, the
// others in the file of their noun. A new key is a line there and, if it depends on others,
// a check where its mapping is read.

var configFields = []field[Config]{
	{"database", func(v value, c *Config) {
		if t, ok := readRaw(v, databaseForm); ok {
			database, err := ParseDatabase(t.raw, v.doc.lookup)
			if err != nil {
				t.report("%v", err)
			}
			c.Database = database
		}
	}},
	{"group", func(v value, c *Config) { c.Group = readName(v, "group") }},
	{"lease", readLease},
	{"max_runs", func(v value, c *Config) { c.MaxRuns = readCount(v, maxRuns) }},
	{"pools", func(v value, c *Config) { c.pools = readPools(v) }},
	{"spread", func(v value, c *Config) { set(&c.Spread, readBool(v)) }},
	{"labels", func(v value, c *Config) { readLabels(v, &c.Labels) }},
	{"follower_only", func(v value, c *Config) { set(&c.FollowerOnly, readBool(v)) }},
	{"drain", func(v value, c *Config) { c.Drain = readWait(v) }},
	{"clock", func(v value, c *Config) { set(&c.Clock, readWord(v, scheduler.DatabaseClock, scheduler.WorkerClock)) }},
	{"max_skew", func(v value, c *Config) {
		if d := readDuration(v); d > 0 && d < time.Second {
			v.report("must be at least 1s")
		} else {
			c.MaxSkew = d
		}
	}},
	{"listen", readListen},
	{"defaults", func(v value, _ *Config) { v.doc.defaults = &v }},
	{"include", func(v value, _ *Config) { v.doc.include = &v }},
	{"jobs", func(v value, _ *Config) { v.doc.jobs = &v }},
}

var leaseFields = []field[lease.Timing]{
	{"ttl", func(v value, t *lease.Timing) { t.TTL = readDuration(v) }},
	{"grace", func(v value, t *lease.Timing) { t.Grace = readDuration(v) }},
}

// readConfig reads a configuration, and returns the files that it includes.
func readConfig(v value, c *Config, read func(path string) ([]byte, error)) []*document {
	found := readMapping(v, "a configuration", configFields, c)
	require(v, found, "database", databaseForm)
	require(v, found, "group", "the name that replicas contend for")
	if _, ok := found["lease"]; !ok {
		c.Lease, _ = c.Lease.Complete() // the defaults fit
	}
	if v.form != nil {
		v.form.AnyOf = []*Schema{{Required: []string{"jobs"}}, {Required: []string{"include"}}}
	} else if _, ok := found["include"]; !ok {
		require(v, found, "jobs", "a list of jobs")
	}
	if at, ok := found["labels"]; ok && !c.Spread {
		at.report("only a group that is spread goes by labels: expected spread: true beside it")
	}
	if at, ok := found["follower_only"]; ok && c.FollowerOnly && !c.Spread {
		at.report("without spread, the leader runs all jobs, and this worker would do nothing: expected spread: true beside it")
	}
	r := jobReader{config: c, places: map[string]value{}, others: map[string]value{}}
	defer r.checkPipelines()
	if v.doc.defaults != nil {
		r.defaults = readDefaults(*v.doc.defaults, c.Spread)
	}
	if v.doc.jobs != nil {
		r.read(*v.doc.jobs)
	}
	if v.doc.include == nil {
		return nil
	}
	included := readIncluded(*v.doc.include, read)
	for _, doc := range included {
		if doc.jobs != nil {
			r.read(*doc.jobs)
		}
	}
	if _, ok := found["jobs"]; !ok && v.form == nil && len(included) == 0 && len(v.doc.errors) == 0 {
		v.doc.include.report("no jobs, and no file here: expected a job")
	}
	return included
}

func readLease(v value, c *Config) {
	found := readMapping(v, "timings such as {ttl: 15s, grace: 2s}", leaseFields, &c.Lease)
	var err error
	var bad *lease.TimingError
	if c.Lease, err = c.Lease.Complete(); errors.As(err, &bad) {
		at, ok := found[strings.ToLower(bad.Field)]
		if !ok {
			at = v
		}
		at.report("%s: %s", bad.Value, bad.Limit)
	}
}
