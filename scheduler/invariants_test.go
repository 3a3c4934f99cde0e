package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// simulation is a cluster at which everything happens. All the time:
//
//   - a key is claimed once, and the tokens of a job's claims never fall;
//   - an attempt is run once;
//   - no two runs of a job are alive unless it allows that;
//   - a replica has no more runs than slots.
//
// And at the end, when all is well again:
//
//   - each tick has a row or is counted by the one after it;
//   - each manual run has one row, and is over;
//   - every job goes on, and everything stops.
type simulation struct {
	*cluster
	random   *rand.Rand
	declared []jobs.Job
	triggers []jobs.Key

	opens    []opening           // guarded by mu, as all below
	claims   map[jobs.Key]uint64 // by whom
	newest   map[string]uint64   // token of a job's claims
	attempts map[string]bool
	running  map[string]int // by job and owner
}

// opening is a term's declaration of its jobs.
type opening struct {
	at        time.Time
	token     uint64
	schedules map[string]string
}

func (s *simulation) opened(h jobs.Holder, declared []jobs.Declared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := opening{at: time.Now().UTC().Round(time.Microsecond), token: h.Token, schedules: map[string]string{}}
	for _, d := range declared {
		o.schedules[d.Name] = d.Schedule
	}
	s.opens = append(s.opens, o)
}

func (s *simulation) claimed(h jobs.Holder, result []jobs.Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range result {
		token, had := s.claims[c.Key]
		switch {
		case !c.Mine && h.Token < c.Token:
			continue // it came too late
		case !c.Mine:
			s.Errorf("%v was claimed under %d although it was there: %+v", c.Key, h.Token, c.Record)
		case had && token != h.Token:
			s.Errorf("%v was claimed twice", c.Key)
		case h.Token < s.newest[c.Job]:
			s.Errorf("%v was claimed under an old token", c.Key)
		}
		s.claims[c.Key], s.newest[c.Job] = h.Token, h.Token
	}
}

func (s *simulation) begin(j jobs.Job, run jobs.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempt := fmt.Sprint(run.Key(), run.Attempt)
	if s.attempts[attempt] {
		s.Errorf("%s ran twice", attempt)
	}
	s.attempts[attempt] = true
	s.running[run.Owner]++
	s.running[run.Job]++
	if n := s.running[run.Owner]; n > simulatedSlots {
		s.Errorf("%d runs on a replica", n)
	}
	if n := s.running[run.Job]; n > 1 && (j.Overlap != jobs.OverlapAllow || j.Limit > 0 && n > j.Limit) {
		s.Errorf("%v: %d runs of %v at %v", run.Job, n, j.Overlap, time.Since(s.cluster.begin))
	}
}

func (s *simulation) end(_ jobs.Job, run jobs.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[run.Owner]--
	s.running[run.Job]--
}

// heal ends all that was done to the cluster, and gives it time.
func (s *simulation) heal() {
	for _, r := range s.replicas {
		r.link.set(func(l *link) {
			l.away = time.Time{}
			clear(l.lose)
			clear(l.fail)
			clear(l.hold)
			clear(l.delay)
		})
	}
	for _, job := range s.declared {
		_ = s.Resume(s.Context(), job.Name)
	}
	_ = s.Resume(s.Context(), "")
	for i := range 3 { // everybody has the same release
		s.replace(i, (*replica).stop)
	}
	time.Sleep(12 * time.Hour)
}

func (s *simulation) check() {
	end := time.Now()
	for _, r := range s.replicas {
		r.stop()
	}
	if n := len(s.attempts); n < 1000 {
		s.Errorf("only %d runs", n)
	}
	for _, key := range s.triggers {
		records := s.records(key.Job)
		i := slices.IndexFunc(records, func(r jobs.Record) bool { return r.Key == key })
		if i < 0 || !records[i].State.Over() && !recent(records[i], end) {
			s.Errorf("the manual run %v is not over", key)
		}
	}
	for _, job := range s.declared {
		s.checkTicks(job.Name)
		if job.Schedule.String() != "manual" {
			s.checkLive(job, end)
		}
	}
}

// recent reports a run that the end may have cut off.
func recent(r jobs.Record, end time.Time) bool { return end.Sub(r.Tick) < 2*time.Hour }

// checkLive reports a job that has stopped.
func (s *simulation) checkLive(job jobs.Job, end time.Time) {
	succeeded, newest := 0, time.Time{}
	for _, r := range s.records(job.Name) {
		if !r.State.Over() && !recent(r, end) {
			s.Errorf("%s, %v, %v: %v is %v", job.Name, job.Schedule, job.Overlap, r.Tick, r.State)
		}
		if r.State == jobs.Succeeded && end.Sub(r.Tick) < 12*time.Hour {
			succeeded++
		}
		if r.Trigger == 0 {
			newest = r.Tick
		}
	}
	if succeeded == 0 && job.Timeout == 0 || end.Sub(newest) > 2*time.Hour {
		s.Errorf("%s, %v: %d runs in the last 12 h, the newest tick is %v old", job.Name, job.Schedule, succeeded, end.Sub(newest))
	}
}

// checkTicks reports ticks of a job that neither have a row nor are counted.
func (s *simulation) checkTicks(job string) {
	var last time.Time
	for _, r := range s.records(job) {
		if r.Trigger > 0 {
			continue
		}
		schedule, since := s.ruling(job, s.claims[r.Key])
		if schedule == nil { // a fixed delay
			if r.Missed > 0 || !r.Tick.After(last) {
				s.Errorf("%s: %+v", job, r)
			}
			last = r.Tick
			continue
		}
		before := r.Tick
		for range r.Missed + 1 {
			before = schedule.(jobs.Backward).Prev(before)
		}
		switch {
		case last.After(since) && !before.Equal(last):
			s.Errorf("%s: the tick %v (missed %d) follows %v, not %v", job, r.Tick, r.Missed, last, before)
		case !last.After(since) && (before.After(since) || !schedule.Next(before).After(since.Add(-1))):
			s.Errorf("%s: the first tick since %v is %v (missed %d)", job, since, r.Tick, r.Missed)
		}
		last = r.Tick
	}
}

// ruling is the schedule of a job under a token, and since when it rules.
func (s *simulation) ruling(job string, token uint64) (schedule jobs.Schedule, since time.Time) {
	text := ""
	for _, o := range s.opens {
		if o.token > token {
			break
		}
		if t, ok := o.schedules[job]; ok && t != text {
			text, since = t, o.at
		}
	}
	return parse(text, since), since
}

// parse makes a schedule of its text, none of a fixed delay's.
func parse(text string, since time.Time) jobs.Schedule {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "every":
		d, _ := time.ParseDuration(rest)
		return jobs.Every(d)
	case "cron":
		return jobs.Cron(strings.Split(rest, `"`)[1])
	}
	if rest, ok := strings.CutPrefix(text, "fixed rate "); ok {
		every, initial, _ := strings.Cut(rest, ", initial delay ")
		d, _ := time.ParseDuration(every)
		i, _ := time.ParseDuration(initial)
		return jobs.FixedRate(d).InitialDelay(i).From(jobs.Known{ScheduleSince: since})
	}
	return nil
}
