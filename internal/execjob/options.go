package execjob

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
)

// Options says how programs are run.
type Options struct {
	// Grace is how long a program has to stop.
	Grace time.Duration
	// Trust is how long the term of the run that the context belongs to will be
	// trusted, as keeper.TrustOf tells: the program is stopped then, even if this
	// process is paused. Nil: there is no such limit.
	Trust func(context.Context) keeper.Trust
	// Trace returns further variables of a run, as for the span in its context. Nil:
	// there are none.
	Trace func(context.Context) []string
	Settings
	Log *zap.Logger
}

// Settings are what a program runs with. Those that are empty are the worker's.
type Settings struct {
	// Env are variables of the program beside those of [Environment].
	Env []Variable
	Dir string // absolute
	// Umask is nil for the worker's.
	Umask *int
	// User is a name or a number, and may have :group behind it. HOME, USER and
	// LOGNAME are then the user's.
	User   string
	Limits Limits
}

// Limits bound what each process of a program may use; zero: as the worker. A
// program can lower them, but not raise them.
type Limits struct {
	Memory    uint64 // address space, in bytes
	FileSize  uint64 // of a file that it writes, in bytes
	OpenFiles uint64
	Processes uint64 // of its user, threads too, all jobs and other programs counted
	CPU       time.Duration
}

// GuardCommand is the program's hidden command that calls [Guard].
const GuardCommand = "guard"

// LimitCommand is the hidden command that calls [Limit].
const LimitCommand = "limit"

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
