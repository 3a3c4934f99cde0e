package mysqlstore

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	rule "github.com/cronlease/cronlease/store/ledger"
)

// fields are the columns of a table beside its group, each named here alone: the lists of statements are made from them,
// in this order.
type fields[T any] []field[T]

// field is a column, as queries read it, and where in a row's value that goes.
type field[T any] struct {
	name, read string
	into       func(*T) any
}

// How columns are read.
const (
	asIs     = "%s"
	asMicros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', %s)"
)

var runFields = fields[rule.Run]{
	{"job", asIs, func(r *rule.Run) any { return &r.Job }},
	{"tick", asIs, func(r *rule.Run) any { return (*at)(&r.Tick) }},
	{"trigger_id", asIs, func(r *rule.Run) any { return &r.Trigger }},
	{"claim_id", asIs, func(r *rule.Run) any { return (*claimID)(&r.ID) }},
	{"state", asIs, func(r *rule.Run) any { return &r.State }},
	{"owner", asIs, func(r *rule.Run) any { return &r.Owner }},
	{"token", asIs, func(r *rule.Run) any { return &r.Token }},
	{"attempt", asIs, func(r *rule.Run) any { return (*sqlscan.Count)(&r.Attempt) }},
	{"claimed_at", asMicros, func(r *rule.Run) any { return (*at)(&r.Claimed) }},
	{"started_at", asMicros, func(r *rule.Run) any { return (*at)(&r.Started) }},
	{"finished_at", asMicros, func(r *rule.Run) any { return (*at)(&r.Finished) }},
	{"due_at", asMicros, func(r *rule.Run) any { return (*at)(&r.Due) }},
	{"missed", asIs, func(r *rule.Run) any { return (*sqlscan.Count)(&r.Missed) }},
	{"error", asIs, func(r *rule.Run) any { return &r.Error }},
	{"cancel_asked", asIs, func(r *rule.Run) any { return (*sqlscan.Bool)(&r.CancelAsked) }},
	{"args", "%s IS NOT NULL", func(r *rule.Run) any { return (*sqlscan.Bool)(&r.HasArgs) }},
	{"backfill", "COALESCE(%s, _binary'')", func(r *rule.Run) any { return &r.Backfill }},
	{"details", asIs, func(r *rule.Run) any { return (*sqlscan.Details)(&r.Details) }},
}

// jobRow is a job's row, or the group's own, which has no name: its changes count what people ask for, its schedule is the
// token of the term that declared last, and schedule_since is when that did so first.
type jobRow struct {
	rule.Job
	name    string
	changes uint64
}

// opened says which term has opened the ledger. Before the first one, and after one of a release that did not know of this,
// the group's row has no token.
func (j jobRow) opened() (o jobs.Opened) {
	if j.name == "" {
		o = ledgerrows.ParseOpened(j.Schedule, j.ScheduleSince)
	}
	return o
}

var jobFields = fields[jobRow]{
	{"name", asIs, func(j *jobRow) any { return &j.name }},
	{"schedule", asIs, func(j *jobRow) any { return &j.Schedule }},
	{"since", asMicros, func(j *jobRow) any { return (*at)(&j.Since) }},
	{"schedule_since", asMicros, func(j *jobRow) any { return (*at)(&j.ScheduleSince) }},
	{"paused", asIs, func(j *jobRow) any { return (*sqlscan.Bool)(&j.Paused) }},
	{"changes", asIs, func(j *jobRow) any { return &j.changes }},
	{"started_at", asMicros, func(j *jobRow) any { return (*at)(&j.Started) }},
	{"finished_at", asMicros, func(j *jobRow) any { return (*at)(&j.Finished) }},
	{"pauses", asIs, func(j *jobRow) any { return pausesOf{j} }},
	{"gone_at", asMicros, func(j *jobRow) any { return (*at)(&j.Gone) }},
	{"failing", asIs, func(j *jobRow) any { return (*sqlscan.Bool)(&j.Failing) }},
}

var entryFields = fields[jobs.AuditEntry]{
	{"id", asIs, func(e *jobs.AuditEntry) any { return &e.ID }},
	{"at", asMicros, func(e *jobs.AuditEntry) any { return (*at)(&e.At) }},
	{"actor", asIs, func(e *jobs.AuditEntry) any { return &e.Name }},
	{"via", asIs, func(e *jobs.AuditEntry) any { return &e.Via }},
	{"action", asIs, func(e *jobs.AuditEntry) any { return &e.Action }},
	{"job", asIs, func(e *jobs.AuditEntry) any { return &e.Job }},
	{"tick", asIs, func(e *jobs.AuditEntry) any { return (*at)(&e.Tick) }},
	{"trigger_id", asIs, func(e *jobs.AuditEntry) any { return &e.Trigger }},
	{"note", asIs, func(e *jobs.AuditEntry) any { return &e.Note }},
	{"result", asIs, func(e *jobs.AuditEntry) any { return &e.Result }},
}

