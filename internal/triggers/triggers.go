// Package triggers has the numbers in the keys of runs beside the schedule, their
// triggers, that the scheduler chooses. Those that a ledger chooses are smaller, and so
// are tokens, for another century. All fit into the integers that JSON readers take.
package triggers

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

const (
	// First is the smallest of them.
	First     uint64 = 1 << 52
	backfill  uint64 = 1 << 51
	numbering        = backfill - 1
	// notice tells those of Notice from those of After.
	notice uint64 = 1 << 50
	// shard is the smallest number of a shard. Tokens reach it in 2077.
	shard     uint64 = 1<<51 | 1<<50
	shardBits        = 7 // of which shard it is, and of how many
)

// After is the number of the run that follows a job's run with that number in another
// job, under the same tick, if it succeeds in the term with that token. A tick that was
// passed over after it had succeeded is run again under its number in a later term: what
// follows it then has another number.
func After(job string, trigger, token uint64) uint64 {
	return First | hash(job, trigger, token)&(notice-1)
}

// IsAfter reports whether a number is one of After.
func IsAfter(n uint64) bool { return n >= First && n&(backfill|notice) == 0 }

// Notice is the number of the run that tells of an event of a job's run with that number,
// under the same tick, in the term with that token.
func Notice(event, job string, trigger, token uint64) uint64 {
	return First | notice | hash(event+"\x00"+job, trigger, token)&(notice-1)
}

// IsNotice reports whether a number is one of Notice.
func IsNotice(n uint64) bool { return n >= First && n&backfill == 0 && n&notice != 0 }

// Follows reports whether a number is one of After or of Notice: its run was inserted
// with something that happened to another one.
func Follows(n uint64) bool { return IsAfter(n) || IsNotice(n) }

// Shard is the number of the run that is part i, from 0, of the n parts of a run with that number, under the same tick. It is below those
// of the scheduler that a pause holds back: what it belongs to has begun.
func Shard(of uint64, i, n int) uint64 {
	return shard | parent(of)<<(2*shardBits) | uint64(n-1)<<shardBits | uint64(i)
}

// MaxShards is how many parts a run has at most.
const MaxShards = 1 << shardBits

func parent(of uint64) uint64 { return hash("shard", of) & (1<<(50-2*shardBits) - 1) }

// ShardOf is which part of how many a number of Shard stands for; n is zero for any other number.
func ShardOf(number uint64) (i, n int) {
	if number < shard || number >= First {
		return 0, 0
	}
	return int(number & (MaxShards - 1)), int(number>>shardBits&(MaxShards-1)) + 1
}

// IsShardOf reports whether a number is that of a part of a run with the other number.
func IsShardOf(number, of uint64) bool {
	_, n := ShardOf(number)
	return n > 0 && (number-shard)>>(2*shardBits) == parent(of)
}

func hash(text string, numbers ...uint64) uint64 {
	all := []byte(text + "\x00")
	for _, n := range numbers {
		all = binary.BigEndian.AppendUint64(all, n)
	}
	sum := sha256.Sum256(all)
	return binary.BigEndian.Uint64(sum[:8])
}

// A number of a backfill has the minute in which it was chosen, and this many random bits.
const randomBits = 25

// Backfill is a number for the runs of one backfill that is requested now.
func Backfill(now time.Time) uint64 {
	return First | backfill | uint64(now.Unix()/60)<<randomBits&numbering | rand.Uint64N(1<<randomBits)
}

// Requested is the minute in which a number of a backfill was chosen.
func Requested(backfill uint64) time.Time {
	return time.Unix(int64(backfill&numbering>>randomBits)*60, 0).UTC()
}

// KindOf is the kind of run that a number stands for, in one word.
func KindOf(n uint64) string {
	switch {
	case n == 0:
		return "schedule"
	case IsAfter(n):
		return "after"
	case IsNotice(n):
		return "notice"
	case IsBackfill(n):
		return "backfill"
	}
	if _, of := ShardOf(n); of > 0 {
		return "shard"
	}
	return "trigger"
}

// IsBackfill reports whether a number is one of Backfill.
func IsBackfill(n uint64) bool { return n >= First && n < First<<1 && n&backfill != 0 }
