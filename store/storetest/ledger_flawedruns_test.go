package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func (s *ledgerReplica) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	if err := s.ended(ctx, "Claim"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, flaw := range []string{"store: not for two at once", "store: Prune and Claim not at once"} {
		done, err := s.alone(flaw)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	h.Group = s.name(h.Group)
	for _, c := range claims {
		if c.State != jobs.Running && c.State != jobs.Waiting && c.State != jobs.Skipped && !s.has("claim: as any state") {
			return nil, fmt.Errorf("state %v: must be running, waiting or skipped", c.State)
		}
		if err := s.checkFollowers(c.Then, "follow a claim: ticks"); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 && s.has("claim: fails with none") {
		return nil, errors.New("syntax error near ')'")
	}
	if h.Server != "" && h.Server != s.identity() && !s.has("claim: ignores the server") {
		return nil, store.ErrOtherServer
	}
	current := s.current(h, "claim")
	if s.has("claim: checks the fence, then writes") {
		s.elsewhere()
	}
	if !current && s.has("claim: the replaced get nothing of what is there") {
		return nil, store.ErrReplaced
	}
	s.asked = len(claims)
	if _, ok := s.calls[id]; !ok {
		s.calls[id] = len(claims)
	}
	there := 0
	for _, c := range claims {
		if s.find(h.Group, c.Key, "claim") != nil {
			there++
		}
	}
	if there > 0 && there < len(claims) && s.has("claim: fails beside what is there") {
		return nil, errors.New("duplicate key")
	}
	if there < len(claims) && !current &&
		(there == 0 || !s.has("claim: the replaced get what is there")) &&
		(claims[0].State == jobs.Running || !s.has("claim: checks the fence for running only")) {
		if s.has("follow a claim: the replaced") {
			return nil, errors.Join(store.ErrReplaced, s.follow(h, claims[0].Then, &ledgerRow{}))
		}
		return nil, store.ErrReplaced
	}
	claimed, newest := make([]store.Claimed, len(claims)), map[string]time.Time{}
	for _, c := range claims {
		if _, ok := newest[c.Job]; !ok {
			newest[c.Job] = s.newest(jobKey{h.Group, c.Job})
		}
	}
	for i, c := range claims {
		if s.has("claim: in the order of the call") {
			newest[c.Job] = s.newest(jobKey{h.Group, c.Job})
		}
		r := s.find(h.Group, c.Key, "claim")
		if s.has("claim: looks, then inserts") {
			s.elsewhere()
		}
		if r != nil && (s.has("claim: overwrites") || s.has("claim: overwrites what is over") && r.State.Over()) && r.id != id {
			r = nil
		}
		skip := i >= 500 && s.has("claim: at most 500") || there > 0 && s.has("claim: all or none") ||
			!current && s.has("claim: the replaced get what is there")
		if r == nil && !skip && s.refuses(h.Group, c, newest) {
			if err := s.followClaim(h, c, nil, false, false, i); err != nil {
				return nil, err
			}
			claimed[i].Key = c.Key
			if s.has("claim: a refusal has a state") {
				claimed[i].State = c.State
			}
			continue
		}
		if extended := s.extend(h, id, c, r, newest[c.Job]); extended != nil && !skip {
			claimed[i] = s.answer(h, id, c, extended, true)
			if s.has("extend: with followers") {
				if err := s.follow(h, c.Then, extended); err != nil {
					return nil, err
				}
			}
			continue
		}
		isNew := r == nil && !skip
		if isNew {
			var err error
			if r, err = s.newRow(h, id, c); err != nil {
				return nil, err
			}
			s.insert(r)
			if k := s.jobs[jobKey{h.Group, c.Job}]; k != nil && c.State == jobs.Skipped && s.has("claim: the job's Finished when skipped") {
				k.Finished = r.Finished
			}
			if c.Trigger != 0 && s.has("changes: with a manual claim") {
				s.changes[h.Group]++
			}
		}
		if r == nil {
			continue
		}
		again := there > 0 && r.id == id && s.has("follow a claim: beside what was claimed") && there < len(claims)
		if err := s.followClaim(h, c, r, isNew || again, r.id == id, i); err != nil {
			return nil, err
		}
		claimed[i] = s.answer(h, id, c, r, isNew)
		if s.has("claim: one row after the other") && i < len(claims)-1 {
			if s.elsewhere(); !s.current(h, "claim") {
				return nil, store.ErrReplaced
			}
		}
	}
	if s.has("claim: answers in the order of keys") {
		slices.SortFunc(claimed, func(a, b store.Claimed) int { return a.Tick.Compare(b.Tick) })
	}
	if s.has("changes: with Claim") {
		s.changes[h.Group]++
	}
	return claimed, nil
}

// newest is the job's newest scheduled tick, which claims compare.
func (d *ledgerDatabase) newest(k jobKey) time.Time {
	var newest time.Time
	for _, r := range d.runs {
		if r.group == k.group && (r.Job == k.job || d.has("claim: compares the newest of all jobs")) &&
			(r.Trigger == 0 || d.has("claim: compares the newest manual run")) &&
			(!r.State.Over() || !d.has("claim: compares the newest that is not over")) {
			newest = r.Tick
		}
	}
	return newest
}

// refuses reports whether a claim of a row that is not there is refused.
func (d *ledgerDatabase) refuses(group string, c store.Claim, newest map[string]time.Time) bool {
	at := newest[c.Job]
	late := !at.IsZero() && !c.Tick.After(at) && !d.has("claim: before the newest tick") &&
		(c.State != jobs.Skipped || !d.has("claim: skipped before the newest tick"))
	if c.Trigger != 0 {
		late = late && d.has("claim: no manual run before the newest tick")
	}
	known := d.jobs[jobKey{group, c.Job}]
	paused := d.paused[group] && !d.has("claim: ignores that the group is paused") ||
		known != nil && known.Paused && !d.has("claim: ignores that the job is paused") ||
		d.has("claim: ignores whose pause it is") && (d.paused["billing"] || known != nil && d.jobs[jobKey{"billing", c.Job}].Paused)
	switch {
	case c.Trigger != 0:
		paused = paused && d.has("claim: no manual run while it is paused")
	case c.State == jobs.Skipped:
		paused = paused && d.has("claim: not skipped while it is paused")
	case c.State == jobs.Waiting:
		paused = paused && !d.has("claim: waiting while it is paused")
	}
	return late || paused
}

// extend gives a row of skipped ticks one more, or returns nil. there is the claim's own.
func (s *ledgerReplica) extend(h store.Holder, id store.ClaimID, c store.Claim, there *ledgerRow, newest time.Time) *ledgerRow {
	switch {
	case c.Extends.IsZero() || s.has("extend: never"),
		c.State != jobs.Skipped && !s.has("extend: by a run"),
		c.Trigger != 0 && !s.has("extend: by a manual run"),
		len(c.Then) > 0 && !s.has("extend: with followers") && !s.has("extend: without its followers"):
		return nil
	case there != nil:
		if s.has("extend: again") && there.id == id {
			there.Missed += 1 + c.Missed
		}
		return nil
	}
	r := s.find(h.Group, jobs.Key{Job: c.Job, Tick: c.Extends}, "extend")
	text, err := s.errorText(c.Error, "Claim")
	if r == nil || err != nil ||
		r.State != jobs.Skipped && (!r.State.Over() || !s.has("extend: what is over")) && !s.has("extend: any state") ||
		r.Owner != h.Owner && !s.has("extend: any owner's") ||
		r.Token != h.Token && !s.has("extend: any term's") && (!s.has("extend: any owner's") || r.Owner == h.Owner) ||
		r.Error != text && !s.has("extend: for any reason") ||
		!c.Extends.Equal(newest) && !s.has("extend: any row") {
		return nil
	}
	i := slices.Index(s.runs, r)
	if !s.has("extend: leaves the row") {
		s.runs = slices.Delete(s.runs, i, i+1)
	}
	was := r
	r = &ledgerRow{group: was.group, id: id, asked: was.asked, Record: was.Record}
	r.Tick, r.Finished, r.Missed = c.Tick, s.now("Finished"), was.Missed+1+c.Missed
	switch {
	case s.has("extend: keeps the id"):
		r.id = was.id
	case s.has("extend: moves Claimed"):
		r.Claimed = r.Finished
	case s.has("extend: leaves Finished"):
		r.Finished = was.Finished
	case s.has("extend: does not count"):
		r.Missed = c.Missed
	case s.has("extend: counts all but itself"):
		r.Missed--
	case s.has("extend: counts itself alone"):
		r.Missed = was.Missed + 1
	}
	s.insert(r)
	return r
}

// answer is what a claim is told of its row.
func (s *ledgerReplica) answer(h store.Holder, id store.ClaimID, c store.Claim, r *ledgerRow, isNew bool) store.Claimed {
	answer := store.Claimed{Mine: r.id == id, Record: r.Record}
	switch {
	case s.has("claim: repeats whole calls only") && s.calls[id] != s.asked:
		answer.Mine = false
	case s.has("claim: mine by the token"):
		answer.Mine = r.Token == h.Token
	case s.has("claim: mine by the id and the token"):
		answer.Mine = r.id == id && r.Token == h.Token
	case s.has("claim: mine once"):
		answer.Mine = isNew
	case s.has("claim: mine while it is as claimed"):
		answer.Mine = r.id == id && r.State == c.State
	case s.has("claim: an empty id is mine"):
		answer.Mine = r.id == id || id == store.ClaimID{}
	case s.has("claim: answers what was asked for"):
		answer.State, answer.Missed = c.State, c.Missed
	case s.has("claim: answers nothing of others'") && !answer.Mine:
		answer.Record = jobs.Record{Key: c.Key}
	case s.has("claim: answers another instant") && isNew:
		answer.Claimed = answer.Claimed.Add(-time.Microsecond)
	}
	return answer
}

func (s *ledgerReplica) newRow(h store.Holder, id store.ClaimID, c store.Claim) (*ledgerRow, error) {
	text, err := s.errorText(c.Error, "Claim")
	if err != nil {
		return nil, err
	}
	r := &ledgerRow{group: h.Group, id: id, Record: jobs.Record{
		Key: s.key(c.Key, "claim"), State: c.State, Owner: h.Owner, Token: h.Token, Claimed: s.now("Claimed"), Missed: c.Missed, Error: text,
	}}
	switch c.State {
	case jobs.Running:
		r.Attempt, r.Started = 1, s.now("Started")
	case jobs.Waiting:
		r.Due = s.now("Due").Add(c.Delay.Truncate(time.Microsecond))
		switch {
		case s.has("claim: Due without the delay"):
			r.Due = s.now("Due")
		case s.has("claim: Due in whole seconds"):
			r.Due = s.now("Due").Add(c.Delay.Truncate(time.Second))
		case s.has("claim: Due in nanoseconds"):
			r.Due = s.now("Due").Add(c.Delay)
		case s.has("claim: Due after the tick"):
			r.Due = c.Tick.Add(c.Delay)
		}
	default:
		r.Finished = s.now("Finished")
	}
	switch {
	case s.has("claim: no Claimed"):
		r.Claimed = time.Time{}
	case s.has("claim: no Started"):
		r.Started = time.Time{}
	case s.has("claim: Started unless skipped") && c.State != jobs.Skipped:
		r.Started = s.now("Started")
	case s.has("claim: no Finished"):
		r.Finished = time.Time{}
	case s.has("claim: attempt 0"):
		r.Attempt = 0
	case s.has("claim: attempt 1 unless skipped") && c.State != jobs.Skipped:
		r.Attempt = 1
	case s.has("claim: no Missed"):
		r.Missed = 0
	case s.has("claim: Missed in a byte"):
		r.Missed = min(r.Missed, 255)
	case s.has("claim: no error"):
		r.Error = ""
	case s.has("claim: no token"):
		r.Token = 0
	}
	return r, nil
}

func (s *ledgerReplica) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	if err := s.ended(ctx, "Move"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Group = s.name(h.Group)
	if len(moves) == 0 && s.has("move: fails with none") {
		return nil, errors.New("syntax error near ')'")
	}
	for _, m := range moves {
		if err := s.checkFollowers(m.Then, "follow: ticks"); err != nil {
			return nil, err
		}
	}
	if h.Server != "" && h.Server != s.identity() && !s.has("move: ignores the server") {
		return nil, store.ErrOtherServer
	}
	current := s.current(h, "move")
	if s.has("move: checks the fence, then writes") {
		s.elsewhere()
	}
	moved := make([]bool, len(moves))
	if s.has("move: all or none") {
		for _, m := range moves {
			if r := s.find(h.Group, m.Key, "move"); r == nil || !s.expected(h, m, r) {
				return moved, nil
			}
		}
	}
	s.counted = map[string]bool{}
	some := false
	var verdicts []judged
	for i, m := range moves {
		if i >= 200 && s.has("move: at most 200") {
			break
		}
		was := ledgerRow{}
		if r := s.find(h.Group, m.Key, "move"); r != nil {
			was = *r
		}
		is, err := s.move(h, m, current || m.To != jobs.Running && s.has("move: checks the fence for starts only"))
		if err != nil {
			return nil, err
		}
		moved[i] = is
		some = some || is
		changed := is && (was.State != m.To || was.Owner != h.Owner || was.Token != h.Token || m.To == jobs.Running && was.Attempt == m.Attempt)
		if changed || is && s.has("follow: again") || current && s.has("follow: what is not moved") || !current && s.has("follow: the replaced") {
			if err := s.follow(h, m.Then, &was); err != nil {
				return nil, err
			}
		}
		verdicts = append(verdicts, judged{m, was.State != 0, current, is, changed})
		if s.has("move: one row after the other") && i < len(moves)-1 {
			s.elsewhere()
			current = s.current(h, "move")
		}
	}
	s.judge(h, verdicts)
	if !some && len(moves) > 0 && (!current && !s.has("move: the replaced get false") || s.has("move: ErrReplaced when nothing was moved")) ||
		!current && s.has("move: the replaced cannot repeat beside others") && slices.Contains(moved, false) {
		return nil, store.ErrReplaced
	}
	if s.has("changes: with Move") {
		s.changes[h.Group]++
	}
	if s.has("move: answers in the order of keys") {
		order := make([]int, len(moves))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return moves[a].Tick.Compare(moves[b].Tick) })
		sorted := make([]bool, len(moves))
		for i, at := range order {
			sorted[i] = moved[at]
		}
		return sorted, nil
	}
	return moved, nil
}

