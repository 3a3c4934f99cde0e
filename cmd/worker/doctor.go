package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// errUnwell is how doctor ends when it has found a problem.
var errUnwell = errors.New("not all is well")

// diagnosis is what worker doctor prints. Its JSON form is relied on: keys are added, but
// never renamed or removed, and neither are the names of checks.
type diagnosis struct {
	Group string `json:"group"`
	// Grade is the worst of the findings.
	Grade    store.Grade     `json:"grade"`
	Findings []store.Finding `json:"findings"`
}

func newDoctor() *cobra.Command {
	var t target
	var asJSON, strict bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look for everything that can be wrong, and name the cure",
		Long: `Look at the database (server, version, settings, grants, proxies, connections,
replication, durability, how long commits take, keys, growth), at the clocks, and at
the group: its leader, its workers and its jobs. Each finding is one line: ok,
unknown (it could not be found out), warning (it works, but less well or not for as long
as it should) or problem (the work or a guarantee is at stake now), with the cure.

It exits with 5 if there is a problem, with --strict also if there is a warning. It
reads, and to measure commits it writes a row of its own about twenty times, and removes it.
With a configuration file it also compares that with what the leader has. Run it with
the account of the workers: grants differ by account.`,
		Example: `  worker doctor --config worker.yaml
  worker doctor --json | jq '.findings[] | select(.grade != "ok")'`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			db, group, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			d := diagnosis{Group: group, Findings: examine(command.Context(), db, group, &t)}
			for _, f := range d.Findings {
				d.Grade = max(d.Grade, f.Grade)
			}
			if err := d.print(command, asJSON); err != nil {
				return err
			}
			if d.Grade == store.Problem || strict && d.Grade == store.Warning {
				return fmt.Errorf("%w with group %s: problems: %d, warnings: %d", errUnwell, printable(group), d.count(store.Problem), d.count(store.Warning))
			}
			return command.Context().Err()
		},
	}
	t.addFlags(command, true)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.Flags().BoolVar(&strict, "strict", false, "exit with 5 for warnings too")
	return command
}

func (d diagnosis) count(grade store.Grade) int {
	n := 0
	for _, f := range d.Findings {
		if f.Grade == grade {
			n++
		}
	}
	return n
}

func (d diagnosis) print(command *cobra.Command, asJSON bool) error {
	out := command.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(d)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	said := map[string]int{} // checks that could not be made, by why
	for _, f := range d.Findings {
		if f.Grade == store.Unknown {
			said[f.Text]++
		}
	}
	for _, f := range d.Findings {
		text := printableText(f.Text)
		if f.Cure != "" {
			text += ". Cure: " + printableText(f.Cure)
		}
		check := f.Check
		if n := said[f.Text]; f.Grade == store.Unknown && n != 1 {
			if n == 0 {
				continue
			}
			// Many lines that say the same hide the one that counts.
			said[f.Text] = 0
			check, text = fmt.Sprintf("%d checks", n), text+": "+strings.Join(d.checks(f), ", ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Grade, check, text) // Flush tells of errors
	}
	return table.Flush()
}

// checks are those with the same finding.
func (d diagnosis) checks(as store.Finding) []string {
	var names []string
	for _, f := range d.Findings {
		if f.Grade == as.Grade && f.Text == as.Text {
			names = append(names, f.Check)
		}
	}
	return names
}

// examineMost is how long doctor looks, so that it says something soon also where each statement takes long.
const examineMost = 40 * time.Second

var errExamineMost = fmt.Errorf("the examination has taken %v", examineMost)

// examine looks at the database, and where that answers, at the group.
func examine(ctx context.Context, db database, group string, t *target) []store.Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, examineMost, errExamineMost)
	defer cancel()
	e := groupExam{group: group, target: t}
	l, err := leaderSoon(ctx, db, group)
	var found []store.Finding
	if x, ok := db.(store.Examiner); ok {
		found = x.Examine(ctx, e.ttl(l))
	}
	for _, f := range found {
		if f.Grade == store.Problem {
			e.unfit = append(e.unfit, f.Check)
		}
	}
	if err != nil {
		e.check = "leader"
		e.cannot(err)
		return append(found, e.found...)
	}
	e.clock(ctx, db)
	for _, f := range e.found {
		if f.Grade == store.Problem {
			e.unfit = append(e.unfit, f.Check)
		}
	}
	e.leadership = l
	g := jobs.NewGroup(db, group)
	roster, told := g.Roster(ctx)
	e.roster = rosterUnder(roster, l)
	snapshot, err := g.Load(ctx)
	e.leader(snapshot)
	if told == nil {
		e.mode()
		e.replicas()
	} else {
		e.check = "replicas"
		e.cannot(told)
	}
	if err != nil {
		e.check = "jobs"
		e.cannot(err)
		return append(found, e.found...)
	}
	e.snapshot = snapshot
	e.jobs(ctx, g)
	return append(found, e.found...)
}

// leaderSoon reads who leads, and gives up soon: what is wrong with a database that does not
// answer, the examination says.
func leaderSoon(ctx context.Context, db database, group string) (election.Leadership, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return election.Leader(ctx, db, group)
}

// ttl is that of the group's leases: the file's, else the row's.
func (e *groupExam) ttl(l election.Leadership) time.Duration {
	if e.target.file != nil {
		return e.target.file.Lease.TTL
	}
	return l.TTL
}

// clockCheck is the check that says nothing about the database itself.
const clockCheck = "clock"

// skewTries is how often the clocks are compared: the quickest answer tells most.
const skewTries = 5

// clock compares the database's clock with this machine's.
func (e *groupExam) clock(ctx context.Context, db database) {
	e.check = clockCheck
	var best lease.Skew
	for i := range skewTries {
		before := time.Now()
		rs, err := db.Read(ctx, e.group)
		if err != nil {
			e.say(store.Unknown, err.Error(), "")
			return
		}
		half := time.Since(before) / 2
		// Without the monotonic reading: what is compared are wall clocks.
		if skew := (lease.Skew{Ahead: rs[0].Now.Sub(before.Add(half).Round(0)), Bound: half}); i == 0 || skew.Bound < best.Bound {
			best = skew
		}
	}
	e.judgeSkew(best)
}

// judgeSkew judges the difference of the clocks.
func (e *groupExam) judgeSkew(skew lease.Skew) {
	most, byWorker := scheduler.DefaultMaxSkew, false
	if file := e.target.file; file != nil {
		if file.MaxSkew > 0 {
			most = file.MaxSkew
		}
		byWorker = file.Clock == scheduler.WorkerClock
	}
	off := skew.Ahead.Abs()
	e.skewed = off > time.Minute
	ahead := "ahead of"
	if skew.Ahead < 0 {
		ahead = "behind"
	}
	text := fmt.Sprintf("the database's clock is %v %s this machine's, to %v", off.Round(time.Millisecond), ahead, skew.Bound.Round(10*time.Microsecond))
	const cure = "let NTP set both clocks (timedatectl, chronyc tracking)"
	switch {
	case off-skew.Bound > most && !byWorker:
		e.say(store.Problem, text+fmt.Sprintf(", more than max_skew (%v): a worker here does not lead", most), cure)
	case off-skew.Bound > time.Second:
		e.say(store.Warning, text, cure)
	default:
		e.say(store.Good, text, "")
	}
}
