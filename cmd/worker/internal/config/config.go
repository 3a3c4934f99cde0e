// Package config reads the worker's configuration file.
//
// A file is taken as a whole or not at all: [Load] reports everything that is
// wrong with it, each with file, line, column and what was expected, before
// anything starts.
//
// A value is what it looks like: `name: 007` is the text "007", whatever YAML
// would make of it. In every value, but in no key, ${NAME} stands for the
// environment variable, and $${ for ${ itself. Variables are put in after the
// file has been parsed, so that nothing in them can change its structure.
package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/cmd/worker/internal/web"
	"github.com/cronlease/cronlease/internal/execjob"
	"github.com/cronlease/cronlease/internal/plainfile"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// MaxSize is the largest configuration file, in bytes.
const MaxSize = 10 << 20

// Config is what a configuration file says.
type Config struct {
	Database Database
	Group    string
	// Lease is complete: it has the library's choice where the file says nothing.
	Lease lease.Timing
	// MaxRuns is how many runs the worker has at a time; zero: any number.
	MaxRuns int
	pools   map[string]jobs.Pool // how many runs each pool of jobs may have at a time
	// Spread: the runs of the group are spread over its workers.
	Spread bool
	// Labels are what the worker says of itself, for jobs that want them.
	Labels jobs.Labels
	// FollowerOnly: the worker never leads.
	FollowerOnly bool
	// Drain is how long running jobs may go on when the worker leaves.
	Drain time.Duration
	// Clock and MaxSkew say by whose clock ticks are judged, and how far the
	// database's and the worker's may differ; zero: the library's choice.
	Clock   scheduler.Clock
	MaxSkew time.Duration
	// Listen says where the worker serves its page, if anywhere.
	Listen web.Settings
	Jobs   []Job

	file  string
	place map[string]position // by key, as in "jobs[0].cron"
}

// RunsAlone reports whether each worker runs a job by itself, without records. In a group that is spread, none does.
func (c *Config) RunsAlone(job Job) bool { return job.Everywhere && !c.Spread }

// Divides reports whether the runs of a job are divided into those of [jobs.ShardsOf] it.
func (c *Config) Divides(job Job) bool { return job.Shards > 0 || job.Everywhere && c.Spread }

// Job is one entry of jobs. Exactly one of Exec, HTTP and SQL is set.
type Job struct {
	jobs.Job         // without Do
	Exec             []string
	execjob.Settings // of Exec
	HTTP             *httpjob.Request
	SQL              []sqljob.Statement

	from origin
}

// Equal reports whether two jobs are declared alike, wherever they stand.
func (j Job) Equal(other Job) bool {
	// A schedule's text has all of it, and comparing that is cheap.
	same := j.Schedule.String() == other.Schedule.String()
	j.Schedule, other.Schedule, j.from, other.from = nil, nil, origin{}, origin{}
	return same && reflect.DeepEqual(j, other)
}

// origin is where a job stands.
type origin struct {
	file, key string
	place     map[string]position
}

// Wrap places an error that was found later at the job's key.
func (j Job) Wrap(key string, err error) error {
	return wrap(j.from.file, j.from.key+"."+key, j.from.place, err)
}

// Placed reports whether the job has the key.
func (j Job) Placed(key string) bool {
	_, ok := j.from.place[j.from.key+"."+key]
	return ok
}

// Error is one thing that is wrong with a file.
type Error struct {
	File         string
	Line, Column int
	// Key is the way to the value, as in "jobs[1].every"; empty for the whole file.
	Key     string
	Problem string
}

func (e *Error) Error() string {
	at := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Key != "" {
		at += e.Key + ": "
	}
	return at + e.Problem
}

// Load reads the file. Variables are looked up with lookup, which is
// [os.LookupEnv] outside tests. The error joins an [*Error] for each thing that
// is wrong.
func Load(path string, lookup func(string) (string, bool)) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return parseWith(path, data, lookup, readFile)
}

// readFile reads a file. It never waits for what is in it, since a running worker
// reads it again, and reads no more than tells that it is too large.
func readFile(path string) ([]byte, error) { return plainfile.Read(path, MaxSize) }

// Wrap places an error that was found later, when the value of the key was
// used, at its line in the file.
func (c *Config) Wrap(key string, err error) error {
	return wrap(c.file, key, c.place, err)
}

func wrap(file, key string, place map[string]position, err error) error {
	p, ok := place[key]
	if err == nil || !ok {
		return err
	}
	return fmt.Errorf("%s:%d:%d: %s: %w", file, p.line, p.column, key, err)
}
