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
		"":                                                   {sqlverb.None, ""},
		"INSERT INTO a VALUES ('COMMIT')":                    {sqlverb.None, ""},
		"select 1":                                           {sqlverb.None, ""},
		"  \n(SELECT 1)":                                     {sqlverb.None, ""},
		"REPLACE INTO a VALUES (1)":                          {sqlverb.None, ""},
		"/* COMMIT */ UPDATE a SET b = 1":                    {sqlverb.None, ""},
		"-- COMMIT\nUPDATE a SET b = 1":                      {sqlverb.None, ""},
		"# COMMIT\nUPDATE a SET b = 1":                       {sqlverb.None, ""},
		"SAVEPOINT a":                                        {sqlverb.None, ""},
		"RELEASE SAVEPOINT a":                                {sqlverb.None, ""},
		"ROLLBACK TO a":                                      {sqlverb.None, ""},
		"ROLLBACK WORK TO SAVEPOINT a":                       {sqlverb.None, ""},
		"SET SESSION wait_timeout = 2":                       {sqlverb.None, ""},
		"SET TRANSACTION READ WRITE":                         {sqlverb.None, ""},
		"CREATE TEMPORARY TABLE a (b INT)":                   {sqlverb.None, ""},
		"create or replace temporary table a":                {sqlverb.None, ""},
		"DROP TEMPORARY TABLE a":                             {sqlverb.None, ""},
		"CREATE TEMPORARY SEQUENCE a":                        {sqlverb.Commits, "CREATE TEMPORARY SEQUENCE"},
		"create or replace temporary sequence a":             {sqlverb.Commits, "CREATE TEMPORARY SEQUENCE"},
		"CREATE TEMPORARY TABLE a LIKE b":                    {sqlverb.Opaque, "CREATE TEMPORARY TABLE"},
		"CREATE TEMPORARY TABLE a (b INT) SEQUENCE = 1":      {sqlverb.Opaque, "CREATE TEMPORARY TABLE"},
		"CREATE TEMPORARY TABLE a (b INT) START TRANSACTION": {sqlverb.Opaque, "CREATE TEMPORARY TABLE"},
		"CREATE TEMPORARY TABLE a (start INT, stop INT)":     {sqlverb.None, ""},
		"DROP TEMPORARY SEQUENCE a":                          {sqlverb.None, ""},
		"LOAD DATA INFILE 'a'":                               {sqlverb.None, ""},
		"ANALYZE SELECT 1":                                   {sqlverb.None, ""},
		"ANALYZE FORMAT=JSON UPDATE a SET b = 1":             {sqlverb.None, ""},
		"commit":                                             {sqlverb.Controls, "COMMIT"},
		"COMMIT;":                                            {sqlverb.Controls, "COMMIT"},
		" /* so */ Commit AND CHAIN":                         {sqlverb.Controls, "COMMIT"},
		"/*!80000 COMMIT */":                                 {sqlverb.Controls, "COMMIT"},
		"/*M!100000 COMMIT */":                               {sqlverb.Controls, "COMMIT"},
		"ROLLBACK":                                           {sqlverb.Controls, "ROLLBACK"},
		"ROLLBACK AND CHAIN":                                 {sqlverb.Controls, "ROLLBACK"},
		"END TRANSACTION":                                    {sqlverb.Controls, "END"},
		"BEGIN IMMEDIATE":                                    {sqlverb.Controls, "BEGIN"},
		"start  transaction":                                 {sqlverb.Controls, "START TRANSACTION"},
		"XA COMMIT 'a'":                                      {sqlverb.Controls, "XA"},
		"SET autocommit = 1":                                 {sqlverb.Controls, "SET autocommit"},
		"SET @@session.AutoCommit=1":                         {sqlverb.Controls, "SET autocommit"},
		"SET PASSWORD = 'a'":                                 {sqlverb.Commits, "SET PASSWORD"},
		"START REPLICA":                                      {sqlverb.Commits, "START REPLICA"},
		"CREATE TABLE a (b INT)":                             {sqlverb.Commits, "CREATE TABLE"},
		"create or replace table a":                          {sqlverb.Commits, "CREATE OR"},
		"DROP TABLE a":                                       {sqlverb.Commits, "DROP TABLE"},
		"TRUNCATE a":                                         {sqlverb.Commits, "TRUNCATE"},
		"LOCK TABLES a WRITE":                                {sqlverb.Commits, "LOCK"},
		"ANALYZE TABLE a":                                    {sqlverb.Commits, "ANALYZE"},
		"ANALYZE TABLES a":                                   {sqlverb.Commits, "ANALYZE"},
		"analyze local tables a":                             {sqlverb.Commits, "ANALYZE"},
		"ANALYZE":                                            {sqlverb.Commits, "ANALYZE"},
		"LOAD INDEX INTO CACHE a":                            {sqlverb.Commits, "LOAD INDEX"},
		"SET DEFAULT ROLE NONE":                              {sqlverb.Commits, "SET DEFAULT ROLE"},
		"BACKUP STAGE START":                                 {sqlverb.Commits, "BACKUP"},
		"CALL a()":                                           {sqlverb.Opaque, "CALL"},
		"EXECUTE IMMEDIATE 'COMMIT'":                         {sqlverb.Opaque, "EXECUTE"},
		"PREPARE a FROM 'COMMIT'":                            {sqlverb.Opaque, "PREPARE"},
		"/* so */ execute a USING @b":                        {sqlverb.Opaque, "EXECUTE"},
		"DEALLOCATE PREPARE a":                               {sqlverb.None, ""},
		"IF 1 THEN COMMIT; END IF":                           {sqlverb.Opaque, "IF"},
		"a: LOOP COMMIT; END LOOP a":                         {sqlverb.Opaque, "LOOP"},
		"SELECT REPEAT('a:', 3)":                             {sqlverb.None, ""},
		"REPLACE INTO a SELECT 'b: LOOP'":                    {sqlverb.None, ""},
		"SET STATEMENT max_statement_time = 5 FOR COMMIT":    {sqlverb.Controls, "SET STATEMENT ... FOR COMMIT"},
		"SET STATEMENT a = 'x FOR y' FOR DROP TABLE b":       {sqlverb.Commits, "SET STATEMENT ... FOR DROP TABLE"},
		"SET STATEMENT a = 1 FOR SET STATEMENT b = 2 FOR COMMIT": {sqlverb.Controls, "SET STATEMENT ... FOR SET STATEMENT ... FOR COMMIT"},
		"SET STATEMENT a = 1 FOR EXECUTE b":                      {sqlverb.Opaque, "SET STATEMENT ... FOR EXECUTE"},
		// An executable comment is read by some servers and skipped by others.
		"/*!999999 SELECT */ COMMIT":             {sqlverb.Controls, "COMMIT"},
		"/*!99999 SELECT */ COMMIT AND CHAIN":    {sqlverb.Controls, "COMMIT"},
		"/*M! SELECT */ START TRANSACTION":       {sqlverb.Controls, "START TRANSACTION"},
		"/*!99999 /* */ SELECT */ COMMIT":        {sqlverb.Opaque, "an executable comment"},
		"CREATE /*!99999 TEMPORARY */ TABLE a":   {sqlverb.Commits, "CREATE TABLE"},
		"ROLLBACK /*M! TO */":                    {sqlverb.Controls, "ROLLBACK"},
		"/*!50701 SELECT */ EXECUTE IMMEDIATE a": {sqlverb.Opaque, "EXECUTE"},
		"SELECT 1 /*!50701 + 1 */":               {sqlverb.Opaque, "an executable comment"},
		"SELECT 1 /*m!50701 + 1 */":              {sqlverb.Opaque, "an executable comment"},
		// What begins a comment does not in a string, and -- needs a blank.
		"SET @a='#', autocommit=0":                           {sqlverb.Controls, "SET autocommit"},
		"SET @a='/*', autocommit=0":                          {sqlverb.Controls, "SET autocommit"},
		"SET @a='it''s -- ', autocommit=0":                   {sqlverb.Controls, "SET autocommit"},
		"SET @a='\\'#', autocommit=0":                        {sqlverb.Controls, "SET autocommit"},
		"SET @a='\\', autocommit=0, @b=''":                   {sqlverb.Controls, "SET autocommit"},
		"SET @a=5--1, autocommit=0":                          {sqlverb.Controls, "SET autocommit"},
		"SET @@session.`autocommit`=0":                       {sqlverb.Controls, "SET autocommit"},
		"SET @a=1, PASSWORD='x'":                             {sqlverb.Commits, "SET PASSWORD"},
		"SET @a='autocommit'":                                {sqlverb.None, ""},
		"SET STATEMENT max_statement_time=100--1 FOR COMMIT": {sqlverb.Controls, "SET STATEMENT ... FOR COMMIT"},
		"SET STATEMENT character_set_results='#' FOR COMMIT": {sqlverb.Controls, "SET STATEMENT ... FOR COMMIT"},
		"`a b`: LOOP SET @x='\\''; COMMIT; END LOOP":         {sqlverb.Opaque, "LOOP"},
		"a /* : */ : BEGIN NOT ATOMIC COMMIT; END":           {sqlverb.Opaque, "BEGIN"},
		"--\nCOMMIT":      {sqlverb.Controls, "COMMIT"},
		"--\tx\nCOMMIT":   {sqlverb.Controls, "COMMIT"},
		"--x\nCOMMIT":     {sqlverb.Controls, "COMMIT"}, // a comment in SQLite
		"ROLLBACK --TO\n": {sqlverb.Controls, "ROLLBACK"},
		"-- x\rCOMMIT":    {sqlverb.None, ""},
		"/* /* */ COMMIT": {sqlverb.Controls, "COMMIT"},
		// What is not known may do anything.
		"DECLARE a INT; BEGIN COMMIT; END": {sqlverb.Opaque, "DECLARE"},
		"BINLOG 'x'":                       {sqlverb.Opaque, "BINLOG"},
		"SET STATEMENT innodb_snapshot_isolation = OFF FOR SELECT 1 FOR UPDATE":   {sqlverb.None, ""},
		"SET STATEMENT a = 1 FOR CREATE OR REPLACE TEMPORARY TABLE b (c INTEGER)": {sqlverb.None, ""},
	} {
		effect, words := sqlverb.Of(statement)
		if effect != want.effect || words != want.words {
			t.Errorf("%q: %v, %q, want %v, %q", statement, effect, words, want.effect, want.words)
		}
	}
}

