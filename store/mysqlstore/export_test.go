package mysqlstore

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/migrations"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// For the tests of package mysqlstore_test.
var (
	LockName = lockName
	Newest   = len(steps)
)

// Share returns a function that shares the calls of another one as [Store.Check] does.
func Share() func(context.Context, func(context.Context) error) error { return new(checks).share }

// Statements are those of a migration.
func Statements(migration, prefix string) (all []string) {
	for _, statement := range (migrations.Step{Text: migration}).Statements() {
		all = append(all, tables{prefix}.replace(statement))
	}
	return all
}

// LedgerSetting is a variable of the session of the ledger's first connection.
func (s *Store) LedgerSetting(ctx context.Context, name string) (int, error) {
	n := 0
	err := s.do(ctx, mysqlconn.Read, "read "+name, func(ctx context.Context, c *conn) (err error) {
		n, err = c.Count(ctx, "SELECT @@"+name)
		return err
	})
	return n, err
}

// RestLock is the lock that notifiers wait for on MariaDB.
func (s *Store) RestLock() string { return s.restLock }

// RequestLock is the lock of the connection that waits for requests.
func (s *Store) RequestLock(group string, token uint64) (name string, err error) {
	err = s.do(context.Background(), mysqlconn.Read, "read", func(_ context.Context, c *conn) error {
		name = s.lockOf(c, group, token)
		return nil
	})
	return name, err
}

// RenewStatement is the statement that Renew sends.
func (s *Store) RenewStatement(r store.Renew) string { return s.renewStatement(r) }

