package jobs

import (
	"context"
	"time"
)

// Term is a term of the group's scheduler, as it has told of itself. It is a plain value.
type Term struct {
	Token uint64
	Owner string
	// Began is when it got the lease. Ended is zero while nothing is known of its end.
	// Both are by the database's clock.
	Began, Ended time.Time
	// Why is why it ended, in at most 500 bytes; empty while nothing is known of its end.
	// Of a term that could not tell, the next one says so, and Ended is then its last
	// heartbeat.
	Why string
	// Early says that it began before the TTL of the term before was over: that one's
	// process was found dead.
	Early bool
}

// TermFilter selects terms; the zero value selects all.
type TermFilter struct {
	// Since leaves out terms that ended earlier, and Until those that did not begin
	// earlier. Zero: no bound.
	Since, Until time.Time
	// Limit is how many are returned at most. Zero: 100.
	Limit int
}

// Terms reads the terms that the filter's time touches, the newest first. The ledger keeps
// the newest 10,000 of a group, for 400 days. A term that could not reach the database
// is missing, and so are those of older releases. The error matches
// [errors.ErrUnsupported] if the store keeps none.
func (g Group) Terms(ctx context.Context, filter TermFilter) ([]Term, error) {
	archive, err := g.archive()
	if err != nil {
		return nil, err
	}
	return archive.Terms(ctx, g.name, filter)
}
