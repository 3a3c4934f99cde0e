package sqlverb_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/sqlverb"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]struct {
		effect sqlverb.Effect
		words  string
	}{
		"":                                    {sqlverb.None, ""},
		"INSERT INTO a VALUES ('COMMIT')":     {sqlverb.None, ""},
		"select 1":                            {sqlverb.None, ""},
		"  \n(SELECT 1)":                      {sqlverb.None, ""},
		"REPLACE INTO a VALUES (1)":           {sqlverb.None, ""},
		"/* COMMIT */ UPDATE a SET b = 1":     {sqlverb.None, ""},
		"-- COMMIT\nUPDATE a SET b = 1":       {sqlverb.None, ""},
		"# COMMIT\nUPDATE a SET b = 1":        {sqlverb.None, ""},
		"SAVEPOINT a":                         {sqlverb.None, ""},
		"RELEASE SAVEPOINT a":                 {sqlverb.None, ""},
		"ROLLBACK TO a":                       {sqlverb.None, ""},
		"ROLLBACK WORK TO SAVEPOINT a":        {sqlverb.None, ""},
		"SET SESSION wait_timeout = 2":        {sqlverb.None, ""},
		"SET TRANSACTION READ WRITE":          {sqlverb.None, ""},
		"CREATE TEMPORARY TABLE a (b INT)":    {sqlverb.None, ""},
		"create or replace temporary table a": {sqlverb.None, ""},
		"DROP TEMPORARY TABLE a":              {sqlverb.None, ""},
		"LOAD DATA INFILE 'a'":                {sqlverb.None, ""},
		"ANALYZE SELECT 1":                    {sqlverb.None, ""},
		"commit":                              {sqlverb.Controls, "COMMIT"},
		"COMMIT;":                             {sqlverb.Controls, "COMMIT"},
		" /* so */ Commit AND CHAIN":          {sqlverb.Controls, "COMMIT"},
		"/*!80000 COMMIT */":                  {sqlverb.Controls, "COMMIT"},
		"/*M!100000 COMMIT */":                {sqlverb.Controls, "COMMIT"},
		"ROLLBACK":                            {sqlverb.Controls, "ROLLBACK"},
		"ROLLBACK AND CHAIN":                  {sqlverb.Controls, "ROLLBACK"},
		"END TRANSACTION":                     {sqlverb.Controls, "END"},
		"BEGIN IMMEDIATE":                     {sqlverb.Controls, "BEGIN"},
		"start  transaction":                  {sqlverb.Controls, "START TRANSACTION"},
		"XA COMMIT 'a'":                       {sqlverb.Controls, "XA"},
		"SET autocommit = 1":                  {sqlverb.Controls, "SET autocommit"},
		"SET @@session.AutoCommit=1":          {sqlverb.Controls, "SET autocommit"},
		"SET PASSWORD = 'a'":                  {sqlverb.Commits, "SET PASSWORD"},
		"START REPLICA":                       {sqlverb.Commits, "START REPLICA"},
		"CREATE TABLE a (b INT)":              {sqlverb.Commits, "CREATE TABLE"},
		"create or replace table a":           {sqlverb.Commits, "CREATE OR"},
		"DROP TABLE a":                        {sqlverb.Commits, "DROP TABLE"},
		"TRUNCATE a":                          {sqlverb.Commits, "TRUNCATE"},
		"LOCK TABLES a WRITE":                 {sqlverb.Commits, "LOCK"},
		"ANALYZE TABLE a":                     {sqlverb.Commits, "ANALYZE"},
		"LOAD INDEX INTO CACHE a":             {sqlverb.Commits, "LOAD INDEX"},
	} {
		effect, words := sqlverb.Of(statement)
		if effect != want.effect || words != want.words {
			t.Errorf("%q: %v, %q, want %v, %q", statement, effect, words, want.effect, want.words)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]struct {
		n          int
		one, known bool
	}{
		"":                                  {0, true, true},
		"SELECT 1":                          {0, true, true},
		"INSERT INTO a VALUES (?, ?)":       {2, true, true},
		"INSERT INTO a VALUES ('?', \"?\")": {0, true, true},
		"INSERT INTO a VALUES ('it''s ?')":  {0, true, true},
		"SELECT `?` /* ? */ -- ?\n, ? # ?":  {1, true, true},
		"SELECT /*!80000 ? */":              {1, true, true},
		"SELECT '\\' ?":                     {1, true, false},
		"SELECT ?1":                         {1, true, false},
		"SELECT :name":                      {0, true, false},
		"SELECT 5--?":                       {1, true, false},
		"SELECT a::b":                       {0, true, false},
		"SELECT 1 ; ":                       {0, true, true},
		"SELECT 1; -- so":                   {0, true, true},
		"SELECT 1; SELECT 2":                {0, false, true},
		"SELECT ';'; COMMIT":                {0, false, true},
		"SELECT 1 -- it's\n; COMMIT":        {0, false, true},
	} {
		n, one, known := sqlverb.Placeholders(statement)
		if n != want.n || one != want.one || known != want.known {
			t.Errorf("%q: %d, %v, %v, want %+v", statement, n, one, known, want)
		}
	}
}
