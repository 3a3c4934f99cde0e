package torture

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
)

// Kinds of database that a round may have.
const (
	mariaDB       = "mariadb"
	mariaDBPair   = "mariadb-pair" // a primary and a replica
	mySQL         = "mysql"
	mySQLPair     = "mysql-pair"
	galera        = "galera"         // three nodes; all players use one as long as it is there
	galeraAllOver = "galera-all"     // three nodes; each player has its own
	redisAlone    = "redis"          // one server
	redisSentinel = "redis-sentinel" // a primary, two replicas, and three sentinels
	zookeeper     = "zookeeper"      // an ensemble of three; each player has a session with any of them
)

var kinds = []string{mariaDB, mariaDBPair, mySQL, mySQLPair, galera, galeraAllOver, redisAlone, redisSentinel, zookeeper}

// database is what a round's players contend on: servers of one kind.
type database interface {
	// addrs are those of its servers, in the order in which that player uses them, proxy starts a proxy before one, and dsn is
	// what a player opens that has these proxies.
	addrs(player int) []string
	proxy(t testing.TB, addr string) *dbtest.Proxy
	dsn(addrs []string) string

	isGalera() bool // several of its servers take writes
	isPair() bool   // it has a replica, which can be promoted with a clock behind

	// some is the place of the server to strike, which works. start returns once it takes part again, and so does pause,
	// which lets it stand still for a while.
	some(random *rand.Rand) (node int)
	kill(node int)
	stop(node int)
	start(node int)
	pause(node int, length time.Duration)

	// faults are those that only it has, and late is one that happens once, at the end, unless it has.
	faults() []fault
	late() (fault, bool)
	// texts are what the players send, of which some is lost.
	texts() []string
	// cutLeader ends the connections that show that the leader is there, and returns how many they were.
	cutLeader() (n int)
	// clock is its clock, or nil if that cannot be set: libfaketime and the allocator of Redis do not get on.
	clock() clock

	// open is for what operators do, and heldBack how many ticks were skipped for a pause.
	open(random *rand.Rand) (operated, error)
	heldBack(ctx context.Context) (int, error)
	// left is how many runs of ticks up to then are not over, without those of the job hold.
	left(ctx context.Context, to time.Time) (int, error)
	// read returns what there is at the end of a round.
	read(ctx context.Context) ([]Row, []Effect, error)
}

// clock is that of a database.
type clock interface {
	// moveClock sets it by that much, and heartbeat is when the lease was last renewed by it.
	moveClock(by time.Duration)
	heartbeat() (time.Time, error)
}

// operated is a store as operators use it.
type operated interface {
	jobs.Control
	io.Closer
}

func newDatabase(t testing.TB, r *round, kind string) database {
	t.Helper()
	switch kind {
	case mariaDB, mySQL, mariaDBPair, mySQLPair, galera, galeraAllOver:
		return newSQLDatabase(t, r, kind)
	case redisAlone:
		return newRedisDatabase(t, r, 1)
	case redisSentinel:
		return newSentinelDatabase(t, r)
	case zookeeper:
		return newZooKeeperDatabase(t, r)
	}
	t.Fatalf("kind of database %q: must be one of %q", kind, kinds)
	return nil
}

// sql is the database of a fault that only servers of MariaDB and MySQL have.
func (r *round) sql() *sqlDatabase { return r.database.(*sqlDatabase) }
