package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/jobs"
)

// jobStatus is what worker jobs prints of a job. Its JSON form is relied on:
// keys are added, but never renamed or removed.
type jobStatus struct {
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	// Known: a leader has had the job, so that it can be triggered and paused.
	Known bool `json:"known"`
	// Removed: a leader has had the job, and the configuration file does not have
	// it. Without a file it is false: the ledger does not tell which jobs the
	// present leader has.
	Removed bool `json:"removed"`
	// NotLed: a worker has the job, and the leader does not have it.
	NotLed bool `json:"not_led"`
	// Gone is since when leaders do not have the job; null while the last one has it.
	Gone *stamp `json:"gone"`
	// Paused is about the job, GroupPaused about all jobs of the group.
	Paused      bool `json:"paused"`
	GroupPaused bool `json:"group_paused"`
	// Failures is how many runs in a row had failed when the job was paused.
	Failures int `json:"failures_before_pause"`
	// Next is the next tick. It is null when there is none, when that depends on
	// the end of a run, or when the job is removed or the leader does not have it.
	Next *stamp `json:"next"`
	// After is the job that it follows; empty for all others.
	After string `json:"after"`
	// Everywhere: each worker runs it by itself. Nothing is known of its runs.
	Everywhere bool `json:"everywhere"`

	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Last is the newest run that is over.
	Last *runRecord `json:"last"`
}

func newJobs() *cobra.Command {
	var t target
	var asJSON, local bool
	command := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs: what is running, what comes next, how the last run ended",
		Long: `List the jobs of the group: those that a leader has had, and with a
configuration file also those in it that none has had yet. NEXT is the next
tick by the schedule that the leader goes by, "after" another job or "not after"
it when that has not succeeded, "due" when its instant has come
and no leader has claimed it yet, "not led" when a worker has the job and the
leader does not, "not declared" when no worker has told that it has it since a
leader without it began, and "removed" when the configuration file does
not have the job any more. With --database instead of a file, a job that was
removed looks like one whose ticks are not claimed.`,
		Example: `  worker jobs
  worker jobs --json | jq '.[] | select(.last.state == "failed")'`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if err := checkLocal(command, local, asJSON); err != nil {
				return err
			}
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
			list := addNotLed(listJobs(snapshot, t.declared()), readRoster(command.Context(), g))
			for i := range list {
				list[i].Everywhere = t.isEverywhere(list[i].Name)
			}
			if err := addLast(command.Context(), g, snapshot, list); err != nil {
				return err
			}
			if err := addFailures(command.Context(), g, snapshot, list); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(command.OutOrStdout()).Encode(list)
			}
			var in zones
			if local {
				in = zonesOf(snapshot, t.declared())
			}
			return printJobs(command, list, snapshot.Now, in)
		},
	}
	t.addFlags(command, true)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	addLocal(command, &local)
	return command
}

// addLocal adds the flag that prints instants in the zones of the jobs.
func addLocal(command *cobra.Command, local *bool) {
	command.Flags().BoolVar(local, "local", false, "print times in the time zone of the job's schedule, instead of UTC")
}

// checkLocal refuses the flag beside --json, whose instants are in UTC.
func checkLocal(command *cobra.Command, local, asJSON bool) error {
	if local && asJSON {
		return usagef(command, "--local and --json exclude each other: JSON has instants in UTC")
	}
	return nil
}

// declared are the schedules of the configuration's jobs, and nil without a file.
func (t *target) declared() map[string]jobs.Schedule {
	if t.file == nil {
		return nil
	}
	schedules := map[string]jobs.Schedule{}
	for _, job := range t.file.Jobs {
		schedules[job.Name] = job.Schedule
		if t.file.Divides(job) {
			schedules[jobs.ShardsOf(job.Name)] = jobs.ShardsSchedule(job.Name)
		}
	}
	return schedules
}

// isEverywhere reports whether the configuration file has the job, and each worker runs it by itself.
func (t *target) isEverywhere(name string) bool {
	return t.file != nil && slices.ContainsFunc(t.file.Jobs, func(j config.Job) bool { return j.Name == name && t.file.RunsAlone(j) })
}

