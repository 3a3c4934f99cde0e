package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// Columns are those of a row in the order in which scripts have them: pointers to what they are in Go, for reading and for writing.

// tick is a tick as the keys have it.
type tick struct{ *time.Time }

// pauses are those of a row that says whether one goes on.
type pauses struct {
	list   *[]jobs.Pause
	paused *bool
}

// opened is the last term that declared its jobs, but for the instant.
type opened struct{ *jobs.Opened }

func runColumns(r *ledger.Run) []any { return recordColumns(&r.Record, &r.ID) }

func recordColumns(r *jobs.Record, id *store.ClaimID) []any {
	return []any{
		(*uint8)(&r.State), &r.Owner, &r.Token, &r.Attempt, &r.Claimed, &r.Started, &r.Finished, &r.Due, &r.Missed, &r.Error, &r.CancelAsked, &r.Backfill,
		&r.Details, id, &r.HasArgs, &r.Job, tick{&r.Tick}, &r.Trigger,
	}
}

func attemptColumns(a *jobs.Attempt) []any {
	return []any{&a.Number, (*uint8)(&a.State), &a.Owner, &a.Token, &a.Started, &a.Finished, &a.Error, &a.Output}
}

func groupColumns(g *ledger.Group) []any {
	return []any{&g.Paused, pauses{&g.Pauses, &g.Paused}, opened{&g.Opened}, &g.Opened.At}
}

func jobColumns(j *ledger.Job) []any {
	return []any{&j.Since, &j.ScheduleSince, &j.Paused, &j.Started, &j.Finished, &j.Gone, pauses{&j.Pauses, &j.Paused}, &j.Schedule}
}

func termColumns(t *jobs.Term) []any {
	return []any{&t.Token, &t.Owner, &t.Began, &t.Ended, &t.Why, &t.Early}
}

func entryColumns(e *jobs.AuditEntry) []any {
	return []any{
		&e.ID, &e.At, &e.Name, (*string)(&e.Via), (*string)(&e.Action), &e.Job, &e.Tick, &e.Trigger, &e.Note, (*string)(&e.Result),
	}
}

// read reads the values of columns. What is absent is zero.
func (f *fields) read(columns []any) {
	for _, column := range columns {
		switch to := column.(type) {
		case *string:
			*to = f.optional()
		case *[]byte:
			if text := f.optional(); text != "" {
				*to = []byte(text)
			}
		case *jobs.Details:
			*to = ledgerrows.ParseDetails(f.optional())
		case *store.ClaimID:
			copy(to[:], f.optional())
		case *bool:
			*to = f.optionalNumber() == 1
		case *int:
			*to = int(f.optionalNumber())
		case *uint8:
			*to = uint8(f.optionalNumber())
		case *uint64:
			*to = f.optionalNumber()
		case *time.Time:
			*to = f.optionalInstant()
		case tick:
			*to.Time = f.entryTick(f.text())
		case opened:
			*to.Opened = ledgerrows.ParseOpened(f.optional(), time.Time{})
		case pauses:
			*to.list = ledgerrows.ParsePauses(f.optional(), *to.paused)
		}
	}
}

// optionalNumber is 0 where it is absent.
func (f *fields) optionalNumber() uint64 {
	if f.absent() {
		f.next()
		return 0
	}
	return f.number()
}

// optionalInstant is the zero time where it is absent, empty, or 0.
func (f *fields) optionalInstant() time.Time {
	text := f.optional()
	if text == "" || text == "0" {
		return time.Time{}
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f.fail(text, "an instant")
	}
	return time.UnixMicro(micros).UTC()
}

// written are columns as scripts take them. never is what they have for the zero time.
func written(never string, columns []any) []any {
	all := make([]any, len(columns))
	for i, column := range columns {
		switch from := column.(type) {
		case *string:
			all[i] = *from
		case *bool:
			all[i] = flag(*from)
		case *uint64:
			all[i] = *from
		case *time.Time:
			if all[i] = never; !from.IsZero() {
				all[i] = from.UnixMicro()
			}
		case opened:
			all[i] = ledgerrows.FormatOpened(*from.Opened)
		case pauses:
			all[i] = ledgerrows.FormatPauses(*from.list)
		}
	}
	return all
}

// row reads a row that is an array.
func (f *fields) row(columns []any) {
	row := f.nested()
	row.read(columns)
	f.keep(row)
}

// rowsOf reads an array of rows, without those that are absent.
func rowsOf[T any](f *fields, columns func(*T) []any) []T {
	of := f.nested()
	all := slices.Grow([]T(nil), len(of.values))
	for len(of.values) > 0 && of.err == nil {
		if of.absent() {
			of.next()
			continue
		}
		var one T
		of.row(columns(&one))
		all = append(all, one)
	}
	f.keep(of)
	return all
}

func (f *fields) records() []jobs.Record {
	return rowsOf(f, func(r *jobs.Record) []any { return recordColumns(r, new(store.ClaimID)) })
}

// job reads a job, which is a text with a space after each column but the last.
func (f *fields) job() (j ledger.Job) {
	columns := jobColumns(&j)
	text := f.text()
	parts := strings.SplitN(text, " ", len(columns))
	if len(parts) < len(columns) {
		f.fail(text, "a job")
		return ledger.Job{}
	}
	row := &fields{doing: f.doing, values: texts(parts)}
	row.read(columns)
	f.keep(row)
	return j
}

func jobText(j ledger.Job) string {
	return strings.TrimSuffix(fmt.Sprintln(written("0", jobColumns(&j))...), "\n")
}
