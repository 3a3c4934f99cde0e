package plan

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// budget is how many notices a notifier may still have.
type budget struct {
	sent    []Told          // the newest notices that count, oldest first
	failing map[string]Told // of each job whose failure is the last that was told of it, and not its recovery
	leftOut int             // since the last one
	logged  time.Time       // when the log last said so
}

// Told is a notice that was sent.
type Told struct {
	At    time.Time
	Run   jobs.Key // of the notifier, if an earlier term has sent it
	job   string   // empty: an earlier term has sent it, and what it tells is not read yet
	event jobs.NoticeEvent
}

// take counts a notice, and returns what takes it back, or nil if its notifier must not have it.
// again says that the notifier was told the same of the job before.
//
// The limit is for all jobs together, so no job may use it up for the others:
//   - News takes what there is of the limit: that a job fails, works again, or misses ticks.
//   - A repeat is told at intervals, and leaves a quarter of the limit for news.
//   - A job that fails and works in turn gets a quarter of the limit.
//   - The recovery from a failure that was told is always told, so that nobody believes that the
//     job still fails, and does not count.
func (b *budget) take(n Told, most int, per time.Duration) (undo func(), again bool) {
	last, failing := b.failing[n.job]
	if n.event == jobs.NoticeRecovery && failing {
		delete(b.failing, n.job)
		return func() { b.failing[n.job] = last }, false
	}
	b.sent = slices.DeleteFunc(b.sent, func(x Told) bool { return n.At.Sub(x.At) >= per })
	share, of := max(2, most/4), 0
	for _, x := range b.sent {
		if x.job == n.job {
			if of++; x.event == n.event && n.event != jobs.NoticeFailure {
				last = x
			}
		}
	}
	again = last.event == n.event && n.At.Sub(last.At) < per
	ok := len(b.sent) < most
	if again {
		ok = n.At.Sub(last.At) >= per/time.Duration(share) && len(b.sent) < most-most/4
	} else {
		ok = ok && of < share
	}
	if !ok {
		b.leftOut++
		return nil, again
	}
	b.sent = append(b.sent, n)
	if n.event == jobs.NoticeFailure {
		b.fails(n)
	}
	return func() {
		b.sent = slices.DeleteFunc(b.sent, func(x Told) bool { return x == n })
		if b.failing[n.job] == n {
			delete(b.failing, n.job)
		}
	}, again
}

func (b *budget) fails(n Told) {
	if b.failing == nil {
		b.failing = map[string]Told{}
	}
	b.failing[n.job] = n
}

// first reports whether this is the first notice that is left out for as long as the limit
// counts.
func (b *budget) first(now time.Time, per time.Duration) bool {
	if !b.logged.IsZero() && now.Sub(b.logged) < per {
		return false
	}
	b.logged = now
	return true
}

// recall takes in what notices of an earlier term tell. Its recoveries from failures that were told do not
// count any more.
func (b *budget) recall(tells map[jobs.Key]jobs.Notice) {
	before := b.sent
	b.sent = nil
	for _, x := range before {
		if is, ok := tells[x.Run]; ok && x.job == "" {
			x.job, x.event = is.Job, is.Event
		}
		_, failing := b.failing[x.job]
		switch {
		case x.event == jobs.NoticeFailure:
			b.fails(x)
		case x.event == jobs.NoticeRecovery && failing:
			delete(b.failing, x.job)
			continue
		}
		b.sent = append(b.sent, x)
	}
}
