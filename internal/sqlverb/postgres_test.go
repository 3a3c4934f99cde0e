package sqlverb_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/sqlverb"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		controls     string
		placeholders int
		one          bool
	}{
		"":                            {"", 0, true},
		"DELETE FROM a WHERE b < $1;": {"", 1, true},
		"INSERT INTO a VALUES ($2, $1, $2) -- $3":      {"", 2, true},
		"SELECT '$1', \"$2\", a$3, E'\\'$4', $5::text": {"", 5, true},
		"SELECT 'it''s $1'":                            {"", 0, true},
		"SELECT '\\'; COMMIT":                          {"", 0, false},
		"SELECT E'\\'; COMMIT":                         {"", 0, true},
		"DO $$ BEGIN PERFORM 1; PERFORM $1; END $$":    {"", 0, true},
		"DO $x$ BEGIN; $$ ; $y$ END $x$; SELECT 1":     {"", 0, false},
		"SELECT $1$2":                                  {"", 2, true},
		"SELECT 1 /* ; /* ; */ ; */":                   {"", 0, true},
		"SELECT 1 /*/ ; */":                            {"", 0, true},
		"SELECT 1 /* open":                             {"", 0, true},
		"SELECT '{}'::jsonb ? 'a', '[]'::json #> '{}'": {"", 0, true},
		"SELECT '{}'::json #> '{}'; COMMIT":            {"", 0, false},
		"TRUNCATE a":                                   {"", 0, true},
		"MERGE INTO a USING b ON true":                 {"", 0, true},
		"PREPARE a AS SELECT 1":                        {"", 0, true},
		"PREPARE TRANSACTION 'a'":                      {"PREPARE TRANSACTION", 0, true},
		"ROLLBACK TO a":                                {"", 0, true},
		"ROLLBACK WORK TO SAVEPOINT a":                 {"", 0, true},
		"rollback and chain":                           {"ROLLBACK", 0, true},
		"/* a /* b */ */ -- c\n End":                   {"END", 0, true},
		"Start transaction":                            {"START", 0, true},
		"SELECT $tag":                                  {"", 0, true},
		"SELECT é$1":                                   {"", 0, true},
		"SELECT 'open":                                 {"", 0, true},
		"SELECT e'open\\":                              {"", 0, true},
	} {
		controls, placeholders, one := sqlverb.Postgres(text)
		if controls != want.controls || placeholders != want.placeholders || one != want.one {
			t.Errorf("%q: %q, %d placeholders, one: %v, want %+v", text, controls, placeholders, one, want)
		}
	}
}
