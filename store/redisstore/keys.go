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
