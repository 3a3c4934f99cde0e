package torture

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// serverFaults are those of the processes of any database's servers.
var serverFaults = []fault{
	{name: "server: SIGKILL", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		node, bit := r.database.some(random), r.after(Trouble, Drain, Lead)
		r.database.kill(node)
		r.rest(between(random, 0, r.ttl))
		r.database.start(node)
		return bit
	}},
	{name: "server: restart", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		node, bit := r.database.some(random), r.after(Trouble, Drain, Lead)
		r.database.stop(node)
		r.rest(between(random, 0, r.ttl))
		r.database.start(node)
		return bit
	}},
	{name: "server: SIGSTOP, SIGCONT", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		node, bit := r.database.some(random), r.after(Trouble, Drain, Lead)
		r.database.pause(node, between(random, r.ttl/4, 2*r.ttl))
		return bit
	}},
	{name: "server: leader's connection killed", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		killed := 0
		for range 1 + random.IntN(3) {
			killed += r.database.cutLeader()
			r.rest(between(random, 0, r.ttl))
		}
		return func() bool { return killed > 0 }
	}},
}

// settingFaults are those of the settings, connections and tables of MariaDB and MySQL.
var settingFaults = []fault{
	{name: "server: read only", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		node, bit := r.sql().some(random), r.complained("read-only", "read only", "1290", "1836", "no host")
		r.sql().try(node, "SET GLOBAL read_only = ON")
		r.rest(between(random, r.ttl/4, 2*r.ttl))
		r.sql().try(node, "SET GLOBAL read_only = OFF")
		return bit
	}},
	{name: "server: KILL of connections", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		killed := 0
		for range 1 + random.IntN(4) {
			killed += r.sql().killConnections(r.sql().some(random))
			r.rest(between(random, 0, r.ttl/10))
		}
		return func() bool { return killed > 0 }
	}},
	{name: "server: max_connections spent", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.sql().spendConnections(r.sql().some(random), between(random, r.ttl/4, 2*r.ttl))
	}},
	{name: "server: FLUSH TABLES WITH READ LOCK", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		node := r.sql().some(random)
		return r.sql().lockAll(node, between(random, r.ttl/4, 2*r.ttl))
	}},
	{name: "server: ALTER TABLE behind a reader", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		tables := []string{"cronlease_lease", "cronlease_fence", "cronlease_run", "cronlease_job"}
		return r.sql().alter(r.sql().main(), tables[random.IntN(len(tables))], between(random, r.ttl/4, 2*r.ttl))
	}},
}

// some is the node to strike: the one that takes writes, or, where all do, mostly the first. It works.
func (d *sqlDatabase) some(random *rand.Rand) int {
	node := d.main()
	if d.isGalera() {
		if random.IntN(2) == 0 {
			node = random.IntN(len(d.nodes))
		}
		d.synced(node)
	}
	return node
}

// synced waits until a node of a cluster is one.
func (d *sqlDatabase) synced(node int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if d.nodes[node].WaitSynced(ctx, len(d.nodes)) != nil {
		d.reform()
	}
}

// reform makes a cluster of nodes that do not find each other again, which takes a person elsewhere: all of them are
// ended, and the one with the latest data begins. Nothing that was committed is lost by that.
func (d *sqlDatabase) reform() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, node := range d.nodes {
		if node.Pid() != 0 {
			_ = node.Kill() // it may have ended by itself meanwhile
		}
	}
	if err := d.cluster.Start(ctx); err != nil {
		d.round.broken("%v", err)
	}
}

// kill ends a node as a crash would.
func (d *sqlDatabase) kill(node int) {
	if err := d.nodes[node].Kill(); err != nil {
		d.round.broken("%v", err)
	}
}

func (d *sqlDatabase) stop(node int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.nodes[node].Stop(ctx); err != nil {
		d.round.broken("%v", err)
	}
}

// start starts a node again, and returns when it takes part.
func (d *sqlDatabase) start(node int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch err := d.nodes[node].Start(ctx); {
	case err == nil:
	case d.isGalera():
		d.reform() // the others may have lost each other meanwhile
	default:
		d.round.broken("%v\n%s", err, d.nodes[node].Log())
	}
}

func (d *sqlDatabase) pause(node int, length time.Duration) {
	if err := d.nodes[node].Pause(); err != nil {
		d.round.broken("%v", err)
	}
	d.round.rest(length)
	if err := d.nodes[node].Resume(); err != nil {
		d.round.broken("%v", err)
	}
	if d.isGalera() { // it may have been thrown out
		d.synced(node)
	}
}

// try executes what must work on a node that works.
func (d *sqlDatabase) try(node int, statement string) {
	if err := d.exec(node, statement); err != nil {
		d.round.broken("%v", err)
	}
}