func TestFills(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]bool{
		"":                                 false,
		"CREATE":                           false,
		"CREATE TEMPORARY":                 false,
		"TEMPORARY SELECT 1 AS `CREATE`":   false,
		"CREATE TEMPORARY TABLE":           false,
		"CREATE TEMPORARY TABLE a (b INT)": false,
		"CREATE TEMPORARY TABLE a LIKE b":  false,
		"CREATE TABLE a SELECT 1":          false,
		"DROP TEMPORARY TABLE a":           false,
		"SELECT 'CREATE TEMPORARY TABLE a SELECT 1'":                       false,
		"create temporary table a select 1":                                true,
		"CREATE OR REPLACE TEMPORARY TABLE a (b INT) AS (SELECT 1)":        true,
		"CREATE TEMPORARY TABLE a VALUES (1)":                              true,
		"CREATE TEMPORARY TABLE a TABLE b":                                 true,
		"CREATE TEMPORARY TABLE a WITH b AS (SELECT 1) TABLE b":            true,
		"CREATE /*!50000 TEMPORARY */ TABLE a /*M! SELECT 1 */":            true,
		"SET STATEMENT a = 1 FOR CREATE TEMPORARY TABLE b SELECT 1":        true,
		"DO 1; CREATE TEMPORARY TABLE a SELECT 1":                          true,
		"CREATE TEMPORARY TABLE a (b CHAR(9) DEFAULT '\\' ) SELECT 1 -- '": true,
	} {
		if got := sqlverb.Fills(statement); got != want {
			t.Errorf("%q: %v, want %v", statement, got, want)
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
		"SELECT 1 AS [']; COMMIT; SELECT 2 AS [']": {0, false, true},
		"SELECT 1 --'\n; COMMIT; SELECT 2 --'":     {0, false, false},
		"SELECT 1 /*! ' */; COMMIT; SELECT '1'":    {0, false, true},
		"SELECT '\\''; COMMIT; SELECT '\\''":       {0, false, false},
		"SELECT 1 -- it's\n; COMMIT":               {0, false, true},
	} {
		n, one, known := sqlverb.Placeholders(statement)
		if n != want.n || one != want.one || known != want.known {
			t.Errorf("%q: %d, %v, %v, want %+v", statement, n, one, known, want)
		}
	}
}

func TestSavepoint(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]bool{
		"SAVEPOINT a": true, "/* so */ savepoint a": true, "--x\nSAVEPOINT a": true,
		"": false, "RELEASE SAVEPOINT a": false, "ROLLBACK TO SAVEPOINT a": false, "SELECT 'SAVEPOINT a'": false,
	} {
		if got := sqlverb.Savepoint(statement); got != want {
			t.Errorf("%q: %v", statement, got)
		}
	}
}
