//go:build !unix

// Package execjob runs programs as jobs, on Unix systems: what stops and kills
// all of a job is missing elsewhere. Here it only lets other packages build.
package execjob

import (
	"context"
	"errors"

	"github.com/cronlease/cronlease/jobs"
)

var errUnix = errors.New("exec jobs need a Unix system")

// New returns a job function that fails.
func New([]string, Options) func(context.Context, jobs.Run) error {
	return func(context.Context, jobs.Run) error { return errUnix }
}

// CheckEnv does nothing.
func CheckEnv([]Variable) []error { return nil }

// Guard fails.
func Guard() error { return errUnix }

// ReapOrphans does nothing.
func ReapOrphans(context.Context) {}
