package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// short is the lease in a scenario that waits for its end.
	short = time.Second
	// long is a lease that does not end meanwhile.
	long = time.Minute
	// watch is how long a scenario waits for a lock to become free: five of
	// them.
	watch = 5 * short
	// glance is the same where a free lock is acquired at once.
	glance = 2 * time.Second
)

// scenario is something that happens to locks.
type scenario struct {
	name  string
	tried string
	run   func(ctx context.Context, t *trial) (outcome, error)
	// breaks and survives name the ways that are tried with it, and what is
	// expected of them. A way that the scenario does not apply to is in neither.
	breaks, survives []string
}

// outcome is what was seen.
type outcome struct {
	broken   bool
	happened string
}

var scenarios = []scenario{
	{
		name: "crash", tried: "the process that has it is killed; no cleaning task and no repair job runs", run: crash,
		breaks:   []string{"insert-delete", "insert-ignore", "counter"},
		survives: []string{"upsert", "for-update", "get-lock"},
	},
	{
		name: "deadlock", tried: "the release meets a deadlock with a reporting transaction", run: deadlocked,
		breaks: []string{"insert-delete"},
	},
	{
		name: "pause", tried: "the process that has it is stopped for longer than the lease, and goes on", run: pause,
		breaks: []string{"insert-delete", "insert-ignore", "upsert", "for-update", "counter", "get-lock"},
	},
	{
		name: "overrun", tried: "the work takes longer than the lease", run: overrun,
		breaks: []string{"insert-ignore", "upsert", "counter"},
	},
	{
		name: "stolen", tried: "after that, it releases what it believes to have", run: stolen,
		breaks:   []string{"insert-ignore", "counter"},
		survives: []string{"upsert"},
	},
	{
		name: "autumn", tried: "its process is killed just before the clock goes back", run: autumn,
		breaks: []string{"upsert"},
	},
	{
		name: "spring", tried: "the clock goes forward while it works", run: spring,
		breaks: []string{"upsert"},
	},
	{
		name: "found-rows", tried: "the DSN says clientFoundRows=true", run: foundRows,
		breaks:   []string{"upsert"},
		survives: []string{"insert-delete", "insert-ignore"},
	},
	{
		name: "pinned", tried: "16 locks are held from a pool of 16 connections", run: pinned,
		breaks:   []string{"for-update", "get-lock"},
		survives: []string{"insert-delete", "insert-ignore", "upsert", "counter"},
	},
	{
		name: "cut", tried: "its connections are cut while it works", run: cut,
		breaks:   []string{"for-update", "get-lock"},
		survives: []string{"insert-delete"},
	},
	{
		name: "pool", tried: "another request has the connection when it releases", run: pool,
		breaks:   []string{"get-lock-pooled"},
		survives: []string{"get-lock"},
	},
	{
		name: "names", tried: "names in upper case, of 65 characters, and of another schema", run: names,
		breaks: []string{"insert-ignore", "get-lock"},
	},
}

// result is a scenario tried on a way.
type result struct {
	scenario *scenario
	way      string
	expected bool // whether it was expected to break
	outcome
	err error // it could not be tried
}

// ok reports whether the expected was seen.
func (r result) ok() bool { return r.err == nil && r.broken == r.expected }

// try tries the scenario on the way, in a schema of its own.
func (r result) try(ctx context.Context, server *mysql.Config) (_ outcome, err error) {
	k, err := kindOf(r.way)
	if err != nil {
		return outcome{}, err
	}
	t, err := newTrial(ctx, server, k)
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err != nil {
		return outcome{}, err
	}
	return r.scenario.run(ctx, t)
}

// plan returns what is to be tried, by way.
func plan() []result {
	var all []result
	for _, k := range kinds {
		for i := range scenarios {
			s := &scenarios[i]
			breaks := slices.Contains(s.breaks, k.name)
			if breaks || k.beside || slices.Contains(s.survives, k.name) {
				all = append(all, result{scenario: s, way: k.name, expected: breaks})
			}
		}
	}
	return all
}
