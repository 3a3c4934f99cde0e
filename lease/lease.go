package lease

import (
	"fmt"
	"strings"
	"time"
)

// Lease is a lease row as one reading showed it. It is a plain value: nothing
// updates it.
type Lease struct {
	// Owner is the last holder; empty when the lease has never been held.
	Owner string
	// Token names the term. It only grows, and a token never changes its owner.
	Token uint64
	// Heartbeat changes with every renewal. Together with Token it says
	// whether a row is the one that was read before.
	Heartbeat uint64
	// RenewedAt is when the row was last acquired or renewed, by the
	// database's clock. It is compared with [Reading.Now] of the same reading
	// and with nothing else.
	RenewedAt time.Time
	// TTL is the time to live that the holder took the lease with. Followers
	// wait for this one, not for their own.
	TTL time.Duration
	// Released says that the holder gave the lease back and it has not been
	// taken since.
	Released bool
	// ResignAsked says that the holder of this term was asked to step down
	// ([Store.AskResign]).
	ResignAsked bool
}

// Fence is a fence row: the holder that fenced work is compared with. Only a
// takeover writes it, so that work which locks it never delays a heartbeat.
type Fence struct {
	Owner string
	Token uint64
}

// Reading is one plain read of a group's two rows.
type Reading struct {
	Group string
	// Lease and Fence are nil where the row is absent. A Store never deletes
	// one of the two alone: if only the lease row is absent, something other
	// than the Store deleted it. A Store deletes both only for sessions of
	// locks that are over, whose group names are never used again.
	Lease *Lease
	Fence *Fence
	// Now is the database's clock at the reading.
	Now time.Time
	// Server identifies the database server process that answered: it differs
	// between servers, and between two starts of one server.
	Server string
	// Session identifies the connection that answered. An acquire that leans
	// on this reading names it, and is refused on any other connection.
	Session uint64
}

// MaxName is the largest length of a group, job or owner name, in bytes.
const MaxName = 128

// CheckName reports why s cannot name a group, a job or an owner. Names are
// ASCII, so that two names are equal in the database exactly when they are
// equal in Go, whatever the collation.
func CheckName(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("lease: %s: empty: give it a name of 1 to %d bytes", what, MaxName)
	case len(s) > MaxName:
		return fmt.Errorf("lease: %s %.40q...: %d bytes: at most %d", what, s, len(s), MaxName)
	case !isName(s):
		return fmt.Errorf("lease: %s %q: only letters, digits and . _ : / @ + - are allowed, the first a letter or a digit", what, s)
	}
	return nil
}

// reservedPrefix begins the groups that are the sessions of package locks. Their
// rows are deleted when they have ended, which those of other groups must never
// be.
const reservedPrefix = "locks/"

// CheckGroup reports why s cannot be a group that replicas contend for: it cannot
// be a name ([CheckName]), or begins with locks/, which is reserved for the
// sessions of package locks.
func CheckGroup(s string) error {
	if strings.HasPrefix(s, reservedPrefix) {
		return fmt.Errorf("lease: group %.40q: names that begin with %s are reserved for the sessions of locks: choose another one", s, reservedPrefix)
	}
	return CheckName("group", s)
}

// isName is a loop because it is asked for each lock that is taken, of whose cost
// a regular expression was a twentieth.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if i == 0 || strings.IndexByte("._:/@+-", c) < 0 {
			return false
		}
	}
	return s != ""
}
