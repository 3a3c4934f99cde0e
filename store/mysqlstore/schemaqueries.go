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
}

func newSchemaQueries(t tables) *schemaQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &schemaQueries{
		engines: sql(`
SELECT table_name, engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN ('{prefix}lease', '{prefix}fence', '{prefix}run', '{prefix}job', '{prefix}lock', '{prefix}replica')`),
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
		addLevel: sql(`ALTER TABLE {schema} ADD COLUMN level INT UNSIGNED NOT NULL DEFAULT 0`),
		floorRow: sql(`SELECT COUNT(*) FROM {lock} WHERE name = _binary''`),
		// The two sides of [schema.proveLocks].
		shareRow: sql(`SELECT COUNT(*) FROM {lock} WHERE name = _binary'' LOCK IN SHARE MODE`),
		writeRow: sql(`SELECT version FROM {lock} WHERE name = _binary'' FOR UPDATE NOWAIT`),

		setLevel: sql(`UPDATE {schema} SET level = GREATEST(level, ?) ORDER BY version DESC LIMIT 1`),
		insertVersion: sql(`
INSERT INTO {schema} (version, applied_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE version = {schema}.version`),
		// What the rest of Check does not ask for: what pruning and locks need.
		probes: []sqltext.Query{
			sql(`DELETE FROM {lease} WHERE FALSE`),
			sql(`DELETE FROM {fence} WHERE FALSE`),
			sql(`DELETE FROM {run} WHERE FALSE`),
			sql(`DELETE FROM {job} WHERE FALSE`),
			sql(`DELETE FROM {lock} WHERE FALSE`),
			sql(`SELECT jobs FROM {replica} WHERE FALSE`),
			sql(`INSERT INTO {replica} (grp, owner, part, parts, list, version, since, seen_at, jobs) SELECT _binary'', _binary'', 0, 0, 0, _binary'', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), _binary'' FROM DUAL WHERE FALSE`),
			sql(`SELECT queue FROM {lock} WHERE FALSE`),
			sql(`UPDATE {lock} SET version = 0 WHERE FALSE`),
			sql(`INSERT INTO {lock} (name, version, queue, written_at) SELECT _binary'', 0, _binary'', UTC_TIMESTAMP(6) FROM DUAL WHERE FALSE`),
		},
	}
}
