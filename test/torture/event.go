package torture

// Kind says what an [Event] is.
type Kind string

// What a player records. All but Up, Follow, Lead, Drain, Early, Starved, Mute and Trouble are of one run, and name it.
const (
	// Up is a process's first event. Text is the schedule of its job text.
	Up Kind = "up"
	// Follow says that the process does not lead: it has just begun to campaign, or its term is over.
	Follow Kind = "follow"
	// Lead says that the process leads under Token.
	Lead Kind = "lead"
	// Drain says that the term is over, by the cause in Text.
	Drain Kind = "drain"
	// Early says that the process took the lease before its time was up, under Token, or may have done so for the term that
	// it begins next.
	Early Kind = "early"
	// Run says that the job's function was called.
	Run Kind = "run"
	// Stop says that the run's context has ended before its function returned, by the cause in Text.
	Stop Kind = "stop"
	// End says that the job's function has returned, with the error in Text.
	End Kind = "end"
	// Begin says that the run begins a fenced transaction.
	Begin Kind = "begin"
	// Commit says how that transaction ended: Outcome, and the error in Text. Seq is its number if it was stored.
	Commit Kind = "commit"
	// Trouble is something that the process logged as a warning or an error, in Text.
	Trouble Kind = "trouble"
	// Starved says that the process did not get to run for the time before this event that For says, in nanoseconds,
	// without having been paused.
	Starved Kind = "starved"
	// Mute says that a log line is blocked because it is not read.
	Mute Kind = "mute"
	// Down is the last event of a process that ended as it was asked to.
	Down Kind = "down"
)

// What is recorded of what was done to players and servers.
const (
	// Killed says that the process was ended by SIGKILL, and is gone.
	Killed Kind = "killed"
	// Paused says that the process was stopped by SIGSTOP: it does nothing from here on until Resumed.
	Paused Kind = "paused"
	// Resumed says that the process was sent SIGCONT right after this event.
	Resumed Kind = "resumed"
	// Forget and Forgot are around the writes that a failover has lost: what was committed between the two may be gone.
	Forget Kind = "forget"
	Forgot Kind = "forgot"
	// Rewound says that the lease row was put back to what it was a while ago, in the same term.
	Rewound Kind = "rewound"
	// Pausing is before a call that pauses Job, or all jobs when it is empty, Held after it, Resuming before the call
	// that ends that, and Freed after it.
	Pausing  Kind = "pausing"
	Held     Kind = "held"
	Resuming Kind = "resuming"
	Freed    Kind = "freed"
	// Stepped says that the database's clock was set, for good.
	Stepped Kind = "stepped"
	// Apart says that the clocks of the process and of the database differ from here on by more than they may, until
	// Together; without a process, those of all.
	Apart    Kind = "apart"
	Together Kind = "together"
	// Inject and Heal are around a fault; Text is its kind.
	Inject Kind = "inject"
	Heal   Kind = "heal"
)

// Outcomes of a fenced transaction.
const (
	Stored  = "stored"
	Refused = "refused" // fence.ErrFenced: nothing is stored
	Broken  = "broken"  // another error that says that nothing is stored
	Unknown = "unknown" // fence.ErrUnknown: stored or not
	None    = "none"    // the run had nothing to do: its effect was there
	// Unfenced is no outcome that a transaction here may have: fence.ErrUnfenced, for which no statement of a player is a reason.
	Unfenced = "unfenced"
)

// Event is something that happened. The events of all processes of a round are ordered by At, which comes from the one
// clock of the machine that they share; two events of one process are in their order in its file.
type Event struct {
	At      int64  `json:"at"`               // nanoseconds since 1970
	Worker  string `json:"worker,omitempty"` // a name for this start of a process, never used twice in a round
	Kind    Kind   `json:"kind"`
	Owner   string `json:"owner,omitempty"`   // of Up: the name in the lease
	Token   uint64 `json:"token,omitempty"`   // of the term
	Job     string `json:"job,omitempty"`     // of the run, as are Tick and Attempt
	Tick    int64  `json:"tick,omitempty"`    // microseconds since 1970
	Attempt int    `json:"attempt,omitempty"` // from 1
	Seq     uint64 `json:"seq,omitempty"`     // of the effect
	Outcome string `json:"outcome,omitempty"`
	For     int64  `json:"for,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Row is a row of the ledger at the end of a round. State is as jobs.State says it.
type Row struct {
	Job     string
	Tick    int64
	State   string
	Owner   string
	Token   uint64
	Attempt int
	Text    string
}

// Effect is a row that a fenced transaction has stored. Seq counts the effects of a job from 1, in the same transaction:
// the order of commits.
type Effect struct {
	Job     string
	Seq     uint64
	Tick    int64
	Attempt int
	Token   uint64
	Owner   string
}
