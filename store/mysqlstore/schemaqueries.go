package mysqlstore

import "github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"

// schemaQueries are the statements of Migrate and Check.
type schemaQueries struct {
	engines       sqltext.Query
	shape         sqltext.Query
	version       sqltext.Query
	oldVersion    sqltext.Query
	createSchema  sqltext.Query
	addLevel      sqltext.Query
	insertVersion sqltext.Query
	setLevel      sqltext.Query
	floorRow      sqltext.Query
	shareRow      sqltext.Query
	writeRow      sqltext.Query
	probes        []sqltext.Query

	// Those of Examine.
	where         sqltext.Query
	whereLocked   sqltext.Query
	inUse         sqltext.Query
	opened        sqltext.Query // what the last term of a group has declared
	anyGroup      sqltext.Query
	lockable      map[string]sqltext.Query // by the name of a table
	lateLeases    sqltext.Query
	lateRows      []sqltext.Query
	textNames     sqltext.Query
	hiddenMySQL   sqltext.Query
	hiddenMariaDB sqltext.Query
	sizes         sqltext.Query
	lastDay       sqltext.Query
}

func newSchemaQueries(t tables) *schemaQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &schemaQueries{
		engines: sql(`
SELECT table_name, engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN ('{prefix}lease', '{prefix}fence', '{prefix}run', '{prefix}job', '{prefix}lock', '{prefix}replica',
	'{prefix}audit', '{prefix}term', '{prefix}attempt')`),
		// Columns, which have no key's name, come before keys.
		shape: sql(`
SELECT table_name, '', column_name, 0 AS place FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name IN (?)
UNION ALL
SELECT table_name, index_name, column_name, seq_in_index FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name IN (?)
ORDER BY 1, 2, place`),
		version:    sql(`SELECT COALESCE(MAX(version), 0), COALESCE(GREATEST(MAX(version), MAX(level)), 0) FROM {schema}`),
		oldVersion: sql(`SELECT COALESCE(MAX(version), 0), COALESCE(MAX(version), 0) FROM {schema}`),
		// The newest version is the least that a program has to know; see
		// [migrations.Step]. The level is the newest step.
		createSchema: sql(`
CREATE TABLE IF NOT EXISTS {schema} (
	version    INT UNSIGNED NOT NULL,
	applied_at DATETIME(6)  NOT NULL,
	level      INT UNSIGNED NOT NULL DEFAULT 0,
	PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`),
		addLevel: sql(`ALTER TABLE {schema} ADD COLUMN level INT UNSIGNED NOT NULL DEFAULT 0, LOCK=NONE`),
		floorRow: sql(`SELECT COUNT(*) FROM {lock} WHERE name = _binary''`),
		// The two sides of [schema.proveLocks].
		shareRow: sql(`SELECT COUNT(*) FROM {lock} WHERE name = _binary'' LOCK IN SHARE MODE`),
		writeRow: sql(`SELECT version FROM {lock} WHERE name = _binary'' FOR UPDATE NOWAIT`),

		setLevel: sql(`UPDATE {schema} SET level = GREATEST(level, ?) ORDER BY version DESC LIMIT 1`),
		insertVersion: sql(`
INSERT INTO {schema} (version, applied_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE version = {schema}.version`),
		probes: probesOf(t),

		where:       sql(`SELECT CONCAT_WS('/', @@server_id, @@hostname, @@port)`),
		whereLocked: sql(`SELECT CONCAT_WS('/', @@server_id, @@hostname, @@port) FROM {lock} WHERE name = _binary'' LOCK IN SHARE MODE`),
		opened:      sql(`SELECT schedule FROM {job} WHERE grp = ? AND name = _binary''`),
		inUse: sql(`
SELECT DISTINCT grp, FALSE FROM {replica} WHERE part = 0 AND grp > _binary'' AND seen_at > UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
UNION ALL
SELECT name, TRUE FROM {lease} WHERE released = 0 AND owner > _binary'' AND name NOT LIKE 'locks/%' AND renewed_at > UTC_TIMESTAMP(6) - INTERVAL 2 * ttl_us MICROSECOND`),
		anyGroup: sql(`SELECT name FROM {lease} ORDER BY renewed_at DESC LIMIT 1`),
		// Each needs the same lock of its table as a write, and no row. They need no other grants than workers have, so
		// that one table is left out, which workers only read.
		lockable: map[string]sqltext.Query{
			"lease":   sql(`SELECT 1 FROM {lease} WHERE FALSE FOR UPDATE`),
			"fence":   sql(`SELECT 1 FROM {fence} WHERE FALSE FOR UPDATE`),
			"run":     sql(`SELECT 1 FROM {run} WHERE FALSE FOR UPDATE`),
			"job":     sql(`SELECT 1 FROM {job} WHERE FALSE FOR UPDATE`),
			"lock":    sql(`SELECT 1 FROM {lock} WHERE FALSE FOR UPDATE`),
			"replica": sql(`SELECT 1 FROM {replica} WHERE FALSE FOR UPDATE`),
			"audit":   sql(`SELECT 1 FROM {audit} WHERE FALSE FOR UPDATE`),
			"term":    sql(`SELECT 1 FROM {term} WHERE FALSE FOR UPDATE`),
			"attempt": sql(`SELECT 1 FROM {attempt} WHERE FALSE FOR UPDATE`),
		},
		// Leases that are not renewed, the newest first: no heartbeat waits when their rows are locked for a moment.
		lateLeases: sql(`SELECT name FROM {lease} WHERE renewed_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND ORDER BY renewed_at DESC LIMIT 10`),
		lateRows: []sqltext.Query{
			sql(`SELECT COUNT(*) FROM {lease} WHERE name = ? FOR UPDATE`),
			sql(`SELECT COUNT(*) FROM {fence} WHERE name = ? FOR UPDATE`),
		},
		textNames: sql(`
SELECT GROUP_CONCAT(CONCAT(table_name, '.', column_name) ORDER BY table_name, column_name SEPARATOR ', ') FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name IN (?) AND column_name IN ('name', 'grp', 'job', 'owner') AND data_type <> 'varbinary'`),
		hiddenMySQL: sql(`
SELECT DISTINCT table_name, index_name FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name LIKE '{prefix}%' AND is_visible = 'NO' ORDER BY 1, 2`),
		hiddenMariaDB: sql(`
SELECT DISTINCT table_name, index_name FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name LIKE '{prefix}%' AND ignored = 'YES' ORDER BY 1, 2`),
		// MySQL answers with figures of up to a day ago otherwise. MariaDB takes the
		// hint for a comment.
		sizes: sql(`
SELECT /*+ SET_VAR(information_schema_stats_expiry = 0) */ table_name, COALESCE(table_rows, 0),
	COALESCE(data_length + index_length, 0), COALESCE(data_free, 0)
FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE '{prefix}%' ORDER BY table_name`),
		lastDay: sql(`
SELECT COUNT(*) FROM (SELECT r.tick FROM {lease} l STRAIGHT_JOIN {run} r FORCE INDEX (by_state)
	ON r.grp = l.name AND r.state IN (3, 4, 5, 6, 7, 8, 9) AND r.tick >= ? LIMIT ?) d`),
	}
}

// probesOf are statements that do nothing and need the privileges of docs/database.md, but for those that the probes of leases need.
func probesOf(t tables) (probes []sqltext.Query) {
	ask := func(statements ...string) {
		for _, statement := range statements {
			probes = append(probes, t.query(statement))
		}
	}
	ask(`DELETE FROM {lease} WHERE FALSE`, `DELETE FROM {fence} WHERE FALSE`)
	ask(`SELECT queue FROM {lock} WHERE FALSE`, `UPDATE {lock} SET version = 0 WHERE FALSE`, `DELETE FROM {lock} WHERE FALSE`,
		`INSERT INTO {lock} (name, version, queue, written_at) SELECT _binary'', 0, _binary'', UTC_TIMESTAMP(6) FROM DUAL WHERE FALSE`)
	for _, table := range []string{"{job}", "{run}", "{replica}", "{term}", "{attempt}", "{audit}"} {
		ask("SELECT * FROM "+table+" WHERE FALSE", "INSERT INTO "+table+" SELECT * FROM "+table+" WHERE FALSE", "DELETE FROM "+table+" WHERE FALSE")
		if table != "{audit}" { // whose rows do not change
			ask("UPDATE " + table + " SET grp = grp WHERE FALSE")
		}
	}
	return probes
}
