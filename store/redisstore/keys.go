package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// tickOffset is added to the microseconds of a tick, so that those before 1970 sort before the others.
const tickOffset = 1_000_000_000_000_000_000

// The ticks that a store takes.
var (
	firstTick = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	endOfTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// checkKey reports a key that no run has here.
func checkKey(k jobs.Key) error {
	if err := ledgerrows.CheckKey("redisstore", k); err != nil {
		return err
	}
	if k.Tick.Before(firstTick) || !k.Tick.Before(endOfTime) {
		return fmt.Errorf("redisstore: job %q: tick %v: must be of the years 1 to 9999", k.Job, k.Tick)
	}
	return nil
}

func checkKeys(k jobs.Key, then []store.Follower) error {
	if err := checkKey(k); err != nil {
		return err
	}
	for _, f := range then {
		if err := checkKey(f.Key); err != nil {
			return err
		}
	}
	return nil
}

// tickText is a tick as the keys have it.
func tickText(at time.Time) string {
	switch {
	case at.Before(firstTick):
		at = firstTick
	case at.After(endOfTime):
		at = endOfTime
	}
	return fmt.Sprintf("%019d", at.UnixMicro()+tickOffset)
}

func triggerText(trigger uint64) string { return fmt.Sprintf("%020d", trigger) }

// plainInstant is empty for the zero time.
func plainInstant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatInt(at.UnixMicro(), 10)
}

// upwards is the first whole microsecond that is not before an instant.
func upwards(at time.Time) time.Time { return at.Add(time.Microsecond - 1).Truncate(time.Microsecond) }

// Entries of the indexes of a group and of a job.
func groupEntry(k jobs.Key) string {
	return tickText(k.Tick) + " " + k.Job + " " + triggerText(k.Trigger)
}

func jobEntry(k jobs.Key) string { return tickText(k.Tick) + " " + triggerText(k.Trigger) }

// entryTick is the tick of an entry of either.
func (f *fields) entryTick(entry string) time.Time {
	tick, _, _ := strings.Cut(entry, " ")
	micros, err := strconv.ParseInt(tick, 10, 64)
	if err != nil {
		f.fail(entry, "a tick")
	}
	return time.UnixMicro(micros - tickOffset).UTC()
}

// keyArgs is a run's key as scripts take it.
func keyArgs(k jobs.Key) []any { return []any{k.Job, tickText(k.Tick), triggerText(k.Trigger)} }

// run is a record with the claim that wrote it.
type run struct {
	jobs.Record
	claim string
}

// run reads a row, as the scripts' function of that name answers it.
func (f *fields) run() run {
	row := f.nested()
	r := run{Record: jobs.Record{
		State: jobs.State(row.number()), Owner: row.optional(), Token: row.optionalNumber(), Attempt: int(row.optionalNumber()),
		Claimed: row.optionalInstant(), Started: row.optionalInstant(), Finished: row.optionalInstant(), Due: row.optionalInstant(),
		Missed: int(row.optionalNumber()), Error: row.optional(), CancelAsked: row.optional() == "1", Backfill: row.optional(),
	}}
	r.claim, r.HasArgs = row.optional(), row.number() == 1
	r.Job = row.text()
	r.Tick = row.entryTick(row.text())
	r.Trigger = row.number()
	f.keep(row)
	return r
}

func (f *fields) records() []jobs.Record {
	rows := f.nested()
	var all []jobs.Record
	for len(rows.values) > 0 && rows.err == nil {
		all = append(all, rows.run().Record)
	}
	f.keep(rows)
	return all
}
