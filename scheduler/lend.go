package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
)

// In a group whose runs are spread, the leader plans jobs that it does not have, too: each replica tells how it has
// declared those that the leader lacks ([jobs.Replica].Lent). So a deployment that adds or removes a job stops
// neither its ticks nor its runs, whichever release leads.

// lent is a declaration as one replica tells it to another, in JSON.
type lent struct {
	jobs.Job           // without what follows
	Schedule string    // its text
	Do       *struct{} `json:",omitempty"`
	About    *struct{} `json:",omitempty"`
}

// What is longer than these is not lent, and not read: a leader is to plan its own jobs whatever others tell it.
const (
	lentMost         = 4 << 10
	lentScheduleMost = 2 << 10
	lentJobsMost     = 10_000
	// lentSlow is too long for the next ticks of a schedule to be found, and lentRead for texts to be read at a time: the
	// loop of the term does both.
	lentSlow = 20 * time.Millisecond
	lentRead = 200 * time.Millisecond
)

// isLent reports whether a job of that schedule is planned by leaders that lack it. Jobs that follow others or tell of
// them are left to a leader that has them: a replica that lacks them could have no run of the others meanwhile
// ([term.canHave]). What they have to do waits.
func isLent(s jobs.Schedule) bool {
	switch s := s.(type) {
	case jobs.AfterSchedule, jobs.NotifySchedule:
		return false
	case jobs.ManualSchedule:
		return s.ShardsOf() == ""
	}
	return true
}

// lend is the text of a job's declaration; empty: another replica cannot plan it.
func lend(job jobs.Job) string {
	l := lent{Job: job, Schedule: job.Schedule.String()}
	text, err := json.Marshal(l)
	if err != nil {
		return ""
	}
	if _, ok := lentJob(string(text)); !ok || !utf8.ValidString(l.Schedule) {
		return ""
	}
	return string(text)
}

// loan is what was read of a text.
type loan struct {
	text string
	job  jobs.Job
	ok   bool
}

// lentJob is the job that a text of lend declares; false: this release cannot plan it, or not soon enough. What takes long
// to check of a job, its lender has checked.
func lentJob(text string) (job jobs.Job, ok bool) {
	var l lent
	if len(text) > lentMost || json.Unmarshal([]byte(text), &l) != nil || len(l.Schedule) > lentScheduleMost {
		return job, false
	}
	job = l.Job
	if job.Schedule, ok = jobs.ParseSchedule(l.Schedule); !ok || !isLent(job.Schedule) {
		return job, false
	}
	job.Do = func(context.Context, jobs.Run) error {
		return jobs.Permanent(errors.New("scheduler: only other replicas have this job"))
	}
	if job.Jitter < 0 || job.PauseAfter < 0 {
		return job, false
	}
	checked := job
	checked.Jitter, checked.PauseAfter = 0, 0 // beside the longest and shortest of 1,000 gaps between ticks
	for range 3 {                             // once may be slow because of other programs
		began := time.Now()
		if err := checked.ValidateIn(true); err != nil {
			return job, false
		}
		if time.Since(began) < lentSlow {
			return job, true
		}
	}
	return job, false
}

// lends are the texts of the jobs of this replica that are in none of the leader's.
func (s *Scheduler) lends(leader map[string]jobs.ScheduleHash) map[string]string {
	all := map[string]string{}
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	for _, d := range s.list.all {
		if _, has := leader[d.Name]; has || len(all) == lentJobsMost {
			continue
		}
		if text := lend(d.given); text != "" {
			all[d.Name] = text
		}
	}
	return all
}

// borrow takes in the jobs that other replicas lend, for the term that this one leads. A replica that leaves lends
// nothing. If several lend a job, the declaration of the replica that began last counts.
func (s *Scheduler) borrow() {
	members, texts := s.crew.Members(), map[string]string{}
	slices.SortFunc(members, func(a, b crew.Member) int { return a.Told.Since.Compare(b.Told.Since) })
	for _, m := range members {
		if !m.Leaving {
			maps.Copy(texts, m.Told.Lent)
		}
	}
	s.list.borrow(texts)
}

// borrow replaces what is borrowed. Of a pool that this replica has, too, its own numbers count. Texts that take long to
// read are read in turns, the next of which begins after a second.
func (l *list) borrow(texts map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began, loans, more := time.Now(), map[string]loan{}, false
	before, pools := map[string]*declared{}, map[string]jobs.Pool{}
	for _, d := range l.borrowed {
		before[d.Name] = d
	}
	for _, d := range l.all {
		pools[d.given.Pool.Name] = d.given.Pool
	}
	var now []*declared
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		if i == lentJobsMost {
			break
		}
		is := l.loans[name]
		if is.text != texts[name] {
			if time.Since(began) > lentRead {
				more = true
				continue
			}
			job, ok := lentJob(texts[name])
			is = loan{texts[name], job, ok && job.Name == name}
		}
		if loans[name] = is; !is.ok {
			continue
		}
		job := is.job
		if pool, has := pools[job.Pool.Name]; !has {
			pools[job.Pool.Name] = job.Pool
		} else if pool.Name != "" {
			job.Pool = pool
		}
		d := before[name]
		if d == nil || l.loans[name].text != is.text || d.given.Pool != job.Complete().Pool {
			d = l.declareLent(job)
		}
		now = append(now, d)
	}
	if more {
		time.AfterFunc(time.Second, l.changed.give)
	}
	isSame := slices.Equal(now, l.borrowed)
	if l.loans, l.borrowed = loans, now; !isSame {
		l.changed.give()
	}
}

func (l *list) declareLent(job jobs.Job) *declared {
	d := l.declare(job, false)
	d.borrowed = true
	if d.shards != nil {
		d.shards.borrowed = true
	}
	return d
}

// planned are the jobs that this replica plans where runs are spread: its own, and those that it has borrowed.
func (l *list) planned() []*declared {
	all := slices.Clone(l.jobs())
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := map[string]bool{}
	for _, d := range all {
		taken[d.Name] = true
	}
	for _, d := range l.borrowed {
		if taken[d.Name] || d.shards != nil && taken[d.shards.Name] {
			continue // until the replicas have read that; or two jobs want one name
		}
		taken[d.Name] = true
		if all = append(all, d); d.shards != nil {
			all, taken[d.shards.Name] = append(all, d.shards), true
		}
	}
	return all
}
