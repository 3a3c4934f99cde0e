package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// promotion kills the primary and lets its replica take over, which is behind: either it has not received the last
// writes, which are lost then, or not applied them. It happens once in a round.
var promotion = fault{name: "server: replica promoted after a lag", class: servers, do: func(r *round, random *rand.Rand) func() bool {
	d, bit := r.sql(), r.after(Trouble, Drain, Lead)
	verbs := strings.NewReplacer()
	if d.nodes[1].Kind() == dbserver.MariaDB {
		verbs = strings.NewReplacer("REPLICA", "SLAVE")
	}
	tell := func(statement string) { d.try(1, verbs.Replace(statement)) }

	if err := d.replicated(); err != nil {
		r.broken("%v", err)
	}
	loses := random.IntN(2) == 0
	if loses {
		r.note(Forget, "the replica receives nothing")
		tell("STOP REPLICA IO_THREAD")
	} else {
		tell("STOP REPLICA SQL_THREAD")
	}
	r.rest(between(random, r.ttl/4, 2*r.ttl))
	if !loses {
		r.note(Forget, "what is on its way to the replica when the primary is killed")
	}
	d.kill(0)
	r.note(Forgot, "")
	r.rest(between(random, 0, r.ttl/2))
	// MariaDB throws away what it has received when neither thread runs.
	tell("START REPLICA SQL_THREAD")
	if err := d.applied(1); err != nil {
		r.broken("%v", err)
	}
	tell("STOP REPLICA")
	d.try(1, "SET GLOBAL read_only = OFF")
	d.mu.Lock()
	d.primary = 1
	d.mu.Unlock()
	return bit
}}

// replicated waits until the replica has what the primary has now.
func (d *sqlDatabase) replicated() error {
	d.try(0, "INSERT INTO torture.marker VALUES (1)")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ; ; d.round.rest(20 * time.Millisecond) {
		var n int
		err := d.pool(1).QueryRowContext(ctx, "SELECT COUNT(*) FROM torture.marker").Scan(&n)
		if err == nil && n > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the replica does not follow: %w", err)
		}
	}
}

// applied waits until the replica has applied all that it has received.
func (d *sqlDatabase) applied(node int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ; ; d.round.rest(20 * time.Millisecond) {
		var n int
		err := d.pool(node).QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%has read all relay log%'").Scan(&n)
		if err == nil && n > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the replica does not apply what it has received: %w", err)
		}
	}
}
