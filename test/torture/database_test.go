package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// Kinds of database that a round may have.
const (
	mariaDB       = "mariadb"
	mariaDBPair   = "mariadb-pair" // a primary and a replica
	mySQL         = "mysql"
	mySQLPair     = "mysql-pair"
	galera        = "galera"     // three nodes; all players use one as long as it is there
	galeraAllOver = "galera-all" // three nodes; each player has its own
)

var kinds = []string{mariaDB, mariaDBPair, mySQL, mySQLPair, galera, galeraAllOver}

// database is what a round's players contend on.
type database struct {
	round *round
	kind  string
	nodes []*dbserver.Server

	cluster *dbserver.Galera // of the nodes, if they are one
	offset  time.Duration    // of the nodes' clocks to the machine's
	// password is that of the players, which read it from the file.
	password, file string

	mu      sync.Mutex // guards all below
	primary int        // the node that takes writes; of a Galera cluster any
	pools   map[int]*sql.DB
}

func newDatabase(t testing.TB, r *round, kind string) *database {
	t.Helper()
	d := &database{round: r, kind: kind, pools: map[int]*sql.DB{}, file: filepath.Join(t.TempDir(), "password")}
	d.password = "first"
	d.tellPassword()
	t.Cleanup(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, pool := range d.pools {
			_ = pool.Close() // its server may have gone
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	switch kind {
	case mariaDB, mySQL:
		d.nodes = []*dbserver.Server{dbtest.Private(t, kind)}
	case mariaDBPair, mySQLPair:
		primary, replica := dbtest.Replicated(t, strings.TrimSuffix(kind, "-pair"))
		d.nodes = []*dbserver.Server{primary, replica}
	case galera, galeraAllOver:
		d.cluster = dbtest.Galera(t, 2*r.ttl)
		d.nodes = d.cluster.Nodes()
	default:
		t.Fatalf("kind of database %q: must be one of %q", kind, kinds)
	}
	// From their next start on, their clocks can be stepped.
	for n, node := range d.nodes {
		if err := node.FakeClock(); err != nil {
			t.Fatal(err)
		}
		d.stop(n)
		d.start(n)
	}
	if d.isPair() {
		d.try(1, "SET GLOBAL read_only = ON") // a restart forgets it
	}
	statements := []string{
		"CREATE DATABASE torture",
		"CREATE USER player@'%' IDENTIFIED BY '" + d.password + "'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON torture.* TO player@'%'",
	}
	for _, statement := range append(statements, Schema...) {
		if err := d.exec(0, statement); err != nil {
			t.Fatal(err)
		}
	}
	store, err := mysqlstore.Open(d.nodes[0].DSN("torture"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.exec(0, "CREATE TABLE torture.backup LIKE torture.cronlease_lease"); err != nil {
		t.Fatal(err)
	}
	return d
}

// first is the place of the node that the player prefers.
func (d *database) first(player int) int {
	if d.kind == galeraAllOver {
		return player % len(d.nodes)
	}
	return 0
}

func (d *database) isGalera() bool { return d.cluster != nil }

func (d *database) isPair() bool { return d.kind == mariaDBPair || d.kind == mySQLPair }

// main is the place of the node that takes writes.
func (d *database) main() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary
}

// pool is for the round's own statements on a node, as its root.
func (d *database) pool(node int) *sql.DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pools[node] == nil {
		d.pools[node] = d.open(node, "root")
	}
	return d.pools[node]
}

// open returns a pool for a node, as that user.
func (d *database) open(node int, user string) *sql.DB {
	config, err := mysql.ParseDSN(d.nodes[node].DSN(""))
	if err != nil {
		panic(err) // it was made by FormatDSN
	}
	config.User, config.Logger = user, &mysql.NopLogger{}
	if user == "player" {
		config.Passwd = d.password
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		panic(err)
	}
	return sql.OpenDB(connector)
}

// read returns the tables at the end of a round.
func (d *database) read(ctx context.Context) (rows []Row, effects []Effect, err error) {
	pool := d.pool(d.main())
	found, err := pool.QueryContext(ctx, "SELECT job, tick, state, owner, token, attempt, error FROM torture.cronlease_run WHERE trigger_id = 0 ORDER BY job, tick")
	if err != nil {
		return nil, nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var r Row
		var state uint8
		if err := found.Scan(&r.Job, &r.Tick, &state, &r.Owner, &r.Token, &r.Attempt, &r.Text); err != nil {
			return nil, nil, fmt.Errorf("read the ledger: %w", err)
		}
		r.State = jobs.State(state).String()
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		return nil, nil, fmt.Errorf("read the ledger: %w", err)
	}
	found, err = pool.QueryContext(ctx, "SELECT job, seq, tick, attempt, token, owner FROM torture.effect ORDER BY job, seq")
	if err != nil {
		return nil, nil, fmt.Errorf("read the effects: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var e Effect
		if err := found.Scan(&e.Job, &e.Seq, &e.Tick, &e.Attempt, &e.Token, &e.Owner); err != nil {
			return nil, nil, fmt.Errorf("read the effects: %w", err)
		}
		effects = append(effects, e)
	}
	return rows, effects, found.Err()
}

// over waits until no run of a tick up to then is left to be done.
func (d *database) over(ctx context.Context, to time.Time) error {
	const query = "SELECT COUNT(*) FROM torture.cronlease_run WHERE job <> 'hold' AND state <= 2 AND tick <= ?"
	for {
		var n int
		if err := d.pool(d.main()).QueryRowContext(ctx, query, to.UnixMicro()).Scan(&n); err == nil && n == 0 {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("%d runs are not over (%w)", n, err)
		}
		d.round.rest(100 * time.Millisecond)
	}
}

// outside are the errors by which a node says that it has no cluster at the moment, or is in the way of another.
var outside = []uint16{1047, 1180, 1205, 1213}

// exec executes a statement on a node as its root. A node of a cluster is waited for until it is one.
func (d *database) exec(node int, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		_, err := d.pool(node).ExecContext(ctx, statement)
		answer := new(mysql.MySQLError)
		switch {
		case err == nil:
			return nil
		case !d.isGalera() || !errors.As(err, &answer) || !slices.Contains(outside, answer.Number) || ctx.Err() != nil:
			return fmt.Errorf("%s: %w", statement, err)
		}
		d.round.rest(50 * time.Millisecond)
	}
}
