package mysqlstore

import (
	"strings"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// tables are the names of a store's tables: with this prefix, which has been
// checked to need no escaping. All statements are in the common subset of MySQL
// 8.0 and MariaDB 10.6.
type tables struct{ prefix string }

// common are parts of many statements: tables, "columns" that a row is inserted with, and "fields" that a query reads of it.
var common = func() *strings.Replacer {
	parts := []string{
		"{epoch}", "TIMESTAMP'1970-01-01 00:00:00.000000'",
		"{run columns}", "grp, " + runFields.names(", "), "{run fields}", runFields.list("r"),
		"{job columns}", "grp, " + jobFields.names(", "), "{job fields}", jobFields.list("j"),
		"{audit columns}", "grp, " + entryFields.names(", "), "{audit fields}", entryFields.list("e"),
		"{term columns}", "grp, " + termFields.names(", "), "{term fields}", termFields.list("t"),
		"{attempt columns}", "grp, job, tick, trigger_id, claimed_at, " + attemptFields.names(", "), "{attempt fields}", attemptFields.list("a"),
	}
	for _, table := range []string{"lease", "fence", "run", "job", "lock", "schema", "replica", "audit", "term", "attempt"} {
		parts = append(parts, "{"+table+"}", tables{"{prefix}"}.quoted(table))
	}
	return strings.NewReplacer(parts...)
}()

// quoted is a table's name as statements have it.
func (t tables) quoted(table string) string { return "`" + t.prefix + table + "`" }

// replace puts the tables' names, and other parts by their names, into a statement.
// A part may itself have common parts.
func (t tables) replace(statement string, parts ...string) string {
	if len(parts) > 0 {
		statement = strings.NewReplacer(parts...).Replace(statement)
	}
	return strings.ReplaceAll(common.Replace(statement), "{prefix}", t.prefix)
}

// query reads a statement in which tables, and other parts, have names in braces.
func (t tables) query(statement string, parts ...string) sqltext.Query {
	return sqltext.Parse(t.replace(statement, parts...))
}
