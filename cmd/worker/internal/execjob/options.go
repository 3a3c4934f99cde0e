package execjob

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Options says how programs are run.
type Options struct {
	// Grace is how long a program has to stop.
	Grace time.Duration
	// TrustLeft is how long the term of the run that the context belongs to will
	// be trusted, as keeper.TrustLeft tells: the program is stopped then at the
	// latest, even if this process is paused. Nil: there is no such limit.
	TrustLeft func(context.Context) time.Duration
	// Env are variables of the program beside those of [Environment].
	Env []Variable
	Log *zap.Logger
}

// GuardCommand is the program's hidden command that calls [Guard].
const GuardCommand = "guard"

// Variable is an environment variable of a job: its value, or the file that
// holds it.
type Variable struct {
	Name  string
	Value string
	// File is read at the start of each run, so that a value may change. One line
	// end behind the value is not a part of it.
	File string
}

// passed are the variables that a job gets from the worker's environment, beside
// LC_*. Everything else stays behind: the environment is where secrets are kept.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// Passed reports whether jobs get this variable of the worker's environment.
func Passed(name string) bool {
	return slices.Contains(passed, name) || strings.HasPrefix(name, "LC_")
}
