package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/jobs"
)

// list is the jobs of this replica. It may change at any time: the term that this
// replica leads is told, and takes the change in with [term.relist].
type list struct {
	mu      sync.Mutex
	all     []*declared // in the order in which they came; only ever appended to, or replaced as a whole
	names   map[string]*declared
	spread  bool   // the group is
	changed signal // for the term
	moved   signal // the same for what runs everywhere
	given   signal // the same for what is assigned to this replica
	observe func() // is called after each change

	loans    map[string]loan // what other replicas lend, by name, as far as it was read, and
	borrowed []*declared     // what is planned of it: see lend.go
}

// declared is one declaration of a job: a job that is replaced has another one.
type declared struct {
	jobs.Job          // complete; where it has shards, as the whole is run
	given    jobs.Job // complete, as it was declared
	text     string   // of its schedule
	hash     jobs.ScheduleHash
	provided bool      // by the provider
	shards   *declared // the job of its shards; nil: it has none
	borrowed bool      // only other replicas have it
	onEach   bool      // its runs are the shards of a job that runs everywhere: each is for one replica
}

func newList(spread bool) *list {
	return &list{spread: spread, names: map[string]*declared{}, changed: make(chan struct{}, 1), moved: make(chan struct{}, 1), given: make(chan struct{}, 1), observe: func() {}}
}

func declare(job jobs.Job, provided bool) *declared {
	text := job.Schedule.String()
	d := &declared{Job: job.Complete(), given: job.Complete(), text: text, hash: jobs.HashSchedule(text), provided: provided}
	if d.Shards > 0 {
		d.divide()
	}
	return d
}

// declare is [declare] for a list: where runs are spread, those of a job that runs everywhere are divided.
func (l *list) declare(job jobs.Job, provided bool) *declared {
	d := declare(job, provided)
	if l.divides(job) && d.shards == nil {
		d.divide()
		d.Everywhere, d.shards.onEach = false, true
		d.On = job.On // while no replica has these, the run does not begin
	}
	return d
}

// divides reports whether the runs of a job have shards.
func (l *list) divides(job jobs.Job) bool { return job.Shards > 0 || job.Everywhere && l.spread }

// divide makes the job that was declared the whole, and the job of its shards.
func (d *declared) divide() {
	shards := jobs.Job{
		Name: jobs.ShardsOf(d.Name), Schedule: jobs.ShardsSchedule(d.Name), Overlap: jobs.OverlapAllow, About: d.About, History: d.History,
		Timeout: d.Timeout, Retry: d.Retry, Recover: d.Recover, Priority: d.Priority, Pool: d.Pool, On: d.On, Prefer: d.Prefer,
	}
	shards.History.Keep = min(shards.History.Keep, math.MaxInt32) * max(d.Shards, 1)
	do, name := d.Do, d.Name
	shards.Do = func(ctx context.Context, run jobs.Run) error {
		if run.Shards == 0 {
			return jobs.Permanent(fmt.Errorf("scheduler: job %q has the shards of job %q: trigger that one", run.Job, name))
		}
		return do(ctx, run)
	}
	d.shards = declare(shards, d.provided)
	d.Timeout, d.Retry, d.Priority, d.Pool, d.On, d.Prefer = 0, jobs.Retry{}, jobs.PriorityNormal, jobs.Pool{}, nil, nil
	d.Job = d.Complete()
}

// jobNames are the names of jobs.
func (l *list) jobNames() (all []string) {
	for _, d := range l.jobs() {
		all = append(all, d.Name)
	}
	return all
}

// jobs are those that there are now, with those of shards, and without those that each replica runs by itself. The slice is
// not changed any more.
func (l *list) jobs() []*declared {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.all, func(d *declared) bool { return d.Everywhere || d.shards != nil }) {
		return l.all
	}
	var all []*declared
	for _, d := range l.all {
		if !d.Everywhere {
			all = append(all, d)
		}
		if d.shards != nil {
			all = append(all, d.shards)
		}
	}
	return all
}

// everywhere are those that each replica runs by itself.
func (l *list) everywhere() []*declared {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(d *declared) bool { return !d.Everywhere })
}

