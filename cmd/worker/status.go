package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// status is what worker status prints. Its JSON form is relied on: keys are
// added, but never renamed or removed.
type status struct {
	Group string `json:"group"`
	// State is held, expired (no heartbeat for a TTL), released or none (there
	// has been no leader yet).
	State string `json:"state"`
	// Owner and Token name the present or the last leader.
	Owner               string  `json:"owner"`
	Token               uint64  `json:"token"`
	TTLSeconds          float64 `json:"ttl_seconds"`
	HeartbeatAgeSeconds float64 `json:"heartbeat_age_seconds"`
	ResignAsked         bool    `json:"resign_asked"`

	// What follows is what the ledger says. It is zero and null where it could not be
	// read, which is an error then.

	// Paused is about the whole group, PausedJobs are the jobs that are paused alone.
	Paused     bool     `json:"paused"`
	PausedJobs []string `json:"paused_jobs"`
	// PausedItself: the group is paused because its ledger had gone back, as PausedBy has
	// noticed at PausedAt, and not because a person wanted it.
	PausedItself bool   `json:"paused_itself"`
	PausedBy     string `json:"paused_by"`
	PausedAt     *stamp `json:"paused_at"`
	// Overdue is null when no tick is.
	Overdue *overdueTicks `json:"overdue"`
	// UnknownJobs have ticks that are overdue too, if the leader has these jobs:
	// without a configuration file nothing tells.
	UnknownJobs int `json:"unknown_jobs"`
	// OldRuns are running by the ledger, under an older token than the present one.
	OldRuns int `json:"old_runs"`
	// Spread: the runs of the group are spread over its workers. Unassigned are jobs with runs that are due and that no worker has.
	Spread     bool     `json:"spread"`
	Unassigned []string `json:"unassigned"`
	// Replicas are the workers that tell of themselves. NotLed are jobs of theirs that the
	// leader does not have, and Rescheduled those that it has under another schedule.
	Replicas    []replicaStatus `json:"replicas"`
	gone        string
	NotLed      []string `json:"not_led"`
	Rescheduled []string `json:"rescheduled"`
}

// errPausedItself is how status ends when the group has paused itself.
var errPausedItself = errors.New("the group has paused itself, because its ledger had gone back, as after a restore or a failover that lost commits: worker resume, or worker resume --skip-missed, lets it go on (docs/operating.md, The database was restored)")

// errNoLeader is how status ends when no worker leads.
var errNoLeader = errors.New("nobody leads the group")

