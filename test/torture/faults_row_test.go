package torture

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
)

// rowFaults are what people do to the rows.
var rowFaults = []fault{
	{name: "lease row: locked", class: servers, do: locked("cronlease_lease")},
	{name: "fence row: locked", class: servers, do: locked("cronlease_fence")},
	{name: "job row: locked", class: servers, do: locked("cronlease_job WHERE name = '%s'")},
	{name: "run row: locked", class: servers, do: locked("cronlease_run WHERE job = '%s' ORDER BY tick DESC LIMIT 1")},
	{name: "lease row: rewound", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.newTerm()
		node := r.sql().main()
		d := r.sql()
		d.try(node, "REPLACE INTO torture.backup SELECT * FROM torture.cronlease_lease")
		r.rest(between(random, r.ttl/2, r.ttl))
		r.note(Rewound, "")
		d.try(node, "REPLACE INTO torture.cronlease_lease SELECT * FROM torture.backup")
		r.rest(between(random, r.ttl/2, r.ttl)) // until its holder has found out
		return bit
	}},
	{name: "lease row: deleted", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.newTerm()
		r.sql().try(r.sql().main(), "DELETE FROM torture.cronlease_lease")
		r.rest(between(random, r.ttl, 2*r.ttl)) // until its holder has found out
		return bit
	}},
}

// locked keeps rows locked for longer than a statement of the store waits, more often than not. The row may be one of a
// job.
func locked(rows string) func(*round, *rand.Rand) func() bool {
	return func(r *round, random *rand.Rand) func() bool {
		job := jobOf(Policies[random.IntN(len(Policies))].Job)
		if strings.Contains(rows, "%s") {
			return r.sql().lockRows(r.sql().leaders(random), fmt.Sprintf(rows, job), between(random, r.ttl, 4*r.ttl))
		}
		return r.sql().lockRows(r.sql().leaders(random), rows, between(random, r.ttl, 4*r.ttl))
	}
}

// lockRows has a transaction keep rows locked for a while. It has an effect if a statement was seen to wait for a row, or a
// player complained.
func (d *sqlDatabase) lockRows(node int, rows string, length time.Duration) (bit func() bool) {
	complained := d.round.after(Trouble, Drain, Lead)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own := d.dial(node, "root")
	defer own.Close() // which ends the transaction, if a cluster has not ended it before
	lock := func() (*sql.Tx, error) {
		tx, err := own.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		_, err = tx.ExecContext(ctx, "SELECT 1 FROM torture."+rows+" FOR UPDATE")
		return tx, err
	}
	tx, err := lock()
	for mysqlerr.Number(err) == mysqlerr.Deadlock { // with the transaction of a player, which holds the row already
		_ = tx.Rollback()
		tx, err = lock()
	}
	if err != nil {
		d.round.broken("lock %s: %v", rows, err)
		return complained
	}
	defer func() { _ = tx.Rollback() }()
	waited := d.counts(ctx, node, length, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
	return func() bool { return waited || complained() }
}

// newTerm says whether there is a newer term when it is asked.
func (r *round) newTerm() (bit func() bool) {
	token := r.token()
	return func() bool { return r.token() > token }
}
