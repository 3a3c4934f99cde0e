package mysqlconn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cronlease/cronlease/lease"
)

// snapshotIsolation is a setting of MariaDB from 10.6.18 on, with default ON from
// 11.6.2 on: a locking read or a write fails with error 1020 when the row has
// changed since the transaction's snapshot.
const snapshotIsolation = "innodb_snapshot_isolation"

// Server is what a connection's server and session say of themselves.
type Server struct {
	Identity  string            // of this start of this server
	Database  string            // the connection's
	variables map[string]string // by lower-case name; what a server does not know is missing
	frozen    bool              // the session's clock stands still
	mark      string            // what [setUp] gave the session
}

func readServer(ctx context.Context, conn *sql.Conn) (Server, error) {
	s := Server{variables: map[string]string{}}
	rows, err := conn.QueryContext(ctx, showVariables)
	if err != nil {
		return Server{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return Server{}, err
		}
		s.variables[strings.ToLower(name)] = value
	}
	if err := rows.Err(); err != nil {
		return Server{}, err
	}

	started, err := s.readStart(ctx, conn)
	if err != nil {
		return Server{}, err
	}
	s.Identity = fmt.Sprintf("%s/%s:%s/%d", s.id(), s.variables["hostname"], s.variables["port"], started)
	return s, nil
}

// readStart reads the second in which the server was started, and what belongs
// to the connection.
func (s *Server) readStart(ctx context.Context, conn *sql.Conn) (started uint64, err error) {
	query := startedMySQL
	if s.IsMariaDB() {
		query = startedMariaDB
	}
	var (
		name, mark sql.NullString
		now        uint64
		uptime     string
		off        sql.NullInt64
	)
	if err := conn.QueryRowContext(ctx, query).Scan(&name, &now, &uptime, &off, &mark); err != nil {
		return 0, err
	}
	up, err := strconv.ParseUint(uptime, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the server's uptime: %w", err)
	}
	s.Database, s.frozen, s.mark = name.String, off.Int64 > 60, mark.String
	// Unsigned: once its clock was stepped to before its start, a server's
	// uptime wraps around, and so does the difference.
	return now - up, nil
}

// id is the server's lasting id: server_uuid in MySQL, server_uid in newer
// releases of MariaDB.
func (s *Server) id() string {
	for _, name := range []string{"server_uuid", "server_uid"} {
		if id := s.variables[name]; id != "" {
			return id
		}
	}
	return "server " + s.variables["server_id"]
}

// IsMariaDB reports whether the server is MariaDB, and not MySQL.
func (s *Server) IsMariaDB() bool { return strings.Contains(s.variables["version"], "MariaDB") }

// ManyWriters reports whether the server belongs to a cluster in which others
// take writes too (Galera, or Group Replication in multi-primary mode): there a
// lock does not block other nodes, and only a write conflicts with theirs.
func (s *Server) ManyWriters() bool {
	return s.IsGalera() || s.variables["group_replication_single_primary_mode"] == "OFF"
}

// isSinglePrimary reports whether the server belongs to a group (Group Replication) of which one member takes writes. It may be
// switched to many writers while it runs.
func (s *Server) isSinglePrimary() bool {
	return s.variables["group_replication_group_name"] != "" && s.variables["group_replication_single_primary_mode"] == "ON"
}

// IsGalera reports whether the server is a node of a cluster that others of its
// kind may be ahead of.
func (s *Server) IsGalera() bool { return s.variables["wsrep_on"] == "ON" }

