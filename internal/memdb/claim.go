package memdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// newest is the job's newest scheduled tick; zero when there is none.
func (l *ledger) newest(job string) time.Time {
	for _, r := range slices.Backward(l.runs[job]) {
		if r.Trigger == 0 {
			return r.Tick
		}
	}
	return time.Time{}
}

// refuses reports whether a claim of a row that is not there is refused. newest
// are the newest ticks before the call.
func (l *ledger) refuses(c store.Claim, newest map[string]time.Time) bool {
	if c.Trigger != 0 {
		return false
	}
	if at := newest[c.Job]; !at.IsZero() && !c.Tick.After(at) {
		return true
	}
	known := l.jobs[c.Job]
	return c.State != jobs.Skipped && (l.paused || known != nil && known.Paused)
}

// extend gives a row of skipped ticks one more, or returns nil: see [store.Claim].
func (l *ledger) extend(h store.Holder, id store.ClaimID, c store.Claim, newest, now time.Time) *run {
	if !ledgerrows.Extends(c) || !c.Extends.Equal(newest) {
		return nil
	}
	i, ok := l.find(jobs.Key{Job: c.Job, Tick: c.Extends})
	if !ok {
		return nil
	}
	r := l.runs[c.Job][i]
	if r.State != jobs.Skipped || r.Owner != h.Owner || r.Token != h.Token || r.Error != ledgerrows.CutError(c.Error) {
		return nil
	}
	l.runs[c.Job] = slices.Delete(l.runs[c.Job], i, i+1)
	r.Tick, r.id, r.Finished = c.Tick, id, now
	r.Missed += 1 + c.Missed
	l.insert(r)
	return r
}

// Claim implements [store.Ledger].
func (s *Store) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, c := range claims {
		if c.State != jobs.Running && c.State != jobs.Waiting && c.State != jobs.Skipped {
			return nil, fmt.Errorf("memstore: claim of job %q: state %v: must be running, waiting or skipped", c.Job, c.State)
		}
		if err := ledgerrows.CheckFollowers("memstore: claim", c.Key, c.Then); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.elsewhere(h) {
		return nil, store.ErrOtherServer
	}
	l, now, current := s.ledger(h.Group), s.now(), s.current(h)
	result, newest := make([]store.Claimed, len(claims)), map[string]time.Time{}
	for _, c := range claims {
		if _, ok := newest[c.Job]; !ok {
			newest[c.Job] = l.newest(c.Job)
		}
	}
	for i, c := range claims {
		r := l.get(c.Key)
		if r == nil {
			if !current {
				return nil, store.ErrReplaced
			}
			if l.refuses(c, newest) {
				result[i].Key = c.Key
				continue
			}
			if r = l.extend(h, id, c, newest[c.Job], now); r != nil {
				result[i] = store.Claimed{Mine: true, Record: r.Record}
				continue
			}
			r = &run{id: id, Record: jobs.Record{
				Key: c.Key, State: c.State, Owner: h.Owner, Token: h.Token,
				Claimed: now, Missed: c.Missed, Error: ledgerrows.CutError(c.Error),
			}}
			switch c.State {
			case jobs.Running:
				r.Attempt, r.Started = 1, now
			case jobs.Waiting:
				r.Due = now.Add(c.Delay.Truncate(time.Microsecond))
			default:
				r.Finished = now
			}
			l.insert(r)
			l.follow(r, c.Then, now)
		}
		result[i] = store.Claimed{Mine: r.id == id, Record: r.Record}
	}
	return result, nil
}