// LedgerStatements are the ledger's statements that run often, or over much.
func (s *Store) LedgerStatements(h store.Holder, claims []store.Claim, moves []store.Move) map[string]string {
	var keys, ticks, refused sqltext.Values
	for _, c := range claims {
		refused = append(refused, sqltext.Row{c.Job, c.Tick.UnixMicro(), c.Trigger, knownTick(c), int(c.State)})
		keys = append(keys, sqltext.Row{c.Job, c.Tick.UnixMicro(), c.Trigger})
		ticks = append(ticks, sqltext.Row{c.Tick.UnixMicro(), c.Trigger})
	}
	assigns := h
	assigns.Assigns = true
	var movable, followers sqltext.Values
	for _, m := range moves {
		movable = append(movable, sqltext.Row{m.Job, m.Tick.UnixMicro(), m.Trigger, int(m.From), m.Attempt, m.Owner, m.Token, int(m.To)})
		followers = append(followers, sqltext.Row{"next", m.Tick.UnixMicro(), 1, 0, "", "", m.Job, m.Tick.UnixMicro(), m.Trigger})
	}
	var attempts, dropped sqltext.Values
	for _, m := range moves {
		attempts = append(attempts, sqltext.Row{m.Job, m.Tick.UnixMicro(), m.Trigger, m.Attempt, m.Owner, m.Token, int(m.To), 4, true, "why", "output"})
		dropped = append(dropped, sqltext.Row{m.Job, m.Tick.UnixMicro(), m.Trigger, 1})
	}
	k := claims[0].Key
	first, last := int64(0), k.Tick.UnixMicro()
	return map[string]string{
		"claim":         s.claimStatement(h, store.ClaimID{1}, claims),
		"move":          s.moveStatement(h, moves, nil),
		"read runs":     s.ledger.sql.readRuns.Render(keys, h.Group, h.Group),
		"changes":       s.ledger.sql.changes.Render(h.Group, h.Group),
		"open of":       s.ledger.sql.openOf.Render(h.Group, h.Group, h.Group, h.Group, h.Owner),
		"open":          s.ledger.sql.open.Render(h.Group, h.Group, h.Group, h.Group),
		"summary":       s.ledger.sql.summary.Render(h.Group, h.Group, h.Group),
		"jobs":          s.ledger.sql.jobs.Render(h.Group),
		"open runs":     s.ledger.sql.openRuns.Render(h.Group),
		"runs":          s.runsQuery(h.Group, jobs.Filter{}),
		"runs of job":   s.runsQuery(h.Group, jobs.Filter{Job: k.Job}),
		"runs of state": s.runsQuery(h.Group, jobs.Filter{State: jobs.Failed}),
		"lock run":      s.ledger.sql.lockRun.Render(h.Group, k.Job, last, 0),
		"lock jobs":     s.ledger.sql.lockJobs.Render(sqltext.Values{{""}, {k.Job}}, h.Group),
		"put run":       s.ledger.sql.putRun.Render(true, h.Group, k.Job, last, 0),
		"update jobs":   s.ledger.sql.updateJobs.Render(jobValues([]jobRow{{}, {name: k.Job}}), h.Group),
		"refused":       s.ledger.sql.refused.Render(refused, h.Group),
		"trigger":       s.ledger.sql.trigger.Render(1, 1, "", "", h.Group, k.Job),
		"trigger once":  s.ledger.sql.triggerOnce.Render(1, 1, "", "", h.Group, k.Job),
		"count open":    s.ledger.sql.countOpen.Render(h.Group, k.Job),
		"args":          s.ledger.sql.args.Render(h.Group, k.Job, k.Tick.UnixMicro(), 0),
		"movable":       s.ledger.sql.movable.Render(h.Group, h.Owner, h.Token, movable, h.Group),
		"spread claim":  s.claimStatement(assigns, store.ClaimID{1}, claims),
		"spread move":   s.moveStatement(assigns, moves, nil),
		"follow":        s.ledger.sql.follow.Render(followers, underWhom(h), h.Group),
		"follow claim":  s.ledger.sql.followClaim.Render(followers, underWhom(h), h.Group, "id", last),
		"bounds":        s.ledger.sql.bounds.Render(h.Group, k.Job),
		"kept from":     s.ledger.sql.keptFrom.Render(h.Group, k.Job, 10),
		"prunable":      s.ledger.sql.prunable.Render(h.Group, k.Job, k.Tick.UnixMicro(), 0, 0, 0, 0, 1, 1, 500),
		"prune":         s.ledger.sql.prune.Render(ticks, h.Group, k.Job),
		"runs behind":   s.runsQuery(h.Group, jobs.Filter{State: jobs.Failed, Behind: k, Since: k.Tick.Add(-time.Hour)}),

		"keep attempts":  s.ledger.sql.keepAttempts.Render(attempts, h.Group, h.Owner, h.Token, h.Group),
		"drop attempts":  s.ledger.sql.dropAttempts.Render(dropped, h.Group),
		"prune attempts": s.ledger.sql.pruneAttempts.Render(sqltext.Values{{last, 0, 1, first}, {last + 1, 0, 1, first}}, h.Group, k.Job),
		"orphans":        s.ledger.sql.orphans.Render(h.Group, k.Job, last, 500),
		"pass attempts":  s.ledger.sql.passOverAttempts.Render(h.Token, h.Token, h.Group, k.Job, last),
		"forget":         s.ledger.sql.forget.Render(h.Group, k.Job),
		"oldest entries": s.archive.sql.oldestEntries.Render(h.Group, 500),
		"oldest terms":   s.archive.sql.oldestTerms.Render(h.Group, 500),
		"lock terms":     s.archive.sql.lockTerms.Render(h.Group, h.Token, h.Token),
		"audit":          s.archive.sql.audit.Render(h.Group, 1000, 100),
		"audit of job":   s.archive.sql.auditOfJob.Render(h.Group, k.Job, 1000, 100),
		"terms":          s.archive.sql.terms.Render(h.Group, true, last, true, first, 100),
		"attempts":       s.archive.sql.attempts.Render(h.Group, k.Job, last, 0),
		"names":          s.archive.sql.names.Render(h.Group),
		"jobs of":        s.ledger.sql.jobs.Render(h.Group) + s.archive.sql.ofNames.Render(sqltext.List{"", k.Job, "other"}),
		"newest of":      s.archive.sql.newestOf.Render(h.Group, k.Job, first, last, 0, 10),
		"cut of":         s.archive.sql.cutOf.Render(h.Group, k.Job, first, last, 100),
		"cut in":         s.archive.sql.cutIn.Render(h.Group, 3, first, last, 100),
		"count of":       s.archive.sql.countOf.Render(0, 1000, h.Group, k.Job, first, last),
		"count few":      s.archive.sql.countFew.Render(0, 1000, h.Group, sqltext.List{k.Job, "other"}, first, last, 100),
		"count in":       s.archive.sql.countIn.Render(0, 1000, h.Group, 3, first, last),
	}
}

