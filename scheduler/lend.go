package scheduler

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"maps"
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
)

// In a group whose runs are spread, the leader plans jobs that it does not have, too: each replica tells how it has
// declared those that the leader lacks ([jobs.Replica].Lent). So a deployment that adds or removes a job stops
// neither its ticks nor its runs, whichever release leads.

// lent is a declaration as one replica tells it to another. What is not in it, a leader does not need.
type lent struct {
	Schedule string
	Job      jobs.Job // without its schedule and function
}

// lend is the text of a job's declaration; empty: another replica cannot plan it, by its schedule. Jobs that follow
// others or tell of them are left to a leader that has them: a replica that lacks them could have no run of the
// others meanwhile ([term.canHave]). What they have to do waits.
func lend(job jobs.Job) string {
	switch job.Schedule.(type) {
	case jobs.AfterSchedule, jobs.NotifySchedule:
		return ""
	}
	l := lent{Schedule: job.Schedule.String(), Job: job}
	if _, ok := jobs.ParseSchedule(l.Schedule); !ok {
		return ""
	}
	l.Job.Schedule, l.Job.Do, l.Job.About = nil, nil, ""
	var b bytes.Buffer
	if gob.NewEncoder(&b).Encode(l) != nil {
		return ""
	}
	return b.String()
}

// lentJob is the job that a text of lend declares; false: this release cannot plan it.
func lentJob(text string) (job jobs.Job, ok bool) {
	var l lent
	if gob.NewDecoder(bytes.NewReader([]byte(text))).Decode(&l) != nil {
		return job, false
	}
	job = l.Job
	if job.Schedule, ok = jobs.ParseSchedule(l.Schedule); !ok {
		return job, false
	}
	job.Do = func(context.Context, jobs.Run) error {
		return jobs.Permanent(errors.New("scheduler: only other replicas have this job"))
	}
	return job, job.ValidateIn(true) == nil
}

// lends are the texts of the jobs of this replica that are in none of the leader's.
func (s *Scheduler) lends(leader map[string]jobs.ScheduleHash) map[string]string {
	all := map[string]string{}
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	for _, d := range s.list.all {
		if _, has := leader[d.Name]; has {
			continue
		}
		if d.lend == nil { // once: the next text could have the labels in another order
			text := lend(d.given)
			d.lend = &text
		}
		if *d.lend != "" {
			all[d.Name] = *d.lend
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

// borrow replaces what is borrowed.
func (l *list) borrow(texts map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if maps.Equal(texts, l.lent) {
		return
	}
	before := map[string]*declared{}
	for _, d := range l.borrowed {
		before[d.Name] = d
	}
	var now []*declared
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if d := before[name]; d != nil && l.lent[name] == texts[name] {
			now = append(now, d)
		} else if job, ok := lentJob(texts[name]); ok && job.Name == name {
			d := l.declare(job, false)
			d.borrowed = true
			if d.shards != nil {
				d.shards.borrowed = true
			}
			now = append(now, d)
		}
	}
	l.lent, l.borrowed = texts, now
	l.changed.give()
}

// planned are the jobs that this replica plans where runs are spread: its own, and those that it has borrowed.
func (l *list) planned() []*declared {
	all := slices.Clone(l.jobs())
	l.mu.Lock()
	defer l.mu.Unlock()
	own := map[string]bool{}
	for _, d := range all {
		own[d.Name] = true
	}
	for _, d := range l.borrowed {
		if own[d.Name] || d.shards != nil && own[d.shards.Name] {
			continue // until the replicas have read that
		}
		if all = append(all, d); d.shards != nil {
			all = append(all, d.shards)
		}
	}
	return all
}
