package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// loginFaults have the server refuse the players for a while.
var loginFaults = []fault{
	{name: "logins: account locked", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.deny(random, "ALTER USER player@'%' ACCOUNT LOCK", func() string { return "ALTER USER player@'%' ACCOUNT UNLOCK" })
	}},
	{name: "logins: another password, for a while", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.deny(random, "ALTER USER player@'%' IDENTIFIED BY 'another'", func() string {
			return fmt.Sprintf("ALTER USER player@'%%' IDENTIFIED BY '%s'", r.sql().password)
		})
	}},
	{name: "logins: another password, for good", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.sql()
		d.password = fmt.Sprintf("password-%d", random.Uint64())
		return r.deny(random, fmt.Sprintf("ALTER USER player@'%%' IDENTIFIED BY '%s'", d.password), func() string {
			r.tellPassword(d.file, d.password)
			return "SELECT 1"
		})
	}},
}

// deny changes the account, so that logins are refused, until it is as it should be again.
func (r *round) deny(random *rand.Rand, change string, back func() string) func() bool {
	d, bit := r.sql(), r.complained("access denied", "is locked", "is blocked")
	node := d.some(random)
	d.try(node, change)
	for n := range d.nodes {
		if d.nodes[n].Pid() != 0 {
			d.killConnections(n)
		}
	}
	r.rest(between(random, r.ttl/2, 3*r.ttl))
	d.try(node, back())
	r.wasDenied()
	return bit
}

// wasDenied notes that players were refused until now. A refused login is repeated after 15 s, a fifth more or less,
// and after 30 s when it is refused once more.
func (r *round) wasDenied() {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := 20 * time.Second
	if time.Now().Before(r.denied) {
		wait *= 2
	}
	r.denied = time.Now().Add(wait)
}

// tellPassword writes the password into the file that the players read, as a deployment would: they never see half of it.
func (r *round) tellPassword(file, password string) {
	err := os.WriteFile(file+".new", []byte(password+"\n"), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		r.broken("%v", err)
	}
}
