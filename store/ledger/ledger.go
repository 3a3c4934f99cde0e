package ledger

// Ledger has those methods of [store.Ledger], [store.Replicas] and [store.Archive] that write, on [Rows]. A store embeds it. It is
// safe for concurrent use where the rows are. The zero value is of no use: see [New].
type Ledger struct {
	pkg  string // names the store in errors
	rows Rows
}

// New returns the ledger on such rows. The name of the store's package is for errors.
func New(pkg string, rows Rows) Ledger { return Ledger{pkg, rows} }

// batch is how many rows one transaction writes at most, so that it is over soon: heartbeats wait for it.
const batch = 500
