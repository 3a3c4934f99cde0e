// Package triggers has the numbers in the keys of runs beside the schedule, their
// triggers, that the scheduler chooses. Those that a ledger chooses are smaller, and so
// are tokens, for another century. All fit into the integers that JSON readers take.
package triggers

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

const (
	// First is the smallest of them.
	First     uint64 = 1 << 52
	backfill  uint64 = 1 << 51
	numbering        = backfill - 1
)

// After is the number of the run that follows a job's run with that number in another
// job, under the same tick, if it succeeds in the term with that token. A tick that was
// passed over after it had succeeded is run again under its number in a later term: what
// follows it then has another number.
func After(job string, trigger, token uint64) uint64 {
	text := binary.BigEndian.AppendUint64([]byte(job+"\x00"), trigger)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, token))
	return First | binary.BigEndian.Uint64(sum[:8])&numbering
}

// IsAfter reports whether a number is one of After.
func IsAfter(n uint64) bool { return n >= First && n&backfill == 0 }

// Backfill is a number for the runs of one backfill.
func Backfill() uint64 { return First | backfill | rand.Uint64()&numbering }

// IsBackfill reports whether a number is one of Backfill.
func IsBackfill(n uint64) bool { return n >= First && n < First<<1 && n&backfill != 0 }