// players returns the connections of the players to a node.
func (d *sqlDatabase) players(node int) (ids []uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := d.pool(node).QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = 'player'")
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("list connections: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// killConnections ends the players' connections, and returns how many it ended.
func (d *sqlDatabase) killConnections(node int) (n int) {
	ids, err := d.players(node)
	if err != nil {
		d.round.broken("%v", err)
	}
	for _, id := range ids {
		if d.exec(node, fmt.Sprintf("KILL %d", id)) == nil { // else it has ended by itself
			n++
		}
	}
	return n
}

// cutLeader ends the connections that have the hand-over signal, which show that the leader is there, and returns how
// many they were: its process lives, and its other connections.
func (d *sqlDatabase) cutLeader() (n int) {
	for node, id := range d.signals() {
		if d.exec(node, fmt.Sprint("KILL ", id)) == nil {
			n++
		}
	}
	return n
}

// signals are the connections that have the hand-over signal, by node.
func (d *sqlDatabase) signals() map[int]int64 {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := sha256.Sum256([]byte("torture\x00cronlease_\x00" + Group))
	found := map[int]int64{}
	for node := range d.nodes {
		if d.nodes[node].Pid() == 0 {
			continue
		}
		var id sql.NullInt64
		err := d.pool(node).QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", fmt.Sprintf("cronlease:%x", name[:20])).Scan(&id)
		if err == nil && id.Valid {
			found[node] = id.Int64
		}
	}
	return found
}

// leaders is the node that the leader writes to, or some: what a transaction has locked on one node of a cluster, a
// statement waits for there alone.
func (d *sqlDatabase) leaders(random *rand.Rand) int {
	for node := range d.signals() {
		if d.isGalera() {
			d.synced(node)
		}
		return node
	}
	return d.some(random)
}

// spendConnections lets a node refuse new connections, and ends those that the players have, so that they need new ones.
// It has an effect if there were some, and the node did refuse.
func (d *sqlDatabase) spendConnections(node int, length time.Duration) (bit func() bool) {
	const few = 10 // the least that both servers take
	never := func() bool { return false }
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var most int
	if err := d.pool(node).QueryRowContext(ctx, "SELECT @@GLOBAL.max_connections").Scan(&most); err != nil {
		d.round.broken("%v", err)
		return never
	}
	hog := d.dial(node, "player") // root has one connection more than others
	defer hog.Close()
	d.try(node, fmt.Sprintf("SET GLOBAL max_connections = %d", few))
	defer func() { d.try(node, fmt.Sprintf("SET GLOBAL max_connections = %d", most)) }()
	killed, refused := d.killConnections(node), false
	for end := time.Now().Add(length); time.Now().Before(end); d.round.rest(20 * time.Millisecond) {
		c, err := hog.Conn(ctx)
		if err == nil {
			defer c.Close()
		} else if answer := new(mysql.MySQLError); errors.As(err, &answer) && answer.Number == 1040 {
			refused = true
		}
	}
	return func() bool { return killed > 0 && refused }
}

// lockAll keeps all writes of a node waiting for a while. It has an effect if a statement was seen to wait, or a player
// complained.
func (d *sqlDatabase) lockAll(node int, length time.Duration) (bit func() bool) {
	complained := d.round.after(Trouble, Drain, Lead)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own := d.dial(node, "root")
	defer own.Close() // which ends the lock: a node that has lost its cluster refuses UNLOCK TABLES
	own.SetMaxOpenConns(1)
	if _, err := own.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
		d.round.broken("FLUSH TABLES WITH READ LOCK: %v", err)
		return complained
	}
	waited := d.sees(ctx, node, length, "waiting for global read lock", "waiting for backup lock", "waiting for commit lock")
	return func() bool { return waited || complained() }
}

// alter changes a table during a long read: the change waits for the reader, and all other statements for the change.
func (d *sqlDatabase) alter(node int, table string, length time.Duration) (bit func() bool) {
	complained := d.round.after(Trouble, Drain, Lead)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reader := d.dial(node, "root")
	defer reader.Close()
	tx, err := reader.BeginTx(ctx, nil)
	if err == nil {
		_, err = tx.ExecContext(ctx, "SELECT COUNT(*) FROM torture."+table)
	}
	if err != nil {
		d.round.broken("read %s: %v", table, err)
		return complained
	}
	done := make(chan error, 1)
	go func() {
		for began, again := time.Now(), true; again; {
			err := d.exec(node, "ALTER TABLE torture."+table+" COMMENT = 'tortured', ALGORITHM = COPY")
			// A cluster ends the reader, so that nothing holds the change up: there it is made again and again.
			if again = d.isGalera() && err == nil && time.Since(began) < length; !again {
				done <- err
			}
		}
	}()
	waited := d.sees(ctx, node, length, "waiting for table metadata lock")
	_ = tx.Rollback() // a cluster may have ended it, for the change
	_ = reader.Close()
	if err := <-done; err != nil {
		d.round.broken("%v", err)
	}
	return func() bool { return waited || complained() }
}

// sees watches for that time whether statements of the players wait for what is named.
func (d *sqlDatabase) sees(ctx context.Context, node int, length time.Duration, states ...string) (seen bool) {
	return d.counts(ctx, node, length, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'player' AND LOWER(state) IN ('"+strings.Join(states, "', '")+"')")
}

// counts lets that time pass, and reports whether a query has ever counted something meanwhile.
func (d *sqlDatabase) counts(ctx context.Context, node int, length time.Duration, query string) (seen bool) {
	for end := time.Now().Add(length); time.Now().Before(end); d.round.rest(50 * time.Millisecond) {
		var n int
		if err := d.pool(node).QueryRowContext(ctx, query).Scan(&n); err == nil && n > 0 {
			seen = true
		}
	}
	return seen
}

// moveClock sets the clock of the nodes by that much.
func (d *sqlDatabase) moveClock(by time.Duration) {
	for _, node := range d.nodes {
		if node.Pid() != 0 {
			if err := node.StepClock(d.offset + by); err != nil {
				d.round.broken("%v", err)
			}
		}
	}
	d.offset += by
}

// heartbeat is when the lease was last renewed, by the database's clock.
func (d *sqlDatabase) heartbeat() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var micros int64
	const query = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', renewed_at) FROM torture.cronlease_lease WHERE name = ?"
	if err := d.pool(d.main()).QueryRowContext(ctx, query, Group).Scan(&micros); err != nil {
		return time.Time{}, fmt.Errorf("read the lease: %w", err)
	}
	return time.UnixMicro(micros), nil
}