func (s *ledgerReplica) checkFollowers(then []store.Follower, ticks string) error {
	for _, f := range then {
		if f.Trigger == 0 && !s.has(ticks) {
			return errors.New("a follower without a trigger")
		}
		if f.Args != nil && !s.has("follow: any args") {
			if err := jobs.CheckArgs(f.Args); err != nil {
				return err
			}
		}
	}
	return nil
}

// followClaim inserts what follows a claim, by what became of it.
func (s *ledgerReplica) followClaim(h store.Holder, c store.Claim, r *ledgerRow, inserted, mine bool, before int) error {
	switch {
	case s.has("follow a claim: never"), before > 500 && s.has("follow a claim: at most 500"),
		c.State != jobs.Running && s.has("follow a claim: only what runs"):
		return nil
	case inserted, mine && s.has("follow a claim: again"), r != nil && s.has("follow a claim: what is there"),
		r == nil && s.has("follow a claim: what is refused"):
		if r == nil {
			r = &ledgerRow{}
		}
		return s.follow(h, c.Then, r)
	}
	return nil
}

// follow inserts what follows a run that was moved.
func (s *ledgerReplica) follow(h store.Holder, then []store.Follower, of *ledgerRow) error {
	if s.has("follow: none") {
		return nil
	}
	for i, f := range then {
		there := s.find(h.Group, f.Key, "follow")
		switch {
		case i > 0 && s.has("follow: only the first"):
			return nil
		case there != nil && s.has("follow: fails beside what is there"):
			return errors.New("duplicate key")
		case there != nil && !s.has("follow: overwrites"), of.CancelAsked && f.Backfill != "" && !s.has("follow: a backfill that was cancelled"),
			of.CancelAsked && s.has("follow: nothing that was cancelled"):
			continue
		}
		r := &ledgerRow{group: h.Group, args: of.args, Record: jobs.Record{
			Key: f.Key, State: jobs.Waiting, Owner: h.Owner, Token: h.Token, Claimed: s.now("Claimed"), Due: s.now("Due").Add(f.Delay),
			HasArgs: of.HasArgs, Backfill: f.Backfill,
		}}
		if f.Args != nil && !s.has("follow: args of the run alone") {
			r.args, r.HasArgs = f.Args, true
		} else if f.Args == nil && s.has("follow: args everywhere") {
			r.args, r.HasArgs = json.RawMessage(`null`), true
		}
		switch {
		case s.has("follow: no args"):
			r.args, r.HasArgs = nil, false
		case s.has("follow: of nobody"):
			r.Owner, r.Token = "", 0
		case s.has("follow: due at once"):
			r.Due = s.now("Due")
		case s.has("follow: no backfill"):
			r.Backfill = ""
		case s.has("follow: counts a change"):
			s.changed(h.Group, "Move")
		case s.has("follow: running"):
			r.State = jobs.Running
		}
		s.insert(r)
	}
	return nil
}

