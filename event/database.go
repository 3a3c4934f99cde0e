package event

import (
	"time"

	"github.com/cronlease/cronlease/lease"
)

// Fault is a kind of trouble with the database.
type Fault string

// The faults.
const (
	Away     Fault = "database trouble"           // no answer, or an error that waiting may mend
	Refused  Fault = "database refuses the login" // matches lease.ErrDenied
	NotReady Fault = "database not ready"         // matches lease.ErrNotReady
	Unfit    Fault = "database unfit"             // matches lease.ErrSetup
)

// DatabaseAway says that the database fails, at the beginning, with each new kind of fault, and
// once a minute while it lasts.
type DatabaseAway struct {
	Header
	Fault Fault
	// Task is what has failed, such as "heartbeat".
	Task string
	Err  error
	// For is how long the trouble has lasted, and Failures how often something has failed
	// in it.
	For      time.Duration
	Failures int
	// Often: the log has it at debug level, since it has had several of this fault in the last minute.
	Often bool
}

// DatabaseBack is the end of what [DatabaseAway] tells of.
type DatabaseBack struct {
	Header
	For      time.Duration
	Failures int
	// Often: the log has it at debug level, as it has what it is the end of.
	Often bool
}

// WritesLost says that another server answers, which lacks the last writes: a failover has lost
// them. The misfire policies decide again about the ticks that are not there. It is told by a
// scheduler that remembers some of these.
type WritesLost struct {
	Header
	// Jobs is how many jobs lack their newest ticks, or are missing themselves. Of the first of these, Job is the name, Had
	// the newest tick that this process has seen, or when the missing job was added, and Has the newest tick that is
	// there; zero: none. Has can be later than Had: another replica has decided about the ticks again, before this one
	// was back.
	Jobs int
	// Added is how many of them are missing: they were added in the lost moments. The next leader adds them
	// anew, and does not know of their ticks before that.
	Added    int
	Job      string
	Had, Has time.Time
}

// Statement is a call of the database that an election, a scheduler or a client of locks has made. It may
// be several statements of SQL.
type Statement struct {
	Header
	// Name is what the call does: one of a dozen names, such as "renew" or "claim".
	Name string
	// Rows is how many rows it was to write, where that is known; else zero.
	Rows int
	Took time.Duration
	Err  error
}

// Agreement is how two clocks compare.
type Agreement string

// What clocks can do.
const (
	Agree    Agreement = "agree"
	Differ   Agreement = "differ"   // by more than a second
	Disagree Agreement = "disagree" // by more than scheduler.WithMaxSkew: this replica does not lead
)

// ClockSkew says that the database's clock and this machine's have come to agree, to
// differ, or to disagree, and what they did when they were compared for the first time.
type ClockSkew struct {
	Header
	Skew lease.Skew
	Now  Agreement
	// Most is what scheduler.WithMaxSkew allows.
	Most time.Duration
	// ByDatabase: ticks are judged by the database's clock.
	ByDatabase bool
	// First: they were not compared before, in this process.
	First bool
}
