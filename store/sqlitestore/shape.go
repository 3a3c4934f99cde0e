package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cronlease/cronlease/lease"
)

// object is a table, an index or a trigger.
type object struct {
	kind, name string
	makes      string   // the statement
	columns    []string // of a table
}

// gap is something that the file lacks.
type gap struct {
	object object
	column string // empty for the object itself
}

func (g gap) String() string {
	if g.column == "" {
		return fmt.Sprintf("there is no %s %s", g.object.kind, g.object.name)
	}
	return fmt.Sprintf("table %s has no column %s", g.object.name, g.column)
}

func joinGaps(gaps []gap) string {
	texts := make([]string, len(gaps))
	for i, g := range gaps {
		texts[i] = g.String()
	}
	return strings.Join(texts, ", ")
}

// wanted are the objects of the newest version: what the steps make in memory.
var wanted = sync.OnceValues(func() (objects []object, err error) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // another connection has another memory
	texts := []string{createSchema}
	for _, m := range steps {
		texts = append(texts, m.Text)
	}
	for _, text := range texts {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return readObjects(ctx, db)
})

// readObjects reads what there is of ours, tables first.
func readObjects(ctx context.Context, db querier) ([]object, error) {
	rows, err := db.QueryContext(ctx, `
SELECT s.type, s.name, s.sql, coalesce((SELECT group_concat(name, ' ') FROM pragma_table_info(s.name) WHERE s.type = 'table'), '')
FROM sqlite_schema s WHERE s.name GLOB 'cronlease_*' AND s.sql IS NOT NULL
ORDER BY s.type <> 'table', s.name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var objects []object
	for rows.Next() {
		var o object
		var columns string
		if err := rows.Scan(&o.kind, &o.name, &o.makes, &columns); err != nil {
			return nil, err
		}
		o.columns = strings.Fields(columns)
		objects = append(objects, o)
	}
	return objects, rows.Err()
}

// readGaps returns what the file lacks. It may have more, from a later version.
func readGaps(ctx context.Context, db querier) ([]gap, error) {
	want, err := wanted()
	if err != nil {
		return nil, err
	}
	have, err := readObjects(ctx, db)
	if err != nil {
		return nil, err
	}
	var gaps []gap
	for _, o := range want {
		i := slices.IndexFunc(have, func(h object) bool { return h.kind == o.kind && h.name == o.name })
		if i < 0 {
			gaps = append(gaps, gap{object: o})
			continue
		}
		for _, column := range o.columns {
			if !slices.Contains(have[i].columns, column) {
				gaps = append(gaps, gap{o, column})
			}
		}
	}
	return gaps, nil
}

// repair makes the objects that are missing. A column of a table that is there it
// does not make: its values are lost, and only a backup has them. It returns what
// it has made.
func repair(ctx context.Context, c *sql.Conn) (made []string, err error) {
	gaps, err := readGaps(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(gaps) == 0 {
		return nil, nil
	}
	var columns []gap
	for _, g := range gaps {
		if g.column != "" {
			columns = append(columns, g)
			continue
		}
		if _, err := c.ExecContext(ctx, g.object.makes); err != nil {
			return nil, fmt.Errorf("make the %s %s: %w", g.object.kind, g.object.name, err)
		}
		made = append(made, "mended: "+g.String())
	}
	if len(columns) > 0 {
		return nil, fmt.Errorf("%w: %s: restore the file from a backup, or, to begin with an empty table, drop it and run Migrate (worker migrate)",
			lease.ErrSetup, joinGaps(columns))
	}
	for _, m := range steps {
		for _, insert := range insertion.FindAllString(m.Text, -1) {
			if _, err := c.ExecContext(ctx, insert); err != nil {
				return nil, fmt.Errorf("%s: %w", insert, err)
			}
		}
	}
	return made, nil
}

// insertion is a step's row. That of a trigger is indented.
var insertion = regexp.MustCompile(`(?ms)^INSERT INTO .*?;$`)
