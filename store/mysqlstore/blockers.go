package mysqlstore

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// busyError says what keeps a migration waiting.
type busyError struct{ text string }

func (e *busyError) Error() string { return fmt.Sprintf("%v: %s", lease.ErrNotReady, e.text) }

func (e *busyError) Unwrap() error { return lease.ErrNotReady }

// holders find the sessions that have a table, those that have had it longest first. The first query is for servers
// with performance_schema, which MariaDB does not unless told (docs/upgrading.md); GLOBAL and the like are the locks of
// FLUSH TABLES WITH READ LOCK and of backups. The second one knows only which transactions have been open longest, in
// this database first. An account may lack the privilege for each.
var holders = []struct {
	query sqltext.Query
	sure  bool
}{
	{sqltext.Parse(`
SELECT t.processlist_id, COALESCE(t.processlist_user, ''), COALESCE(t.processlist_host, ''),
	COALESCE(x.timer_wait DIV 1000000000000, t.processlist_time, 0), LEFT(COALESCE(t.processlist_info, e.sql_text, ''), 80)
FROM performance_schema.metadata_locks m
JOIN performance_schema.threads t ON t.thread_id = m.owner_thread_id
LEFT JOIN performance_schema.events_transactions_current x ON x.thread_id = t.thread_id AND x.state = 'ACTIVE'
LEFT JOIN performance_schema.events_statements_current e ON e.thread_id = t.thread_id
WHERE m.lock_status = 'GRANTED' AND t.processlist_id <> CONNECTION_ID()
	AND (m.object_type = 'TABLE' AND m.object_schema = DATABASE() AND m.object_name = ?
		OR m.object_type IN ('GLOBAL', 'COMMIT', 'BACKUP LOCK', 'BACKUP') AND m.lock_duration = 'EXPLICIT')
ORDER BY 4 DESC LIMIT 1`), true},
	{sqltext.Parse(`
SELECT p.id, p.user, p.host, TIMESTAMPDIFF(SECOND, x.trx_started, NOW()), LEFT(COALESCE(p.info, ''), 80)
FROM information_schema.innodb_trx x
JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id
WHERE p.id <> CONNECTION_ID() AND x.trx_started < NOW() AND ? <> ''
ORDER BY p.db <=> DATABASE() DESC, x.trx_started LIMIT 3`), false},
}

// systemZone makes NOW() what InnoDB's instants are.
const systemZone = `SET time_zone = SYSTEM`

var tableOf = regexp.MustCompile("`([^`]+)`")

// blocked names the sessions that keep a statement from its table, which it names first.
func (m *migration) blocked(ctx context.Context, statement string) error {
	table := tableOf.FindStringSubmatch(statement)[1]
	busy := fmt.Sprintf("the table %s cannot be changed yet, because ", table)
	if stall := m.c.Stall(ctx); stall != nil {
		return &busyError{fmt.Sprintf("%s%v: %s", busy, stall, stall.Cure())}
	}
	for _, h := range holders {
		sessions, err := m.sessions(ctx, h.query.Render(table))
		switch {
		case err != nil || len(sessions) == 0: // it may not look there, or there is nothing
		case h.sure:
			return &busyError{busy + sessions[0] + " has it: wait for it, or end it (KILL ID)"}
		default:
			return &busyError{busy + "a transaction has it, probably one of those that have been open longest: " + strings.Join(sessions, ", ") + ": wait for it, or end it (KILL ID)"}
		}
	}
	return &busyError{busy + "a transaction, a backup or LOCK TABLES has it: see SHOW FULL PROCESSLIST as an administrator, or grant PROCESS (MySQL: and SELECT ON performance_schema.*) to the user that migrates, so that it names the session"}
}

func (m *migration) sessions(ctx context.Context, query string) ([]string, error) {
	if err := m.c.Exec(ctx, systemZone); err != nil {
		return nil, err
	}
	rows, err := m.c.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var (
			id, seconds      int64
			user, host, last string
		)
		if err := rows.Scan(&id, &user, &host, &seconds, &last); err != nil {
			return nil, err
		}
		if last != "" {
			last = fmt.Sprintf(", with %q", last)
		}
		all = append(all, fmt.Sprintf("session %d of %s@%s (for %d s%s)", id, user, host, seconds, last))
	}
	return all, rows.Err()
}
