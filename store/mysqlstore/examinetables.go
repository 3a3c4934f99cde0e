package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// What follows are the checks of an examination that look at the tables' keys and size.

// indexes finds keys that the server does not use, and measures readings that need them.
func (e *examination) indexes(ctx context.Context) (string, error) {
	hidden, err := e.hiddenKeys(ctx)
	if err != nil {
		return "", err
	}
	for _, key := range hidden {
		visible := "VISIBLE"
		if e.c.Server.IsMariaDB() {
			visible = "NOT IGNORED"
		}
		e.problem(fmt.Sprintf("ALTER TABLE %s ALTER INDEX %s %s", key.table, key.name, visible),
			"the key %s of %s is hidden from the server's optimizer: statements that name it fail", key.name, key.table)
	}
	if len(hidden) > 0 {
		return "", nil
	}
	var group string
	err = e.c.QueryRow(ctx, e.schema.sql.anyGroup.Render()).Scan(&group)
	if errors.Is(err, sql.ErrNoRows) {
		return "all keys can be used; no group has rows yet", nil
	}
	if err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := e.load(ctx, e.c, group); err != nil {
		return "", err
	}
	loaded := time.Since(began)
	if _, err := records(ctx, e.c, e.runsQuery(group, jobs.Filter{})); err != nil {
		return "", err
	}
	text := fmt.Sprintf("all jobs and open runs are read in %v, the newest runs in %v", short(loaded), short(time.Since(began)-loaded))
	if most := e.ttl / 10; time.Since(began) > most {
		e.warn("OPTIMIZE TABLE and ANALYZE TABLE of the tables, a larger innodb_buffer_pool_size, or groups with fewer jobs", "%s: more than a tenth of the TTL (%v)", text, e.ttl)
	}
	return text, nil
}

type hiddenKey struct{ table, name string }

func (e *examination) hiddenKeys(ctx context.Context) ([]hiddenKey, error) {
	query := e.schema.sql.hiddenMySQL
	if e.c.Server.IsMariaDB() {
		query = e.schema.sql.hiddenMariaDB
	}
	rows, err := e.c.Query(ctx, query.Render())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []hiddenKey
	for rows.Next() {
		var key hiddenKey
		if err := rows.Scan(&key.table, &key.name); err != nil {
			return nil, err
		}
		all = append(all, key)
	}
	return all, rows.Err()
}

// sizes are those from which on tables are worth a word.
type sizes struct{ runs, locks, bytes int64 }

var usualSizes = sizes{runs: 5_000_000, locks: 100_000, bytes: 10 << 30}

// growth finds tables that grow more than they should.
func (e *examination) growth(ctx context.Context) (string, error) {
	rows, err := e.c.Query(ctx, e.schema.sql.sizes.Render())
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var parts []string
	total := int64(0)
	for rows.Next() {
		var table string
		var n, bytes, free int64
		if err := rows.Scan(&table, &n, &bytes, &free); err != nil {
			return "", err
		}
		total += bytes
		switch strings.TrimPrefix(table, e.schema.tables.prefix) {
		case "run":
			if n > e.sizes.runs {
				e.warn("keep less history (history.keep, history.for), or run often what needs no row for each run less often", "%s has about %d rows", table, n)
			}
			parts = append(parts, fmt.Sprintf("about %d runs", n))
		case "lock":
			if n > e.sizes.locks {
				e.warn("use fewer names for locks: rows of unused ones are removed an hour later", "%s has about %d rows", table, n)
			}
		}
		if free > 1<<30 && free > bytes {
			e.warn("OPTIMIZE TABLE "+table+", which copies it while nothing can write it", "%s has %s of free space within its file", table, inBytes(free))
		}
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if total > e.sizes.bytes {
		e.warn("keep less history (history.keep, history.for)", "the tables take %s", inBytes(total))
	}
	day, err := e.lastDay(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s more in the last day, %s", strings.Join(parts, ""), day, inBytes(total)), nil
}

// lastDay counts the runs of the last day of all groups.
func (e *examination) lastDay(ctx context.Context) (string, error) {
	const most = 1_000_000
	n, err := e.c.Count(ctx, e.schema.sql.lastDay.Render(time.Now().Add(-24*time.Hour).UnixMicro(), most))
	if n == most {
		return fmt.Sprintf("at least %d", n), err
	}
	return strconv.Itoa(n), err
}

// inBytes writes a size for people.
func inBytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	default:
		return fmt.Sprintf("%d KiB", n>>10)
	}
}
