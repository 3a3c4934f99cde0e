package fence_test

import (
	"database/sql"
	"testing"

	"github.com/cronlease/cronlease/internal/sqlverb"
)

// nearMisses are statements that come close to one that commits. Some servers refuse some of them.
var nearMisses = []string{
	"DROP TEMPORARY TABLE IF EXISTS nosuch", "DROP TEMPORARY TABLES IF EXISTS nosuch", "DROP TEMPORARY SEQUENCE IF EXISTS nosuch", "CREATE TEMPORARY TABLE x1 (a INT)",
	"CREATE OR REPLACE TEMPORARY TABLE x1 (a INT)", "CREATE TEMPORARY TABLE IF NOT EXISTS x2 AS SELECT 1 AS b", "CREATE TEMPORARY TABLE x3 (a INT) ENGINE=MyISAM",
	"CREATE TEMPORARY TABLE x4 (a INT) ENGINE=Aria", "CREATE TEMPORARY TABLE x5 (a INT) PARTITION BY HASH(a)", "CREATE TEMPORARY TABLE x6 (start INT)", "CREATE TEMPORARY VIEW v AS SELECT 1",
	"CHECKSUM TABLE near", "CHECKSUM TABLES near EXTENDED", "HANDLER near OPEN", "HELP 'select'", "KILL QUERY 999999", "SHOW TABLES", "SHOW CREATE TABLE near", "SHOW OPEN TABLES",
	"SHOW BINARY LOGS", "DO RELEASE_LOCK('x')", "DO RELEASE_ALL_LOCKS()", "VALUES ROW(1)", "TABLE near", "WITH q AS (SELECT 1) SELECT * FROM q", "INSERT DELAYED INTO near (a) VALUES (3)",
	"DELETE HISTORY FROM near", "EXPLAIN UPDATE near SET a = 1", "EXPLAIN ANALYZE SELECT 1", "EXPLAIN FOR CONNECTION 1", "DESC near", "ANALYZE SELECT 1", "ANALYZE UPDATE near SET a = 5",
	"ANALYZE FORMAT=JSON DELETE FROM near WHERE a = 77", "ANALYZE TABLES near", "ANALYZE LOCAL TABLES near", "ANALYZE NO_WRITE_TO_BINLOG TABLES near", "SIGNAL SQLSTATE '45000'",
	"SET time_zone = '+01:00'", "SET @x = 1", "SET ROLE NONE", "SET TRANSACTION READ ONLY", "SET completion_type = 0", "SET STATEMENT max_statement_time = 1 FOR SELECT 1",
	"SELECT 1 INTO @y", "REPLACE INTO near VALUES (1)", "LOAD DATA INFILE '/nosuch' INTO TABLE near", "LOAD XML INFILE '/nosuch' INTO TABLE near",
}

// sqlverb knows each statement before which a server commits: a guard would let it pass otherwise.
func TestWhatCommitsIsKnown(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.exec("CREATE TABLE near (a INT)")
		for i, text := range nearMisses {
			if effect, _ := sqlverb.Of(text); effect == sqlverb.Commits || effect == sqlverb.Controls {
				continue
			}
			tx, err := s.db.BeginTx(soon(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(soon(t), "INSERT INTO effect (id, token) VALUES (?, 1)", 1000+i); err != nil {
				t.Fatal(err)
			}
			_, _ = tx.ExecContext(soon(t), text) // which some refuse
			_ = tx.Rollback()
			var stored int
			if err := s.db.QueryRowContext(soon(t), "SELECT COUNT(*) FROM effect WHERE id = ?", 1000+i).Scan(&stored); err != nil && err != sql.ErrNoRows {
				t.Fatal(err)
			}
			if stored > 0 {
				t.Errorf("%s commits", text)
			}
		}
	})
}
