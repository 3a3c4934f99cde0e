package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// changedMost is how many names of changed jobs are told, so that ten thousand make no line of
// a megabyte.
const changedMost = 20

// reloader reads the configuration again while the worker runs: on SIGHUP, and for
// worker reload.
type reloader struct {
	runner    *runner
	path      string
	parts     parts
	scheduler *scheduler.Scheduler
	log       *zap.Logger

	mu  sync.Mutex
	now *config.Config
}

// reload reads the configuration and applies all of it. The error says everything
// that is wrong with it; nothing has changed then. Without apply it only checks.
func (r *reloader) reload(apply bool) (what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, changes, err := r.read()
	if apply && err != nil {
		r.log.Error("the configuration is refused: the worker goes on with the one before", zap.Error(err))
	}
	if err != nil || !apply {
		return changes.String(), err
	}
	var all []jobs.Job
	for _, entry := range c.Jobs {
		all = append(all, r.parts.job(c, entry))
	}
	err = r.scheduler.Set(all...)
	if err != nil { // read has checked all that these check
		r.log.Error("the configuration is refused: the worker goes on with the one before", zap.Error(err))
		return "", err
	}
	r.now = c
	r.log.Info("the configuration was read again", zap.Strings("added", names.First(changes.added, changedMost)),
		zap.Strings("changed", names.First(changes.changed, changedMost)), zap.Strings("removed", names.First(changes.removed, changedMost)), zap.Int("jobs", len(c.Jobs)))
	return changes.String(), nil
}

// read reads the configuration, and says what is wrong with it or what it changes.
func (r *reloader) read() (*config.Config, changes, error) {
	c, err := config.Load(r.path, os.LookupEnv)
	if err != nil {
		return nil, changes{}, err
	}
	if err := r.runner.setListen(c); err != nil {
		return nil, changes{}, err
	}
	check := r.parts
	check.log = zap.NewNop()
	_, unfit := r.runner.scheduler(c, check)
	if err := errors.Join(fixed(r.now, c), checkMachine(c), unfit); err != nil {
		return nil, changes{}, err
	}
	return c, compare(r.now.Jobs, c.Jobs), nil
}

// fixed says which settings have changed that a running worker keeps: all but the
// jobs.
func fixed(was, is *config.Config) error {
	var wrong []error
	a, b := reflect.ValueOf(*was), reflect.ValueOf(*is)
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() || field.Name == "Jobs" || reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		key := keyOf(field.Name)
		err := errors.New("has changed, which a running worker cannot take over: restart it for that")
		placed := is.Wrap(key, err)
		if placed == err { //nolint:errorlint // the key is gone from the file
			placed = fmt.Errorf("%s: %w", key, err)
		}
		wrong = append(wrong, placed)
	}
	return errors.Join(wrong...)
}

// keyOf is the key of a setting, such as max_runs for MaxRuns.
func keyOf(field string) string {
	var key strings.Builder
	for i, c := range field {
		if i > 0 && c >= 'A' && c <= 'Z' {
			key.WriteByte('_')
		}
		key.WriteRune(c)
	}
	return strings.ToLower(key.String())
}

// changes are what differs between two lists of jobs, by name.
type changes struct{ added, changed, removed []string }

func compare(was, is []config.Job) (c changes) {
	before := map[string]config.Job{}
	for _, job := range was {
		before[job.Name] = job
	}
	for _, job := range is {
		old, ok := before[job.Name]
		delete(before, job.Name)
		switch {
		case !ok:
			c.added = append(c.added, job.Name)
		case !job.Equal(old):
			c.changed = append(c.changed, job.Name)
		}
	}
	for _, job := range was {
		if _, gone := before[job.Name]; gone {
			c.removed = append(c.removed, job.Name)
		}
	}
	return c
}

func (c changes) String() string {
	var parts []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", c.added}, {"changed", c.changed}, {"removed", c.removed}} {
		if len(part.names) > 0 {
			parts = append(parts, part.what+" "+strings.Join(names.First(part.names, changedMost), ", "))
		}
	}
	if parts == nil {
		return "nothing has changed"
	}
	return strings.Join(parts, "; ")
}
