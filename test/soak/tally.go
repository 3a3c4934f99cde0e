//go:build linux

package main

import (
	"maps"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// tally counts what a worker process has done. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex // guards counts
	counts counts
}

// counts is what a worker process has done since its start, but for Ticks.
type counts struct {
	Runs    map[string]int // by kind of job
	Failed  int            // of them, returned an error
	Locks   int            // taken beside the jobs
	Written int            // fenced transactions of jobs that were committed
	Terms   int
	Log     map[string]int // warnings and errors, by message
	Ticks   []secondTick   // that were run since the last report
}

// secondTick is a run of one of the jobs that are counted tick by tick.
type secondTick struct {
	Job  int
	Unix int64
}

func newTally() *tally {
	return &tally{counts: counts{Runs: map[string]int{}, Log: map[string]int{}}}
}

func (t *tally) change(f func(c *counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.counts)
}

func (t *tally) ran(kind string, err error) {
	t.change(func(c *counts) {
		c.Runs[kind]++
		if err != nil {
			c.Failed++
		}
	})
}

func (t *tally) second(job int, tick time.Time) {
	t.change(func(c *counts) { c.Ticks = append(c.Ticks, secondTick{job, tick.Unix()}) })
}

func (t *tally) locked() { t.change(func(c *counts) { c.Locks++ }) }
func (t *tally) wrote()  { t.change(func(c *counts) { c.Written++ }) }
func (t *tally) led()    { t.change(func(c *counts) { c.Terms++ }) }

// logged is a hook of the logger.
func (t *tally) logged(e zapcore.Entry) error {
	if e.Level >= zapcore.WarnLevel {
		t.change(func(c *counts) { c.Log[e.Message]++ })
	}
	return nil
}

// report returns a copy, and begins with the ticks anew.
func (t *tally) report() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Runs, c.Log = maps.Clone(c.Runs), maps.Clone(c.Log)
	t.counts.Ticks = nil
	return c
}

// add adds what another process has done.
func (c *counts) add(o counts) {
	if c.Runs == nil {
		c.Runs, c.Log = map[string]int{}, map[string]int{}
	}
	for kind, n := range o.Runs {
		c.Runs[kind] += n
	}
	for message, n := range o.Log {
		c.Log[message] += n
	}
	c.Failed += o.Failed
	c.Locks += o.Locks
	c.Written += o.Written
	c.Terms += o.Terms
}