// expected reports whether the run is as the move has it.
func (s *ledgerReplica) expected(h store.Holder, m store.Move, r *ledgerRow) bool {
	return (r.State == m.From || s.has("move: ignores the state") && !r.State.Over()) &&
		(!r.State.Over() || s.has("move: from an end")) &&
		s.same(uint64(r.Attempt), uint64(m.Attempt), "move", "attempt") &&
		s.sameOwner(r.Owner, m.Owner, "move", "owner") && s.same(r.Token, m.Token, "move", "token") &&
		(!s.has("move: only runs of its own") || r.Owner == h.Owner && r.Token == h.Token || r.Owner == "") &&
		(!s.has("move: only rows with an owner") || r.Owner != "") &&
		(!s.has("move: not from waiting to an end") || r.State != jobs.Waiting || !m.To.Over())
}

func (s *ledgerReplica) move(h store.Holder, m store.Move, current bool) (bool, error) {
	text, err := s.errorText(m.Error, "Move")
	if err != nil {
		return false, err
	}
	r := s.find(h.Group, m.Key, "move")
	if r == nil {
		if current && s.has("move: inserts") {
			s.insert(&ledgerRow{group: h.Group, Record: jobs.Record{Key: m.Key, State: m.To, Owner: h.Owner, Token: h.Token}})
		}
		return false, nil
	}
	attempt := m.Attempt
	if m.To == jobs.Running {
		attempt++
	}
	again := r.State == m.To && r.Attempt == attempt && r.Owner == h.Owner && r.Token == h.Token
	switch {
	case s.has("move: waits anew") && m.From == jobs.Waiting && m.To == jobs.Waiting:
		again = false
	case s.has("move: again whatever the token") && r.State == m.To && r.Attempt == attempt && r.Owner == h.Owner:
		again = true
	case s.has("move: again whatever the attempt") && r.State == m.To && r.Owner == h.Owner && r.Token == h.Token:
		again = true
	case s.has("move: a rerun not again") && m.From == jobs.Running && m.To == jobs.Running:
		again = false
	case s.has("move: not again"), !current && s.has("move: the replaced cannot repeat"):
		again = false
	case s.has("move: again by the state alone") && r.State == m.To:
		again = true
	case s.has("move: again by the attempt") && r.Attempt == attempt && r.Owner == h.Owner && r.Token == h.Token && r.State != m.From:
		again = true
	}
	known := s.jobs[jobKey{h.Group, r.Job}]
	if again {
		if s.has("move: again in full") {
			s.write(h, m, r, attempt, text)
		}
		if s.has("move: the job's Finished again") && known != nil && m.To.Over() {
			known.Finished = s.now("Finished")
		}
		return true, nil
	}
	expected := s.expected(h, m, r)
	if s.has("move: looks, then writes") {
		s.elsewhere()
	}
	if !current || !expected {
		return false, nil
	}
	s.write(h, m, r, attempt, text)
	if m.To == jobs.Waiting && m.Trigger != 0 && s.has("changes: with the retry of a manual run") {
		s.changes[h.Group]++
	}
	if known != nil && (m.To.Over() || s.has("move: the job's Finished with each move")) {
		s.finish(h, r, known)
	}
	return true, nil
}

