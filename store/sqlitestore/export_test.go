package sqlitestore

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlflaws"
)

// SteppedClock is the clock plus what the table stepped says, for tests that
// step the clock of all processes that use one file.
const SteppedClock = clock + " + (SELECT micros FROM stepped)"

// OpenWithClock is Open with another expression for the clock.
func OpenWithClock(path, clock string) (*Store, error) { return open(path, clock) }

// Newest is the version of the tables that this program makes.
var Newest = len(steps)

// Version1 makes the tables as version 1 of them was.
var Version1 = createSchema + steps[0].Text + "UPDATE cronlease_schema SET version = 1"

// Lose ends what a signal shows, as the end of its process does.
func Lose(b store.HandoverSignal) error { return b.(*signal).shown.hide() }

// Renewal is the statement of Renew.
func (s *Store) Renewal() string { return s.sql.renew }

// about are the topics of the suites that are about some statements.
var about = []sqlflaws.Topics{
	{`^lease\.acquire`, "acquire,handover,signal,concurrency"},
	{`^lease\.(prepare|copyFence)`, "prepare"},
	{`^lease\.release`, "release,handover"},
	{`^lease\.(renew|beat)`, "renew,requests"},
	{`^lease\.requests`, "requests,changes"},
	{`^lease\.(ask|isAsked)`, "resign"},
	{`^lease\.wake`, "spread"},
	{`^lease\.awaited`, "handover,signal"},
	{`^lease\.checkFence`, "fence"},
	{`^lease\.checkRun`, "spread"},
	{`^lease`, "read"},
	{`^lock\.(idle|held|raise|prune)`, "prune"},
	{`^lock\.moved`, "notifier"},
	{`^lock`, "write,read,concurrency"},
	{`^replica`, "replicas"},
	{`^archive\.(cut|count)`, "counts"},
	{`^archive\.newest`, "newest"},
	{`Term`, "terms,archive prune"},
	{`^archive\.(audit|note|had|oldest|dropEntry)`, "audit,archive prune"},
	{`^archive`, "attempts,runs"},
	{`^ledger\.newest`, "runs"},
	{`^ledger\.(fence|openRunsOf)`, "spread"},
	{`^ledger\.prune`, "prune"},
	{`^ledger\.(countOpen|runsAt)`, "trigger"},
	{`^ledger\.(group|jobs|put|set)`, "declare,pause,load,replicas"},
	{`^ledger\.(rekey|rewind|dropCursor|runsLater)`, "pass over,extend"},
	{`^ledger\.forget`, "replicas"},
}

// Flaws are all there are, in the order of their statements.
func Flaws() []sqlflaws.Flaw {
	s := &Store{sql: newQueries(SteppedClock), tables: newTables(SteppedClock), locking: newLockQueries(SteppedClock)}
	texts := map[string]string{}
	for name, statement := range s.statements() {
		texts[name] = *statement
	}
	return sqlflaws.Of(texts, about)
}

// Break puts a flaw into the statements of a store.
func (s *Store) Break(f sqlflaws.Flaw) { *s.statements()[f.Statement] = f.Text }

// statements are those of a store, by their fields.
func (s *Store) statements() map[string]*string {
	all := map[string]*string{}
	for topic, queries := range map[string]any{"lease": &s.sql, "ledger": &s.tables.LedgerQueries, "lock": &s.locking, "replica": &s.tables.ReplicaQueries, "archive": &s.tables.ArchiveQueries} {
		v := reflect.ValueOf(queries).Elem()
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			all[topic+"."+strings.ToLower(name[:1])+name[1:]] = (*string)(unsafe.Pointer(v.Field(i).UnsafeAddr()))
		}
	}
	return all
}

// Statements are the hot ones of the ledger, by name.
func (s *Store) Statements() map[string]string {
	return map[string]string{
		"group": s.tables.Group, "jobs": s.tables.Jobs, "jobs of": s.tables.JobsOf, "open runs": s.tables.OpenRuns, "open runs of": s.tables.OpenRunsOf, "fence": s.tables.Fence, "count open": s.tables.CountOpen,
		"read runs": s.tables.ReadRuns, "runs at": s.tables.RunsAt, "runs later": s.tables.RunsLater, "args": s.tables.Args,
		"rekey": s.tables.Rekey, "rewind": s.tables.Rewind, "set paused": s.tables.SetPaused, "prune": s.tables.Prune,
		"newest": s.tables.NewestRuns, "newest of job": s.tables.NewestOfJob, "newest of state": s.tables.NewestOfState,
	}
}

// LockStatements are those of locks, by name.
func (s *Store) LockStatements() map[string]string {
	return map[string]string{
		"read": s.locking.read, "insert": s.locking.insert, "update": s.locking.update, "idle": s.locking.idle,
		"prune locks": s.locking.pruneLocks, "prune leases": s.locking.pruneLeases, "prune fences": s.locking.pruneFences,
	}
}

// CountAtMost has Counts count n runs, instead of [jobs.MaxCounted].
func (s *Store) CountAtMost(n int) { s.Counted = n }

// InUse is how many connections the package's own statements have.
func (s *Store) InUse() int { return s.own.Stats().InUse }

// LimitPages lets the file have so many pages at most; none is less than it has.
// The store keeps to one connection from then on, since each has its own limit.
func (s *Store) LimitPages(ctx context.Context, most int) error {
	s.own.SetMaxOpenConns(1)
	_, err := s.own.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", most))
	return err
}

// JudgeGrowth and JudgeDisk are what Examine says of sizes.
var (
	JudgeGrowth = judgeGrowth
	JudgeDisk   = judgeDisk
)
