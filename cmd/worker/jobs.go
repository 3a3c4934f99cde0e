package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/jobs"
)

// jobStatus is what worker jobs prints of a job. Its JSON form is relied on:
// keys are added, but never renamed or removed.
type jobStatus struct {
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	// Known: a leader has had the job, so that it can be triggered and paused.
	Known bool `json:"known"`
	// Paused is about the job, GroupPaused about all jobs of the group.
	Paused      bool `json:"paused"`
	GroupPaused bool `json:"group_paused"`
	// Next is the next tick. It is null when there is none, or when that
	// depends on the end of a run.
	Next    *time.Time `json:"next"`
	Running int        `json:"running"`
	Waiting int        `json:"waiting"`
	// Last is the newest run that is over.
	Last *runRecord `json:"last"`
}

func newJobs() *cobra.Command {
	var t target
	var asJSON bool
	command := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs: what runs, what is next, how the last run ended",
		Long: `List the jobs of the group: those that a leader has had, and with a
configuration file also those in it that none has had yet. NEXT is the next
tick by the schedule that the leader goes by.`,
		Example: `  worker jobs
  worker jobs --json | jq '.[] | select(.last.state == "failed")'`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			db, group, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			g := jobs.NewGroup(db, group)
			snapshot, err := g.Load(command.Context())
			if err != nil {
				return err
			}
			list := listJobs(snapshot, t.declared())
			for i := range list {
				if err := list[i].addLast(command, g); err != nil {
					return err
				}
			}
			return printJobs(command, list, snapshot.Now, asJSON)
		},
	}
	t.addFlags(command, true)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// declared are the schedules of the configuration's jobs.
func (t *target) declared() map[string]jobs.Schedule {
	schedules := map[string]jobs.Schedule{}
	if t.file != nil {
		for _, job := range t.file.Jobs {
			schedules[job.Name] = job.Schedule
		}
	}
	return schedules
}

// listJobs returns all jobs by name, without their last runs.
func listJobs(snapshot jobs.Snapshot, declared map[string]jobs.Schedule) []jobStatus {
	list := make([]jobStatus, 0, len(snapshot.Jobs))
	for name, schedule := range declared {
		if _, ok := snapshot.Jobs[name]; ok {
			continue
		}
		s := jobStatus{Name: name, Schedule: schedule.String(), GroupPaused: snapshot.Paused}
		if _, ok := schedule.(jobs.Relative); !ok {
			s.Next = instant(schedule.Next(snapshot.Now))
		}
		list = append(list, s)
	}
	for name, known := range snapshot.Jobs {
		s := jobStatus{Name: name, Schedule: known.Schedule, Known: true, Paused: known.Paused, GroupPaused: snapshot.Paused}
		for _, run := range snapshot.Open {
			switch {
			case run.Job != name:
			case run.State == jobs.Running:
				s.Running++
			default:
				s.Waiting++
			}
		}
		// The leader goes by the ledger's schedule, whatever the file says by now.
		schedule, ok := parseSchedule(known.Schedule)
		if d := declared[name]; !ok && d != nil && d.String() == known.Schedule {
			schedule, ok = d, true
		}
		if ok {
			s.Next = instant(nextTick(schedule, known, snapshot.Now, s.Running+s.Waiting > 0))
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b jobStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// nextTick is the first tick after now or, where there is none, one that is due
// and that nobody has claimed yet.
func nextTick(schedule jobs.Schedule, known jobs.Known, now time.Time, busy bool) time.Time {
	if _, ok := schedule.(jobs.FixedDelaySchedule); ok && busy {
		return time.Time{} // so long after the end of what runs
	}
	after := known.ScheduleSince
	if known.Cursor.After(after) {
		after = known.Cursor
	}
	if relative, ok := schedule.(jobs.Relative); ok {
		schedule = relative.From(known)
		if known.Cursor.IsZero() {
			after = after.Add(-1) // its first tick is the very instant
		}
	}
	next := schedule.Next(after)
	if next.After(now) {
		return next
	}
	if coming := schedule.Next(now); !coming.IsZero() {
		return coming
	}
	return next
}

// addLast finds the newest run that is over.
func (s *jobStatus) addLast(command *cobra.Command, g jobs.Group) error {
	if !s.Known {
		return nil
	}
	// Only those that are not over can be newer.
	records, err := g.Runs(command.Context(), jobs.Filter{Job: s.Name, Limit: s.Running + s.Waiting + 1})
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.State.Over() {
			last := recordOf(r)
			s.Last = &last
			break
		}
	}
	return nil
}

func printJobs(command *cobra.Command, list []jobStatus, now time.Time, asJSON bool) error {
	out := command.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no jobs: none has ever been led")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSCHEDULE\tPAUSED\tNEXT\tRUNNING\tLAST RUN") // Flush tells of errors
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, firstLine(s.Schedule), s.paused(), s.next(now), s.running(), s.last())
	}
	return table.Flush()
}

func (s jobStatus) paused() string {
	switch {
	case s.Paused && s.GroupPaused:
		return "job and group"
	case s.Paused:
		return "yes"
	case s.GroupPaused:
		return "group"
	default:
		return "no"
	}
}

func (s jobStatus) next(now time.Time) string {
	switch {
	case s.Next == nil:
		return "-"
	case !s.Next.After(now):
		return "due"
	default:
		return shown(s.Next)
	}
}

func (s jobStatus) running() string {
	switch {
	case !s.Known:
		return "never led"
	case s.Waiting > 0:
		return fmt.Sprintf("%d, %d waiting", s.Running, s.Waiting)
	default:
		return strconv.Itoa(s.Running)
	}
}

func (s jobStatus) last() string {
	if s.Last == nil {
		return "-"
	}
	return s.Last.State + " " + shown(&s.Last.Tick)
}

// names are the jobs that somebody may mean.
func names(snapshot jobs.Snapshot, declared map[string]jobs.Schedule) []string {
	all := map[string]jobs.Schedule{}
	maps.Copy(all, declared)
	for name := range snapshot.Jobs {
		all[name] = nil
	}
	return slices.Sorted(maps.Keys(all))
}