func newStatus() *cobra.Command {
	var t target
	var asJSON bool
	command := &cobra.Command{
		Use:   "status",
		Short: "Say who leads the group, and whether its ticks are claimed",
		Long: `Say who leads the group, under which token, how old the last heartbeat is by the
database's clock, and what the database tells of the jobs: pauses, the oldest
tick that is due and not claimed, runs that an earlier leader left.

It exits with 3 when no worker leads: the lease was released, its last heartbeat is
older than its TTL, or there has been no leader yet. It exits with 4 when a worker
leads but has not claimed a tick for 10 seconds after it was due, or for the TTL (at
most a minute) if that is longer, when the ledger is gone or may not be read, or when the
group has paused itself because its ledger had gone back. Another pause is no error, nor
is a leader that drains.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			db, group, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			l, err := election.Leader(command.Context(), db, group)
			if err != nil {
				return err
			}
			s := newStatusOf(l)
			snapshot, ledger := jobs.NewGroup(db, group).Load(command.Context())
			if ledger == nil {
				s.take(snapshot, l, &t)
				s.pausedBy(command.Context(), jobs.NewGroup(db, group))
				roster := rosterUnder(readRoster(command.Context(), jobs.NewGroup(db, group)), l)
				s.compare(roster, snapshot)
				s.Unassigned = unassigned(snapshot, roster, &t)
			}
			if err := s.print(command, asJSON); err != nil {
				return err
			}
			switch {
			case s.State != "held":
				return errors.Join(fmt.Errorf("%w %s (%s)", errNoLeader, s.Group, s.State), ledger)
			case errors.Is(ledger, lease.ErrSetup): // missing tables or rights: no claim is possible either
				return fmt.Errorf("%w in group %s: %w", errNotClaimed, printable(s.Group), ledger)
			case s.PausedItself:
				return errPausedItself
			case ledger != nil:
				return fmt.Errorf("what the jobs do is not known: %w", ledger)
			}
			return s.Overdue.judge(snapshot, l)
		},
	}
	t.addFlags(command, true)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func newStatusOf(l election.Leadership) status {
	s := status{
		Group: l.Group, Owner: l.Owner, Token: l.Token,
		TTLSeconds: l.TTL.Seconds(), HeartbeatAgeSeconds: l.Age.Seconds(), ResignAsked: l.ResignAsked && !l.Released,
	}
	switch {
	case l.Owner == "":
		s.State = "none"
	case l.Released:
		s.State = "released"
	case l.Held():
		s.State = "held"
	default:
		s.State = "expired"
	}
	return s
}

// take takes in what the ledger says.
func (s *status) take(snapshot jobs.Snapshot, l election.Leadership, t *target) {
	s.Paused, s.PausedJobs = snapshot.Paused, []string{}
	for name, known := range snapshot.Jobs {
		if known.Paused {
			s.PausedJobs = append(s.PausedJobs, name)
		}
	}
	slices.Sort(s.PausedJobs)
	for _, r := range snapshot.Open {
		if snapshot.IsOfEarlierTerm(r, l.Token) {
			s.OldRuns++
		}
	}
	s.Spread = snapshot.Opened.Spread || snapshot.Opened.Assigns() // until a switch has happened
	s.Overdue, s.UnknownJobs = findOverdue(snapshot, t, l)
}

// pausedBy takes in who paused the group, where the audit tells.
func (s *status) pausedBy(ctx context.Context, g jobs.Group) {
	if !s.Paused {
		return
	}
	if by, err := g.PausedBy(ctx); err == nil && by.ID != 0 {
		s.PausedItself, s.PausedBy, s.PausedAt = by.Via == jobs.ViaScheduler, by.Name, jsontime.Of(by.At)
	}
}

// compare takes in what the workers tell.
func (s *status) compare(roster jobs.Roster, snapshot jobs.Snapshot) {
	d := roster.Differences()
	s.Replicas, s.gone = replicaStates(roster, snapshot), goneOf(roster)
	s.NotLed, s.Rescheduled = append([]string{}, d.NotLed...), append([]string{}, d.Rescheduled...)
}

func (s status) print(command *cobra.Command, asJSON bool) error {
	out := command.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	age := time.Duration(s.HeartbeatAgeSeconds * float64(time.Second)).Round(time.Millisecond)
	ttl := time.Duration(s.TTLSeconds * float64(time.Second))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, name+"\t"+format+"\n", args...) // Flush tells of errors
	}
	row("group", "%s", s.Group)
	switch s.State {
	case "none":
		row("leader", "nobody, and nobody has been")
		s.jobs(row)
		return table.Flush()
	case "released":
		row("leader", "nobody: the lease is released")
	case "expired":
		row("leader", "nobody: the lease has expired")
	default:
		row("leader", "%s", printable(s.Owner))
	}
	if s.State != "held" {
		row("last leader", "%s", printable(s.Owner))
	}
	row("token", "%d", s.Token)
	row("heartbeat", "%v ago", age)
	row("ttl", "%v", ttl)
	if s.ResignAsked {
		row("leaving", "the leader starts nothing new and steps down once its runs have ended, or are cancelled")
	}
	s.jobs(row)
	return table.Flush()
}

// jobs prints what the ledger says, as far as there is something to say.
func (s status) jobs(row func(name, format string, args ...any)) {
	if len(s.Replicas) > 0 {
		row("workers", "%d: %s", len(s.Replicas), versionsOf(s.Replicas))
	}
	for i := range s.Replicas {
		if s.Spread {
			row("", "%s", s.Replicas[i].work())
		}
	}
	if n := len(s.Unassigned); n > 0 {
		row("no worker", "runs of these jobs have been due, and no worker has them: %s", bounded(s.Unassigned))
	}
	if s.gone != "" {
		row("gone", "workers that the database does not see, or that cannot lead: %s", s.gone)
	}
	if n := len(s.NotLed); n > 0 {
		row("not led", "jobs of workers that the leader does not have: %d: %s", n, bounded(s.NotLed))
	}
	if n := len(s.Rescheduled); n > 0 {
		row("rescheduled", "jobs that the leader has under another schedule: %d: %s", n, bounded(s.Rescheduled))
	}
	switch {
	case s.PausedItself:
		row("paused", "the whole group, by itself, since %s: its ledger had gone back, as %s noticed", shown(s.PausedAt), printable(s.PausedBy))
	case s.Paused && s.PausedBy != "":
		row("paused", "the whole group, by %s, since %s", printable(s.PausedBy), shown(s.PausedAt))
	case s.Paused:
		row("paused", "the whole group")
	}
	if n := len(s.PausedJobs); n > 0 {
		const most = 10
		names := make([]string, min(n, most))
		for i := range names {
			names[i] = printable(s.PausedJobs[i])
		}
		if n > most {
			names = append(names, "...")
		}
		row("paused jobs", "%d: %s", n, strings.Join(names, ", "))
	}
	if o := s.Overdue; o != nil {
		late := time.Duration(o.LateSeconds * float64(time.Second)).Round(time.Second)
		row("overdue", "%s since %s (%v), jobs overdue: %d", printable(o.Job), shown(&o.Tick), late, o.Jobs)
	}
	if s.UnknownJobs > 0 {
		row("overdue?", "%d jobs, if the leader has them: --config tells", s.UnknownJobs)
	}
	if s.OldRuns > 0 {
		row("old runs", "%d, which an earlier leader has left", s.OldRuns)
	}
}