var termFields = fields[jobs.Term]{
	{"token", asIs, func(t *jobs.Term) any { return &t.Token }},
	{"owner", asIs, func(t *jobs.Term) any { return &t.Owner }},
	{"began_at", asMicros, func(t *jobs.Term) any { return (*at)(&t.Began) }},
	{"ended_at", asMicros, func(t *jobs.Term) any { return (*at)(&t.Ended) }},
	{"early", asIs, func(t *jobs.Term) any { return (*sqlscan.Bool)(&t.Early) }},
	{"why", asIs, func(t *jobs.Term) any { return &t.Why }},
}

// attemptFields are beside the key of the run, and the instant at which it was claimed.
var attemptFields = fields[jobs.Attempt]{
	{"attempt", asIs, func(a *jobs.Attempt) any { return (*sqlscan.Count)(&a.Number) }},
	{"state", asIs, func(a *jobs.Attempt) any { return &a.State }},
	{"owner", asIs, func(a *jobs.Attempt) any { return &a.Owner }},
	{"token", asIs, func(a *jobs.Attempt) any { return &a.Token }},
	{"started_at", asMicros, func(a *jobs.Attempt) any { return (*at)(&a.Started) }},
	{"finished_at", asMicros, func(a *jobs.Attempt) any { return (*at)(&a.Finished) }},
	{"error", asIs, func(a *jobs.Attempt) any { return &a.Error }},
	{"output", asIs, func(a *jobs.Attempt) any { return &a.Output }},
}

// list has the columns as queries read them from a table with that alias.
func (f fields[T]) list(alias string) string {
	all := make([]string, len(f))
	for i, one := range f {
		all[i] = fmt.Sprintf(one.read, alias+"."+one.name)
	}
	return strings.Join(all, ", ")
}

// names are those of the columns, separated.
func (f fields[T]) names(separator string) string {
	all := make([]string, len(f))
	for i, one := range f {
		all[i] = one.name
	}
	return strings.Join(all, separator)
}

// into are where the values of a row go.
func (f fields[T]) into(row *T) []any {
	all := make([]any, len(f))
	for i, one := range f {
		all[i] = one.into(row)
	}
	return all
}

// row reads a row of the fields alone.
func (f fields[T]) row(rows *sql.Rows) (T, error) { return f.scan(rows) }

// scan reads a row: what comes before, if anything, and the fields.
func (f fields[T]) scan(rows *sql.Rows, before ...any) (row T, err error) {
	return row, rows.Scan(append(before, f.into(&row)...)...)
}

// scanOuter is scan of an outer join, whose first column says whether there is a row of this table.
func (f fields[T]) scanOuter(rows *sql.Rows, before ...any) (row T, there bool, err error) {
	all := append([]any{(*sqlscan.Bool)(&there)}, before...)
	skip := len(all)
	for range f {
		all = append(all, ignored{})
	}
	if err = rows.Scan(all...); err == nil && there {
		for i := range skip {
			all[i] = ignored{}
		}
		row, err = f.scan(rows, all[:skip:skip]...)
	}
	return row, there, err
}

// ignored scans any value.
type ignored struct{}

// Scan implements [sql.Scanner].
func (ignored) Scan(any) error { return nil }

// at scans an instant in microseconds since 1970; zero: NULL.
type at time.Time

// Scan implements [sql.Scanner].
func (a *at) Scan(value any) error {
	var micros sql.NullInt64
	err := micros.Scan(value)
	*a = at(instant(micros))
	return err
}

// pausesOf scans the list of pauses of a row that has been scanned up to there.
type pausesOf struct{ *jobRow }

// Scan implements [sql.Scanner].
func (p pausesOf) Scan(value any) error {
	var text sql.Null[string]
	err := text.Scan(value)
	p.Pauses = ledgerrows.ParsePauses(text.V, p.Paused)
	return err
}

// claimID scans the bytes of a [store.ClaimID].
type claimID [16]byte

// Scan implements [sql.Scanner].
func (c *claimID) Scan(value any) error {
	bytes, ok := value.([]byte)
	if copy(c[:], bytes); !ok {
		return fmt.Errorf("a claim's id is of type %T", value)
	}
	return nil
}