// CountAtMost has Counts count so many runs for sure.
func (s *Store) CountAtMost(n int) { s.counted = n }

// UpdateLocks is the statement that writes rows which are there: now, or those that
// are free.
func (s *Store) UpdateLocks(writes []store.LockWrite, now bool) string {
	return s.updateStatement(writes, false, now)
}

// DeleteLocks is the statement with which pruning deletes rows.
func (s *Store) DeleteLocks(rows []store.LockWrite) string {
	names, keys := make(sqltext.List, len(rows)), make(sqltext.List, len(rows))
	for i, w := range rows {
		names[i], keys[i] = w.Name, sqltext.Row{w.Name, w.Expect}
	}
	return s.lockRows.sql.pruneLocks.Render(names, keys, len(rows))
}

// Prunable is the query of what is pruned of a job of which nothing is kept, when
// that was read as its newest tick.
func (s *Store) Prunable(group, job string, newest int64) string {
	return s.ledger.sql.prunable.Render(group, job, int64(math.MaxInt64), newest, int64(math.MaxInt64), 0, 0, 0, 0, 500)
}

// IdleLocks, HeldRows and IdleSessions are the queries with which pruning finds rows.
func (s *Store) IdleLocks(idle time.Duration, limit int) string {
	return s.lockRows.sql.idle.Render(idle.Microseconds(), limit)
}

func (s *Store) HeldRows(idle time.Duration, after string, limit int) string {
	return s.lockRows.sql.held.Render(after, idle.Microseconds(), limit)
}

func (s *Store) IdleSessions(prefix string, limit int) string {
	return s.lockRows.sql.idleSessions.Render(prefix+"%", 0, 0, limit)
}

// Sizes of a statement.
const (
	ClaimChunk = claimChunk
	MoveChunk  = moveChunk
)

// Shapes are the tables that Check wants, a line for the columns of each, sorted,
// and one for each key.
func Shapes() []string {
	var lines []string
	for table, s := range shapes {
		lines = append(lines, table+" : "+strings.Join(slices.Sorted(strings.FieldsSeq(s.columns)), " "))
		for key, columns := range s.keys {
			lines = append(lines, table+" "+key+": "+columns)
		}
	}
	slices.Sort(lines)
	return lines
}

// ExamineLink is what Examine says of the way to the server.
func ExamineLink(ttl, login, trip time.Duration, user, cipher string) []store.Finding {
	e := &examination{ttl: ttl, login: login, check: "connection"}
	e.judgeLink(trip, user, cipher)
	return e.found
}

// ExamineGrowth is the last check of Examine with other limits.
func (s *Store) ExamineGrowth(ctx context.Context, runs, locks, bytes int64) []store.Finding {
	e := &examination{Store: s, check: "growth", sizes: sizes{runs, locks, bytes}}
	defer e.leave()
	if e.connected(ctx) {
		if _, err := e.growth(ctx); err != nil {
			e.fail(err)
		}
	}
	return e.found
}

// ExamineWithoutConnection is an examination that had a connection, and lost it, of two checks.
func ExamineWithoutConnection(ctx context.Context, s *Store) []store.Finding {
	e := &examination{Store: s, settings: map[string]string{}}
	ctx, cancel := s.conns.Bind(ctx)
	defer cancel()
	for _, e.check = range []string{"grants", "locks"} {
		if !e.connected(ctx) {
			e.say(store.Unknown, "not looked at", "")
		}
	}
	return e.found
}

// Blocked is what a migration says of a statement that does not get its table.
func (s *Store) Blocked(ctx context.Context, statement string) error {
	c, err := s.conns.Open(ctx, time.Second)
	if err != nil {
		return err
	}
	defer c.Discard()
	return (&migration{schema: &s.schema, c: c}).blocked(ctx, statement)
}

// ConnectionsOf is the formula of docs/database.md.
func ConnectionsOf(workers, groups, spread, poolSize int) int {
	return connectionsOf(workers, groups, spread, poolSize)
}
