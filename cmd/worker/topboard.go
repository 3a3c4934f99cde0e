package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/jobs"
)

// rosterEvery is how often the workers are read, which takes several statements.
const rosterEvery = 10 * time.Second

// topBoard is what worker top has read, and how it looks.
type topBoard struct {
	db     database
	group  string
	target *target

	leadership election.Leadership
	roster     jobs.Roster
	rosterAt   time.Time
	terms      []jobs.Term
	snapshot   jobs.Snapshot
	list       []jobStatus
	last       map[string]*runRecord

	readAt time.Time // of what there is; zero before the first reading
	began  time.Time // of top
	failed error     // of the last reading
}

func newTopBoard(db database, group string, t *target) *topBoard {
	return &topBoard{db: db, group: group, target: t, began: time.Now()}
}

// look reads everything again. After an error it keeps what it had.
func (b *topBoard) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, topAnswer)
	defer cancel()
	if b.failed = b.read(ctx); b.failed == nil {
		b.readAt = time.Now()
	}
}

func (b *topBoard) read(ctx context.Context) error {
	g := jobs.NewGroup(b.db, b.group)
	l, err := election.Leader(ctx, b.db, b.group)
	if err != nil {
		return err
	}
	snapshot, err := g.Load(ctx)
	if err != nil {
		return err
	}
	if time.Since(b.rosterAt) > rosterEvery || l.Token != b.leadership.Token {
		b.roster, b.rosterAt = rosterUnder(readRoster(ctx, g), l), time.Now()
		b.terms, _ = g.Terms(ctx, jobs.TermFilter{Limit: 4}) // stores and tables of before have none
	}
	list := addNotLed(listJobs(snapshot, b.target.declared()), b.roster)
	if err := b.addLast(ctx, g, snapshot, list); err != nil {
		return err
	}
	b.leadership, b.snapshot, b.list = l, snapshot, list
	return nil
}

// addLast is [addLast], which after the first time reads only the newest runs of the group.
func (b *topBoard) addLast(ctx context.Context, g jobs.Group, snapshot jobs.Snapshot, list []jobStatus) error {
	if b.last == nil {
		if err := addLast(ctx, g, snapshot, list); err != nil {
			return err
		}
		b.last = map[string]*runRecord{}
		for _, s := range list {
			b.last[s.Name] = s.Last
		}
		return nil
	}
	newest, err := g.Runs(ctx, jobs.Filter{Limit: 500 + len(snapshot.Open)})
	if err != nil {
		return err
	}
	for name, r := range lastOf(newest) {
		b.last[name] = r
	}
	for i := range list {
		list[i].Last = b.last[list[i].Name]
	}
	return nil
}

// lines are a frame of that size; zero: any.
func (b *topBoard) lines(width, height int) []string {
	lines := b.head()
	if b.failed != nil {
		since := b.readAt
		if since.IsZero() {
			since = b.began
		}
		lines = append(lines, fmt.Sprintf("NO ANSWER from the database for %s: %s", ago(time.Since(since)), strings.Join(strings.Fields(printableText(b.failed.Error())), " ")))
	}
	if !b.readAt.IsZero() {
		lines = append(lines, "")
		table := b.table(width)
		if most := height - len(lines); height > 0 && len(table) > max(most, 2) {
			more := len(table) - max(most, 2) + 1
			table = append(table[:max(most, 2)-1], fmt.Sprintf("... and %d more", more))
		}
		lines = append(lines, table...)
	}
	for i := range lines {
		lines[i] = cutTo(lines[i], width)
	}
	return lines
}

func (b *topBoard) head() []string {
	if b.readAt.IsZero() {
		return []string{"group " + printable(b.group)}
	}
	s := newStatusOf(b.leadership)
	now := b.snapshot.Now
	lines := []string{fmt.Sprintf("group %s  %s by the database's clock", printable(b.group), now.UTC().Format("2006-01-02 15:04:05Z"))}
	age := ago(b.leadership.Age + time.Since(b.readAt))
	switch {
	case s.State == "none":
		lines = append(lines, "NOBODY LEADS, and nobody ever has")
	case s.State != "held":
		lines = append(lines, fmt.Sprintf("NOBODY LEADS (%s): last %s, %s ago", s.State, printable(s.Owner), age))
	default:
		at, _ := overdue.TermBegan(b.snapshot, b.leadership)
		line := fmt.Sprintf("leader %s for %s, token %d, heartbeat %s ago of %v", printable(s.Owner), ago(now.Sub(at)), s.Token, age, b.leadership.TTL)
		if s.ResignAsked {
			line += ", LEAVING"
		}
		lines = append(lines, line)
	}
	if states := replicaStates(b.roster, b.snapshot); len(states) > 0 {
		lines = append(lines, fmt.Sprintf("workers %d: %s", len(states), versionsOf(states)))
		for i := range states {
			if b.snapshot.Opened.Spread {
				lines = append(lines, "  "+states[i].work())
			}
		}
	}
	if len(b.terms) > 1 {
		lines = append(lines, "before "+b.before())
	}
	return append(lines, b.summary())
}

