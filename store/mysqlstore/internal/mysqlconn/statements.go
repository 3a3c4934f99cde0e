package mysqlconn

import "github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"

const (
	// setNames comes first: some character sets leave no other statement as it
	// was meant.
	setNames = `SET NAMES utf8mb4`

	// rollback ends a transaction that init_connect, or the program whose pool it is, has left
	// open: SET autocommit = 1 does not, and each statement would wait for its COMMIT. It comes
	// after setSession, since completion_type may be CHAIN.
	rollback = `ROLLBACK`

	// setGalera is for nodes of Galera: statements of all sorts (1, 2 and 4) wait
	// until what was committed on any node before is there, so that connections
	// may be of different nodes.
	setGalera = `SET wsrep_sync_wait = 7`

	// latestRows is for servers that know snapshotIsolation.
	latestRows = `SET innodb_snapshot_isolation = OFF`

	showVariables = `SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'hostname', 'port', 'server_id',
	'server_uuid', 'server_uid', 'autocommit', 'sql_mode', 'time_zone', 'transaction_isolation', 'tx_isolation',
	'max_connections', 'max_user_connections', 'innodb_lock_wait_timeout', 'read_only', 'super_read_only',
	'innodb_read_only', 'log_bin', 'binlog_format',
	'wsrep_on', 'group_replication_single_primary_mode', 'group_replication_group_name',
	'group_replication_consistency', 'innodb_snapshot_isolation')`

	// started: Uptime is the time of this statement less the time of the
	// server's start, so that their difference is exactly that second, also
	// after the clock was stepped. The last column is far from zero when
	// SET timestamp has frozen the session's clock.
	startedMySQL = `SELECT DATABASE(), UNIX_TIMESTAMP(), variable_value,
	ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), SYSDATE())), @cronlease_session
	FROM performance_schema.global_status WHERE variable_name = 'Uptime'`
	startedMariaDB = `SELECT DATABASE(), UNIX_TIMESTAMP(), variable_value,
	ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), SYSDATE())), @cronlease_session
	FROM information_schema.global_status WHERE variable_name = 'UPTIME'`

	// serverName tells one server from another. Copies of a machine may share an id, and
	// servers of one machine its name.
	serverName = `SELECT CONCAT_WS('/', @@global.server_id, @@global.hostname, @@global.port, @@global.datadir)`

	// readOnly is what the next two have in common.
	readOnly = `SELECT CONCAT_WS(' and ',
	IF(CAST(@@global.read_only AS CHAR) IN ('0', 'OFF'), NULL, 'read_only'),
	IF(CAST(@@global.innodb_read_only AS CHAR) IN ('0', 'OFF'), NULL, 'innodb_read_only')`

	// readOnlySettings names the settings that keep the server from writing, and
	// is empty when none does. super_read_only is never on without read_only,
	// which has more values than ON in MariaDB 12.
	readOnlySettings = readOnly + `)`

	// whyUnfit is readOnlySettings for a server that may be a node of Galera. One that has no
	// majority answers this, and refuses each statement that uses a table; one of Percona
	// refuses this, too. Some MariaDB servers have no variable wsrep_on to name.
	whyUnfit = readOnly + `
	/*M! , (SELECT 'wsrep_ready' FROM information_schema.global_variables v JOIN information_schema.global_status s
		WHERE v.variable_name = 'WSREP_ON' AND v.variable_value = 'ON' AND s.variable_name = 'WSREP_READY' AND s.variable_value <> 'ON') */)`

	// noPrimary is readOnlySettings for a member of a group that had a single primary: the name of the mode, too, if it has several now.
	noPrimary = readOnly + `,
	IF(CAST(@@global.group_replication_single_primary_mode AS CHAR) IN ('1', 'ON'), NULL, 'group_replication_single_primary_mode'))`
)

var (
	// setSession makes a connection fit for the store, whatever the server's
	// defaults and the DSN say. The comments are for one kind of server each:
	// no time limits for statements, and long lists of names that are never given up for a
	// scan. On MariaDB, a transaction of a process that stands still ends after 2 s.
	setSession = sqltext.Parse(`SET autocommit = 1, completion_type = 0, time_zone = '+00:00',
	sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',
	innodb_lock_wait_timeout = ?, lock_wait_timeout = ?, wait_timeout = 2147483,
	@cronlease_session = ?, sql_safe_updates = 0, sql_big_selects = 1, sql_select_limit = 18446744073709551615
	/*!80000 , transaction_isolation = 'READ-COMMITTED', transaction_read_only = 0, max_execution_time = 0, range_optimizer_max_mem_size = 0 */
	/*M! , tx_isolation = 'READ-COMMITTED', tx_read_only = 0, idle_transaction_timeout = 2, idle_write_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, max_statement_time = 0, in_predicate_conversion_threshold = 0, optimizer_max_sel_arg_weight = 0 */`)
)
