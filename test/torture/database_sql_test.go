package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
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

// sqlDatabase is servers of MariaDB or MySQL.
type sqlDatabase struct {
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

func newSQLDatabase(t testing.TB, r *round, kind string) *sqlDatabase {
	t.Helper()
	d := &sqlDatabase{round: r, kind: kind, pools: map[int]*sql.DB{}, file: filepath.Join(t.TempDir(), "password")}
	d.password = "first"
	r.tellPassword(d.file, d.password)
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

// addrs begin with the node that the player prefers.
func (d *sqlDatabase) addrs(player int) []string {
	first := 0
	if d.kind == galeraAllOver {
		first = player % len(d.nodes)
	}
	var all []string
	for n := range d.nodes {
		all = append(all, d.nodes[(n+first)%len(d.nodes)].Addr())
	}
	return all
}

func (d *sqlDatabase) dsn(addrs []string) string {
	return "player@tcp(" + strings.Join(addrs, ",") + ")/torture?timeout=1s&password_file=" + d.file
}

func (d *sqlDatabase) proxy(t testing.TB, addr string) *dbtest.Proxy { return dbtest.NewProxy(t, addr) }

func (d *sqlDatabase) clock() clock { return d }

func (d *sqlDatabase) faults() []fault { return slices.Concat(settingFaults, rowFaults, loginFaults) }

func (d *sqlDatabase) late() (fault, bool) { return promotion, d.isPair() && d.main() == 0 }

func (d *sqlDatabase) texts() []string {
	return []string{"", "cronlease_lease", "cronlease_fence", "cronlease_run", "COMMIT", "INSERT INTO effect"}
}

func (d *sqlDatabase) open(random *rand.Rand) (operated, error) {
	return mysqlstore.Open(d.nodes[d.some(random)].DSN("torture"))
}

func (d *sqlDatabase) heldBack(ctx context.Context) (n int, err error) {
	const query = "SELECT COALESCE(SUM(missed + 1), 0) FROM torture.cronlease_run WHERE error = 'paused'"
	err = d.pool(d.main()).QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

func (d *sqlDatabase) isGalera() bool { return d.cluster != nil }

func (d *sqlDatabase) isPair() bool { return d.kind == mariaDBPair || d.kind == mySQLPair }

// main is the place of the node that takes writes.
func (d *sqlDatabase) main() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary
}

// pool is for the round's own statements on a node, as its root.
func (d *sqlDatabase) pool(node int) *sql.DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pools[node] == nil {
		d.pools[node] = d.dial(node, "root")
	}
	return d.pools[node]
}

// dial returns a pool for a node, as that user.
func (d *sqlDatabase) dial(node int, user string) *sql.DB {
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
func (d *sqlDatabase) read(ctx context.Context) (rows []Row, effects []Effect, err error) {
	pool := d.pool(d.main())
	found, err := pool.QueryContext(ctx, "SELECT job, tick, trigger_id, state, owner, token, attempt, error FROM torture.cronlease_run ORDER BY job, tick")
	if err != nil {
		return nil, nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var r Row
		var trigger uint64
		var state uint8
		if err := found.Scan(&r.Job, &r.Tick, &trigger, &state, &r.Owner, &r.Token, &r.Attempt, &r.Text); err != nil {
			return nil, nil, fmt.Errorf("read the ledger: %w", err)
		}
		r.State = jobs.State(state).String()
		if r.Job = nameOf(r.Job, trigger); r.Job != "" {
			rows = append(rows, r)
		}
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

func (d *sqlDatabase) left(ctx context.Context, to time.Time) (n int, err error) {
	const query = "SELECT COUNT(*) FROM torture.cronlease_run WHERE job <> 'hold' AND state <= 2 AND tick <= ?"
	err = d.pool(d.main()).QueryRowContext(ctx, query, to.UnixMicro()).Scan(&n)
	return n, err
}

// outside are the errors by which a node says that it has no cluster at the moment, or is in the way of another.
var outside = []uint16{1047, 1180, 1205, 1213}

// exec executes a statement on a node as its root. A node of a cluster is waited for until it is one.
func (d *sqlDatabase) exec(node int, statement string) error {
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