// before are the terms before the present one.
func (b *topBoard) before() string {
	var parts []string
	for _, t := range b.terms[1:] {
		part := printable(t.Owner)
		if !t.Began.IsZero() && !t.Ended.IsZero() {
			part += " for " + ago(t.Ended.Sub(t.Began))
		}
		if t.Why != "" {
			part += " (" + oneLine(t.Why) + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// summary counts the jobs.
func (b *topBoard) summary() string {
	running, waiting, failing, paused := 0, 0, 0, 0
	for _, s := range b.list {
		running += s.Running
		waiting += s.Waiting
		if s.fails() {
			failing++
		}
		if s.Paused {
			paused++
		}
	}
	text := fmt.Sprintf("jobs %d: %d running, %d waiting, %d failing, %d paused", len(b.list), running, waiting, failing, paused)
	o, _ := findOverdue(b.snapshot, b.target, b.leadership)
	if o != nil {
		text += fmt.Sprintf(", %d OVERDUE (%s for %s)", o.Jobs, printable(o.Job), ago(time.Duration(o.LateSeconds*float64(time.Second))))
	}
	if b.snapshot.Paused {
		text += ", THE GROUP IS PAUSED"
	}
	return text
}

// fails reports whether the last run did not succeed, of a job that still is one.
func (s jobStatus) fails() bool {
	if s.Last == nil || s.Removed || s.Gone != nil {
		return false
	}
	switch s.Last.State {
	case jobs.Failed.String(), jobs.TimedOut.String(), jobs.Panicked.String(), jobs.Interrupted.String():
		return true
	}
	return false
}

// rank is where a job stands in the table: what runs comes first.
func (s jobStatus) rank(now time.Time) int {
	switch {
	case s.Running > 0:
		return 0
	case s.Waiting > 0:
		return 1
	case s.Next != nil && now.Sub(s.Next.Time) > overdue.Sweeps && !s.Paused && !s.GroupPaused:
		return 2
	case s.fails():
		return 3
	case s.Next != nil:
		return 4
	default:
		return 5
	}
}

// table has a line for each job, and one before them. The names are cut for a narrow screen.
func (b *topBoard) table(width int) []string {
	now := b.snapshot.Now
	list := slices.Clone(b.list)
	slices.SortStableFunc(list, func(x, y jobStatus) int {
		if c := cmp.Compare(x.rank(now), y.rank(now)); c != 0 {
			return c
		}
		if x.Next != nil && y.Next != nil {
			return x.Next.Compare(y.Next.Time)
		}
		return 0 // by name, as they are
	})
	since := map[string]time.Time{} // of the oldest run that goes on
	for _, r := range b.snapshot.Open {
		if at, ok := since[r.Job]; r.State == jobs.Running && (!ok || r.Started.Before(at)) {
			since[r.Job] = r.Started
		}
	}
	rows := [][4]string{{"JOB", "NOW", "NEXT", "LAST"}}
	for _, s := range list {
		rows = append(rows, [4]string{printable(s.Name), s.now(now, since[s.Name]), s.nextIn(now), s.lastAgo(now)})
	}
	var widths [3]int
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	if width > 0 {
		widths[0] = min(widths[0], max(width*2/5, 8))
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = fmt.Sprintf("%-*s  %-*s  %-*s  %s", widths[0], cutTo(row[0], widths[0]), widths[1], row[1], widths[2], row[2], row[3])
	}
	return lines
}

// now is what the job does.
func (s jobStatus) now(now time.Time, since time.Time) string {
	var parts []string
	if s.Running > 0 {
		text := "running"
		if s.Running > 1 {
			text = fmt.Sprintf("%d running", s.Running)
		}
		if !since.IsZero() {
			text += " " + ago(now.Sub(since))
		}
		parts = append(parts, text)
	}
	if s.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", s.Waiting))
	}
	if s.Paused || s.GroupPaused {
		parts = append(parts, "paused")
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// nextIn is when the job is due.
func (s jobStatus) nextIn(now time.Time) string {
	switch {
	case s.Removed, s.NotLed, s.Gone != nil, s.After != "", s.Next == nil:
		return s.next(now, nil, s.Last)
	case !s.Next.After(now):
		return "due " + ago(now.Sub(s.Next.Time))
	default:
		return "in " + ago(s.Next.Sub(now))
	}
}

// lastAgo is how the last run ended.
func (s jobStatus) lastAgo(now time.Time) string {
	if s.Last == nil {
		return "-"
	}
	text := s.Last.State
	if s.Last.Finished != nil {
		text += " " + ago(now.Sub(s.Last.Finished.Time)) + " ago"
	}
	if s.Last.TookSeconds != nil {
		text += " (" + ago(time.Duration(*s.Last.TookSeconds*float64(time.Second))) + ")"
	}
	if s.fails() && s.Last.Error != "" {
		text += ": " + oneLine(printableText(s.Last.Error))
	}
	return text
}
