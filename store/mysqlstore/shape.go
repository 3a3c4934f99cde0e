package mysqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// shape is what a table has at the newest version: its columns, and its keys with
// their columns. A test compares it with what the migrations make.
type shape struct {
	columns string            // separated by spaces
	keys    map[string]string // by name: columns, separated by spaces
}

// shapes are those of all tables, by name without prefix. A table may have more,
// from a later version.
var shapes = map[string]shape{
	"lease": {
		"name owner token heartbeat renewed_at ttl_us released resign_asked",
		map[string]string{"PRIMARY": "name"},
	},
	"fence": {
		"name owner token checks",
		map[string]string{"PRIMARY": "name"},
	},
	"run": {
		"grp " + runFields.names(" "),
		map[string]string{"PRIMARY": "grp job tick trigger_id", "by_state": "grp state tick job trigger_id"},
	},
	"job": {
		"grp " + jobFields.names(" "),
		map[string]string{"PRIMARY": "grp name"},
	},
	"lock": {
		"name version queue written_at idle_at",
		map[string]string{"PRIMARY": "name", "by_idle": "idle_at"},
	},
	"replica": {
		"grp owner part parts list version since seen_at jobs",
		map[string]string{"PRIMARY": "grp owner part"},
	},
	"audit": {
		"grp " + entryFields.names(" "),
		map[string]string{"PRIMARY": "id", "by_group": "grp id", "by_job": "grp job id"},
	},
	"term": {
		"grp " + termFields.names(" "),
		map[string]string{"PRIMARY": "grp token"},
	},
	"attempt": {
		"grp job tick trigger_id claimed_at " + attemptFields.names(" "),
		map[string]string{"PRIMARY": "grp job tick trigger_id attempt"},
	},
	"schema": {
		"version applied_at level",
		map[string]string{"PRIMARY": "version"},
	},
}

// gap is something that a table lacks.
type gap struct {
	table string // with its prefix
	what  string // "column c", "key k (c, d)", or empty for the table itself
	cure  string // a statement that makes it; empty when there is none
}

func (g gap) String() string {
	if g.what == "" {
		return "there is no table " + g.table
	}
	return fmt.Sprintf("table %s has no %s", g.table, g.what)
}

// present is what the database says of its tables, by table in lower case: some
// servers keep names so.
type present struct {
	columns map[string]map[string]bool   // by table
	keys    map[string]map[string]string // by table and key: columns, separated by spaces
}

// gaps returns what the tables lack, by table and name.
func (s *schema) gaps(ctx context.Context, c *conn) ([]gap, error) {
	have, err := s.readShape(ctx, c)
	if err != nil {
		return nil, err
	}
	var gaps []gap
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		table, want := s.tables.prefix+name, shapes[name]
		columns := have.columns[strings.ToLower(table)]
		if columns == nil {
			gaps = append(gaps, gap{table: table})
			continue
		}
		for column := range strings.FieldsSeq(want.columns) {
			if !columns[column] {
				gaps = append(gaps, gap{table: table, what: "column " + column})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(want.keys)) {
			if have.keys[strings.ToLower(table)][key] == want.keys[key] {
				continue
			}
			list := strings.ReplaceAll(want.keys[key], " ", ", ")
			cure := fmt.Sprintf("ALTER TABLE `%s` ADD KEY %s (%s), LOCK=NONE", table, key, list)
			if key == "PRIMARY" {
				cure = fmt.Sprintf("ALTER TABLE `%s` ADD PRIMARY KEY (%s), LOCK=NONE", table, list)
			}
			gaps = append(gaps, gap{table: table, what: fmt.Sprintf("key %s (%s)", key, list), cure: cure})
		}
	}
	if len(gaps) > 0 {
		return gaps, nil
	}
	// The row that all inserts of locks compare with.
	if rows, err := c.Count(ctx, s.sql.floorRow.Render()); err != nil || rows > 0 {
		return nil, err
	}
	return []gap{{table: s.tables.prefix + "lock", what: "row without a name"}}, nil
}

func (s *schema) readShape(ctx context.Context, c *conn) (present, error) {
	have := present{map[string]map[string]bool{}, map[string]map[string]string{}}
	var tables sqltext.List
	for name := range shapes {
		tables = append(tables, s.tables.prefix+name)
	}
	rows, err := c.Query(ctx, s.sql.shape.Render(tables, tables))
	if err != nil {
		return present{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			table, key, column string
			place              int
		)
		if err := rows.Scan(&table, &key, &column, &place); err != nil {
			return present{}, err
		}
		table = strings.ToLower(table)
		if key == "" {
			if have.columns[table] == nil {
				have.columns[table], have.keys[table] = map[string]bool{}, map[string]string{}
			}
			have.columns[table][column] = true
			continue
		}
		if keys := have.keys[table]; keys != nil {
			keys[key] = strings.TrimSpace(keys[key] + " " + column)
		}
	}
	return have, rows.Err()
}

// gapsError says what is missing, and that Migrate makes it.
func gapsError(gaps []gap) error {
	return fmt.Errorf("%w: %s: run Migrate (worker migrate), which makes what is missing or says why not", lease.ErrNotReady, joinGaps(gaps))
}

func joinGaps(gaps []gap) string {
	texts := make([]string, len(gaps))
	for i, g := range gaps {
		texts[i] = g.String()
	}
	return strings.Join(texts, ", ")
}
