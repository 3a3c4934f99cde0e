package dbtest

import (
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// Replicated starts two servers for this test alone: a primary, and a read-only replica of it that follows by GTID,
// without the primary waiting for it. See [Private].
func Replicated(tb testing.TB, kind string) (primary, replica *dbserver.Server) {
	tb.Helper()
	start := func(id string) *dbserver.Server {
		options := []string{"--server-id=" + id, "--log-bin=binlog"}
		if dbserver.Dialect(kind) == dbserver.MySQL {
			options = append(options, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
		}
		return Private(tb, kind, options...)
	}
	primary, replica = start("1"), start("2")
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		tb.Fatalf("replica: %v", err)
	}
	statements := "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '?', SOURCE_PORT = !, SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1;START REPLICA"
	if replica.Kind() == dbserver.MariaDB {
		statements = "CHANGE MASTER TO MASTER_HOST = '?', MASTER_PORT = !, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;START SLAVE"
	}
	statements += ";SET GLOBAL read_only = ON"
	config, err := mysql.ParseDSN(replica.DSN(""))
	if err != nil {
		tb.Fatalf("replica: %v", err)
	}
	for statement := range strings.SplitSeq(strings.NewReplacer("?", host, "!", port).Replace(statements), ";") {
		execute(tb, config.Clone(), statement)
	}
	return primary, replica
}
