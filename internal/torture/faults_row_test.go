package torture

import (
	"math/rand/v2"
)

// rowFaults are what people do to the rows.
var rowFaults = []fault{
	{name: "lease row: rewound", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.newTerm()
		node := r.database.main()
		d := r.database
		d.try(node, "REPLACE INTO torture.backup SELECT * FROM torture.cronlease_lease")
		r.rest(between(random, r.ttl/2, r.ttl))
		r.note(Rewound, "")
		d.try(node, "REPLACE INTO torture.cronlease_lease SELECT * FROM torture.backup")
		r.rest(between(random, r.ttl/2, r.ttl)) // until its holder has found out
		return bit
	}},
	{name: "lease row: deleted", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.newTerm()
		r.database.try(r.database.main(), "DELETE FROM torture.cronlease_lease")
		r.rest(between(random, r.ttl, 2*r.ttl)) // until its holder has found out
		return bit
	}},
}

// newTerm says whether there is a newer term when it is asked.
func (r *round) newTerm() (bit func() bool) {
	token := r.token()
	return func() bool { return r.token() > token }
}