func (s *ledgerReplica) finish(h store.Holder, r *ledgerRow, known *jobs.Known) {
	if s.has("move: leaves the job's Finished") ||
		s.has("move: the job's Finished for the newest tick") && s.cursor(jobKey{h.Group, r.Job}, nil).After(r.Tick) ||
		s.has("move: the job's Finished only once") && !known.Finished.IsZero() ||
		s.has("move: the job's Finished not for manual runs") && r.Trigger != 0 {
		return
	}
	known.Finished = s.now("the job's Finished")
	if s.has("load: Started of the last that ended") && !r.Started.IsZero() ||
		r.Started.After(known.Started) && (!s.counted[r.Job] || !s.has("load: Started of the first that ends")) {
		known.Started, s.counted[r.Job] = r.Started, true
	}
	if !s.has("clock: machine's for the job's Finished") && !r.Finished.IsZero() {
		known.Finished = r.Finished // of the same statement
	}
	for k, other := range s.jobs {
		if k.group == h.Group && s.has("move: the Finished of all jobs") || k.job == r.Job && s.has("move: the Finished of all groups") {
			other.Finished = known.Finished
		}
	}
}

func (s *ledgerReplica) write(h store.Holder, m store.Move, r *ledgerRow, attempt int, text string) {
	was := r.Record
	r.State, r.Attempt, r.Owner, r.Token, r.Error = m.To, attempt, h.Owner, h.Token, text
	switch m.To {
	case jobs.Running:
		r.Started = s.now("Started")
	case jobs.Waiting:
		r.Due = s.now("the next attempt's Due").Add(m.Delay.Truncate(time.Microsecond))
		if s.has("move: Due without the delay") {
			r.Due = s.now("Due")
		}
	default:
		r.Finished = s.now("Finished")
	}
	switch {
	case s.has("move: leaves the attempt"):
		r.Attempt = was.Attempt
	case s.has("move: counts every attempt"):
		r.Attempt = was.Attempt + 1
	case s.has("move: no Started"):
		r.Started = was.Started
	case s.has("move: Started always"):
		r.Started = s.now("Started")
	case s.has("move: no Finished"):
		r.Finished = was.Finished
	case s.has("move: Finished always"):
		r.Finished = s.now("Finished")
	case s.has("move: clears Claimed"):
		r.Claimed = time.Time{}
	case s.has("move: clears Missed"):
		r.Missed = 0
	case s.has("move: leaves the error"):
		r.Error = was.Error
	case s.has("move: leaves the owner"):
		r.Owner = was.Owner
	case s.has("move: leaves the token"):
		r.Token = was.Token
	case s.has("args: lost by a start") && m.To == jobs.Running:
		r.args, r.HasArgs = nil, false
	case s.has("move: clears CancelAsked at a start") && m.To == jobs.Running:
		r.CancelAsked = false
	case s.has("move: clears CancelAsked"), s.has("move: clears CancelAsked at the end") && m.To.Over():
		r.CancelAsked = false
	}
}
