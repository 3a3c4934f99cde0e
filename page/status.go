package page

import "github.com/cronlease/cronlease/election"

// stateOf says in one word what the lease is like, as worker status does.
func stateOf(l election.Leadership) string {
	switch {
	case l.Owner == "":
		return "none"
	case l.Released:
		return "released"
	case l.Held():
		return "held"
	}
	return "expired"
}