// listJobs returns all jobs by name, without their last runs. declared is nil
// where it is not known which jobs there are now.
func listJobs(snapshot jobs.Snapshot, declared map[string]jobs.Schedule) []jobStatus {
	list := make([]jobStatus, 0, len(snapshot.Jobs))
	for name, schedule := range declared {
		if _, ok := snapshot.Jobs[name]; ok {
			continue
		}
		s := jobStatus{Name: name, Schedule: schedule.String(), GroupPaused: snapshot.Paused}
		if _, ok := schedule.(jobs.Relative); !ok {
			s.Next = jsontime.Of(schedule.Next(snapshot.Now))
		}
		s.After = followed(schedule)
		list = append(list, s)
	}
	running, waiting := map[string]int{}, map[string]int{}
	for _, run := range snapshot.Open {
		if run.State == jobs.Running {
			running[run.Job]++
		} else {
			waiting[run.Job]++
		}
	}
	for name, known := range snapshot.Jobs {
		s := jobStatus{Name: name, Schedule: known.Schedule, Known: true, Paused: known.Paused, GroupPaused: snapshot.Paused}
		s.Running, s.Waiting = running[name], waiting[name]
		s.Removed = declared != nil && declared[name] == nil
		// The leader goes by the ledger's schedule, whatever the file says by now.
		schedule, ok := jobs.ParseSchedule(known.Schedule)
		if d := declared[name]; !ok && d != nil && d.String() == known.Schedule {
			schedule, ok = d, true
		}
		s.After = followed(schedule)
		s.Gone = jsontime.Of(known.Gone)
		if ok && !s.Removed && s.Gone == nil {
			known.Paused = known.Paused || snapshot.Paused
			s.Next = jsontime.Of(overdue.NextTick(schedule, known, snapshot.Now, s.Running+s.Waiting > 0))
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b jobStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// followed is the job that a schedule follows; empty for any other schedule.
func followed(s jobs.Schedule) string {
	after, _ := s.(jobs.AfterSchedule)
	return after.Job()
}

// addLast finds each job's newest run that is over. The newest runs of the whole
// group are one query, and have them for nearly all jobs. Only a job that has run
// and is not among them, as one that runs rarely beside many that run often, is
// asked for alone.
func addLast(ctx context.Context, g jobs.Group, snapshot jobs.Snapshot, list []jobStatus) error {
	limit := 1000 + 2*len(list) + len(snapshot.Open)
	newest, err := g.Runs(ctx, jobs.Filter{Limit: limit})
	if err != nil {
		return err
	}
	last := lastOf(newest)
	for i := range list {
		s := &list[i]
		s.Last = last[s.Name]
		known := snapshot.Jobs[s.Name]
		if s.Last != nil || len(newest) < limit || known.Cursor.IsZero() && known.Finished.IsZero() {
			continue // found, or there is none
		}
		// Only those that are not over can be newer.
		records, err := g.Runs(ctx, jobs.Filter{Job: s.Name, Limit: s.Running + s.Waiting + 1})
		if err != nil {
			return err
		}
		s.Last = lastOf(records)[s.Name]
	}
	return nil
}

// lastOf returns, by job, the first of the records that is over.
func lastOf(records []jobs.Record) map[string]*runRecord {
	last := map[string]*runRecord{}
	for _, r := range records {
		if r.State.Over() && last[r.Job] == nil {
			record := recordOf(r)
			last[r.Job] = &record
		}
	}
	return last
}

func printJobs(command *cobra.Command, list []jobStatus, now time.Time, in zones) error {
	out := command.OutOrStdout()
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no jobs: none has ever been led")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSCHEDULE\tPAUSED\tNEXT\tRUNNING\tLAST RUN") // Flush tells of errors
	last := map[string]*runRecord{}
	for _, s := range list {
		last[s.Name] = s.Last
	}
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(s.Name), oneLine(s.Schedule), s.paused(), s.next(now, in, last[s.After]), s.running(), s.last(in))
	}
	return table.Flush()
}

func (s jobStatus) paused() string {
	switch {
	case s.Paused && s.GroupPaused:
		return "job and group" + s.afterFailures()
	case s.Paused:
		return "yes" + s.afterFailures()
	case s.GroupPaused:
		return "group"
	default:
		return "no"
	}
}

// next is when the job is due. parent is the last run of the job that it follows.
func (s jobStatus) next(now time.Time, in zones, parent *runRecord) string {
	switch {
	case s.Removed:
		return "removed"
	case s.NotLed:
		return "not led"
	case s.Gone != nil:
		return "not declared"
	case s.After != "" && parent != nil && parent.State != jobs.Succeeded.String():
		return "not after " + printable(s.After) + " " + parent.State
	case s.After != "":
		return "after " + printable(s.After)
	case s.Next == nil:
		return "-"
	case !s.Next.After(now):
		return "due"
	default:
		return shown(in.stampIn(s.Name, s.Next))
	}
}

func (s jobStatus) running() string {
	switch {
	case s.Everywhere:
		return "everywhere"
	case !s.Known:
		return "never led"
	case s.Waiting > 0:
		return fmt.Sprintf("%d, %d waiting", s.Running, s.Waiting)
	default:
		return strconv.Itoa(s.Running)
	}
}

func (s jobStatus) last(in zones) string {
	if s.Last == nil {
		return "-"
	}
	return s.Last.State + " " + shown(in.stampIn(s.Name, &s.Last.Tick))
}

// allJobs are the jobs that a misspelt name may stand for.
func allJobs(snapshot jobs.Snapshot, declared map[string]jobs.Schedule) []string {
	all := map[string]jobs.Schedule{}
	maps.Copy(all, declared)
	for name := range snapshot.Jobs {
		all[name] = nil
	}
	return slices.Sorted(maps.Keys(all))
}