// checkSession reports a setting of the session that is not what was set, as
// may be behind a proxy.
func (s *Server) checkSession() error {
	const cure = "connect to the server itself, or make what is in between keep session settings"
	switch {
	case s.variables["autocommit"] != "ON":
		return fmt.Errorf("%w: autocommit is off and could not be set: %s", lease.ErrSetup, cure)
	case !strings.Contains(s.variables["sql_mode"], "STRICT_TRANS_TABLES"):
		return fmt.Errorf("%w: sql_mode is %q without STRICT_TRANS_TABLES and could not be set: %s", lease.ErrSetup, s.variables["sql_mode"], cure)
	case s.variables["time_zone"] != "+00:00":
		return fmt.Errorf("%w: time_zone is %q and could not be set: %s", lease.ErrSetup, s.variables["time_zone"], cure)
	case s.isolation() != "READ-COMMITTED":
		return fmt.Errorf("%w: the isolation level is %s and could not be set: %s", lease.ErrSetup, s.isolation(), cure)
	case s.frozen:
		return fmt.Errorf("%w: the session's clock was frozen by SET timestamp: remove that from the DSN and from init_connect", lease.ErrSetup)
	case s.Database == "":
		return fmt.Errorf("%w: the connection has no database: name one in the DSN", lease.ErrSetup)
	}
	return nil
}

// Snapshots reports whether the server has [snapshotIsolation].
func (s *Server) Snapshots() bool { return s.variables[snapshotIsolation] != "" }

// Version is the server's version, as it says.
func (s *Server) Version() string {
	return s.variables["version"] + " " + s.variables["version_comment"]
}

func (s *Server) isolation() string {
	if level := s.variables["transaction_isolation"]; level != "" {
		return level
	}
	return s.variables["tx_isolation"]
}

// Check reports what keeps the server from keeping the guarantees.
func (s *Server) Check() error {
	if err := s.checkVersion(); err != nil {
		return err
	}
	if name := s.readOnly(); name != "" {
		return fmt.Errorf("%w: the server has %s = %s: use the primary, or SET GLOBAL %s = OFF if this is it", lease.ErrNotReady, name, s.variables[name], name)
	}
	if s.variables["log_bin"] == "ON" && s.variables["binlog_format"] == "STATEMENT" {
		return fmt.Errorf("%w: the server has binlog_format = STATEMENT, which forbids writes in READ COMMITTED: set it to ROW or MIXED", lease.ErrSetup)
	}
	if s.isSinglePrimary() && s.variables["group_replication_consistency"] == "EVENTUAL" {
		return fmt.Errorf("%w: the group's members have group_replication_consistency = EVENTUAL, with which a new primary answers before it has applied what the former one committed: SET PERSIST group_replication_consistency = BEFORE_ON_PRIMARY_FAILOVER on each",
			lease.ErrSetup)
	}
	return nil
}

// readOnly names a setting that keeps the server from writing, if one does.
func (s *Server) readOnly() string {
	for _, name := range []string{"super_read_only", "read_only", "innodb_read_only"} {
		// MariaDB 12 has more values than ON.
		if value := s.variables[name]; value != "" && value != "OFF" {
			return name
		}
	}
	return ""
}

// checkVersion wants MySQL 8.0.19, the first with VALUES ROW(), or MariaDB 10.6.
func (s *Server) checkVersion() error {
	version := s.variables["version"]
	kind, least := "MySQL", []int{8, 0, 19}
	if s.IsMariaDB() {
		kind, least = "MariaDB", []int{10, 6, 0}
	}
	got := make([]int, 3)
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &got[0], &got[1], &got[2]); err != nil {
		return errors.New("the server's version is not understood: " + strconv.Quote(version))
	}
	if slices.Compare(got, least) < 0 {
		return fmt.Errorf("%w: the server is %s %s: at least %d.%d.%d is needed", lease.ErrSetup, kind, version, least[0], least[1], least[2])
	}
	return nil
}

// CheckServer asks the connection's server again, which may not be what it was when
// the connection was opened, and refuses one that cannot keep the guarantees.
func (p *Pool) CheckServer(ctx context.Context, c *Conn) error {
	now, err := readServer(ctx, c.conn)
	if err != nil {
		return err
	}
	if now.mark != c.Server.mark {
		return errShared
	}
	if err := now.Check(); err != nil {
		if p.several && now.readOnly() != "" {
			return unfit(now.readOnly()) // there is another host to ask
		}
		return err
	}
	return p.fit(&now)
}