// Job returns a job as this replica has it, with its defaults; false: it has none of that name.
// The leader may have another one of that name, as during a deployment.
func (s *Scheduler) Job(name string) (jobs.Job, bool) {
	if s.list == nil {
		return jobs.Job{}, false
	}
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	d := s.list.names[name]
	if d == nil {
		return jobs.Job{}, false
	}
	return d.given, true
}

// Everywhere returns the jobs that this replica runs by itself ([jobs.Job].Everywhere), in
// the order in which they came. The ledger does not know them. With [WithSpread] there are none.
func (s *Scheduler) Everywhere() []jobs.Job {
	if s.list == nil {
		return nil
	}
	var all []jobs.Job
	for _, d := range s.list.everywhere() {
		all = append(all, d.Job)
	}
	return all
}

func (l *list) tell() {
	l.observe()
	l.changed.give()
	l.moved.give()
	l.given.give()
}

func (l *list) add(add []jobs.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.check(add, func(job jobs.Job) error {
		if l.names[job.Name] != nil {
			return declaredTwice(job.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := l.checkNew(add); err != nil {
		return err
	}
	for _, job := range add {
		d := l.declare(job, false)
		l.all, l.names[job.Name] = append(l.all, d), d
	}
	l.tell()
	return nil
}

func (l *list) replace(with []jobs.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(with, func(job jobs.Job) error { return l.own(job.Name) }); err != nil {
		return err
	}
	if err := l.checkPipelines(with, nil); err != nil {
		return err
	}
	for _, job := range with {
		l.names[job.Name] = l.declare(job, false)
	}
	all := slices.Clone(l.all)
	for i, d := range all {
		all[i] = l.names[d.Name]
	}
	l.all = all
	l.tell()
	return nil
}

func (l *list) remove(names []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var wrong []error
	for _, name := range names {
		if err := l.own(name); err != nil {
			wrong = append(wrong, err)
		}
	}
	if wrong != nil {
		return errors.Join(wrong...)
	}
	gone := map[*declared]bool{}
	for _, name := range names {
		gone[l.names[name]] = true
	}
	if err := l.checkPipelines(nil, func(d *declared) bool { return gone[d] }); err != nil {
		return err
	}
	for d := range gone {
		delete(l.names, d.Name)
	}
	l.all = slices.DeleteFunc(slices.Clone(l.all), func(d *declared) bool { return gone[d] })
	l.tell()
	return nil
}

// set makes the jobs that the provider has given the given ones, or those that were
// added. It returns what was in place of them before.
func (l *list) set(given []jobs.Job, provided bool) (before []*declared, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.check(given, func(job jobs.Job) error {
		if d := l.names[job.Name]; d != nil && d.provided != provided {
			return declaredTwice(job.Name)
		}
		return nil
	})
	if err == nil {
		err = l.checkPipelines(given, func(d *declared) bool { return d.provided == provided })
	}
	if err != nil {
		return nil, err
	}
	var all []*declared
	for _, d := range l.all {
		if d.provided == provided {
			before = append(before, d)
			delete(l.names, d.Name)
		} else {
			all = append(all, d)
		}
	}
	for _, job := range given {
		d := l.declare(job, provided)
		all, l.names[job.Name] = append(all, d), d
	}
	l.all = all
	l.tell()
	return before, nil
}

// checkNew is checkPipelines for jobs that are added. What is there already follows none
// of them, so it looks at them alone, and at what they follow: jobs that are added one by one
// cost as much as all at once.
func (l *list) checkNew(add []jobs.Job) error {
	schedules := map[string]jobs.Schedule{}
	follows := func(names ...string) {
		for _, name := range names {
			d := l.names[name]
			if d == nil || d.Everywhere {
				continue
			}
			if _, notifier := d.Schedule.(jobs.NotifySchedule); !notifier {
				schedules[name] = jobs.Manual() // whatever it follows itself is right
			}
		}
	}
	for _, job := range add {
		if !job.Everywhere || l.spread {
			schedules[job.Name] = job.Schedule
		}
		switch s := job.Schedule.(type) {
		case jobs.AfterSchedule:
			follows(s.Job())
		case jobs.NotifySchedule:
			for _, event := range []jobs.NoticeEvent{jobs.NoticeFailure, jobs.NoticeRecovery, jobs.NoticeMissed} {
				named, _ := s.Jobs(event)
				follows(named...)
			}
		}
	}
	if len(jobs.CheckPipelines(schedules)) == 0 {
		return nil
	}
	return l.checkPipelines(add, nil) // which knows all names, to say what is wrong
}

// checkPipelines says what would be wrong with the jobs that follow others, after a
// change: with the given ones, and without those that are gone.
func (l *list) checkPipelines(given []jobs.Job, gone func(*declared) bool) error {
	schedules, everywhere := map[string]jobs.Schedule{}, map[string]bool{}
	set := func(job jobs.Job) {
		delete(schedules, job.Name)
		if everywhere[job.Name] = job.Everywhere && !l.spread; !everywhere[job.Name] {
			schedules[job.Name] = job.Schedule
		}
	}
	for _, d := range l.all {
		if gone == nil || !gone(d) {
			set(d.Job)
		}
	}
	for _, job := range given {
		set(job)
	}
	wrong := jobs.CheckPipelines(schedules)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		err := wrong[name]
		if after, ok := schedules[name].(jobs.AfterSchedule); ok && everywhere[after.Job()] {
			err = fmt.Errorf("scheduler: job %q is due after %q, which runs everywhere: no job can follow it, since its runs are not recorded", name, after.Job())
		}
		if notify, ok := schedules[name].(jobs.NotifySchedule); ok {
			for local, is := range everywhere {
				if is && notify.Names(local) {
					err = fmt.Errorf("scheduler: job %q tells of %q, which runs everywhere: nothing is told of it, since its runs are not recorded", name, local)
				}
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// own reports whether a job can be changed from outside: it has to be there, and
// not to come from the provider, which would bring it back.
func (l *list) own(name string) error {
	switch d := l.names[name]; {
	case d == nil:
		return fmt.Errorf("scheduler: %w: %.150q is not declared", jobs.ErrNoJob, name)
	case d.provided:
		return fmt.Errorf("scheduler: job %q comes from the provider: change what that gives, and call Reload", name)
	}
	return nil
}

// check says everything that is wrong with jobs: by themselves, with one another,
// and what may says.
func (l *list) check(given []jobs.Job, may func(jobs.Job) error) error {
	var wrong []error
	seen := map[string]bool{}
	for _, job := range given {
		if err := job.ValidateIn(l.spread); err != nil {
			wrong = append(wrong, err)
		}
		if err := l.checkShards(job, seen); err != nil {
			wrong = append(wrong, err)
		}
		if seen[job.Name] {
			wrong = append(wrong, declaredTwice(job.Name))
		} else if err := may(job); err != nil {
			wrong = append(wrong, err)
		}
		seen[job.Name] = true
		if l.divides(job) {
			seen[jobs.ShardsOf(job.Name)] = true
		}
	}
	return errors.Join(wrong...)
}

// checkShards says whether the job of a job's shards has the name of another job.
func (l *list) checkShards(job jobs.Job, seen map[string]bool) error {
	taken := func(of string) error {
		return fmt.Errorf("scheduler: job %.150q: its name is that of the shards of job %.150q", jobs.ShardsOf(of), of)
	}
	if shards := jobs.ShardsOf(job.Name); l.divides(job) && (seen[shards] || l.names[shards] != nil) {
		return taken(job.Name)
	}
	if of, is := strings.CutSuffix(job.Name, jobs.ShardsOf("")); is && l.names[of] != nil && l.names[of].shards != nil {
		return taken(of)
	}
	return nil
}

func declaredTwice(name string) error {
	return fmt.Errorf("scheduler: job %.150q is declared twice", name)
}

// listed is a list of names for a line of the log.
func listed(key string, list []string) zap.Field {
	return zap.Strings(key, names.First(list, names.Most))
}
