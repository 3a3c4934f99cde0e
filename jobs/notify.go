package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cronlease/cronlease/internal/names"
)

// NoticeEvent is what a notice tells of.
type NoticeEvent string

// The events.
const (
	// NoticeFailure: a run is over without success, and is not tried again. It failed,
	// timed out, panicked, or was interrupted: its holder died, or its term ended in the middle
	// of it. A run that was cancelled on request, replaced by a newer tick or skipped is no
	// failure.
	NoticeFailure NoticeEvent = "failure"
	// NoticeRecovery: a run succeeded, and the job's outcome before it was a failure
	// ([Known.Failing]). Runs of backfills do not count, neither as the one nor as the other.
	NoticeRecovery NoticeEvent = "recovery"
	// NoticeMissed: ticks were not run at their time, because no replica could run them or
	// it was too late, as [Misfire] and [CatchUp] say. A tick that is run late is not missed,
	// nor are ticks that a pause or [Overlap] leaves out. One notice tells of all that are dealt
	// with together: they have one row in the ledger.
	NoticeMissed NoticeEvent = "missed"
	// NoticeTest: a notifier was triggered by hand, without arguments. Nothing has happened.
	NoticeTest NoticeEvent = "test"
)

var noticeEvents = [3]NoticeEvent{NoticeFailure, NoticeRecovery, NoticeMissed}

// Notice is what a notifier is told: the arguments of its run. [ArgsOf] decodes them,
// ArgsOf[Notice](run). As JSON it has all keys always. New ones may come with any version.
type Notice struct {
	Event NoticeEvent `json:"event"`
	Group string      `json:"group"`
	// Job, Tick and Trigger are the key of the run that it tells of. For NoticeMissed it
	// is the run that stands for the ticks, or the newest one of those that were skipped.
	Job     string    `json:"job"`
	Tick    time.Time `json:"tick"`
	Trigger uint64    `json:"trigger"`
	// Kind is what the run is due to: "schedule", "trigger", "after" or "backfill".
	Kind string `json:"kind"`
	// State, Attempt and Error are those of the run in the ledger. For NoticeMissed: of its claim.
	State   State  `json:"state"`
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`
	// Owner is the replica that had the run.
	Owner string `json:"owner"`
	// Missed is how many ticks NoticeMissed tells of; from 10,000 on at least so many. It is
	// zero for all other events.
	Missed int `json:"missed"`
	// LeftOut is how many notices of this notifier were left out before this one, because
	// of its limit.
	LeftOut int `json:"left_out"`
	// Text says it in a line, for people. Its wording may change.
	Text string `json:"text"`
}

// Describe is the line that Text has.
func (n Notice) Describe() string {
	of := n.Job + " (" + n.Group + ")"
	if n.Kind != "" {
		of = fmt.Sprintf("%s (%s, %s)", n.Job, n.Group, n.Tick.UTC().Format(time.RFC3339))
	}
	var text string
	switch n.Event {
	case NoticeFailure:
		text = of + " " + failedWords(n.State)
		if n.Attempt > 1 {
			text += " after " + plural(n.Attempt, "attempt")
		}
		if n.Error != "" {
			text += ": " + oneLine(n.Error)
		}
	case NoticeRecovery:
		text = of + " works again"
	case NoticeMissed:
		text = fmt.Sprintf("%s missed %s", of, plural(n.Missed, "tick"))
		if n.State == Skipped && n.Error != "" {
			text += ": " + oneLine(n.Error)
		}
	default:
		text = "a test of the notifier " + of
	}
	if n.LeftOut > 0 {
		text += fmt.Sprintf(" (%s left out before)", plural(n.LeftOut, "notice"))
	}
	return text
}

// oneLine is a text that is shown in a line: line ends, and what a terminal or a chat would
// take for an order, are spaces.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
}

func failedWords(s State) string {
	if s == Interrupted || s == Cancelled || s == TimedOut {
		return "was " + map[State]string{Interrupted: "interrupted", Cancelled: "cut off", TimedOut: "stopped by its timeout"}[s]
	}
	return s.String()
}

// NotifySchedule makes a job tell of other jobs. See [OnFailure].
type NotifySchedule struct {
	on    [len(noticeEvents)]string // names joined by ", "; "*" for all
	limit int                       // zero: defaultNotices; negative: none
	per   time.Duration
	err   error
}

// Of a notifier without AtMost.
const (
	defaultNotices    = 20
	defaultNoticesPer = time.Hour
)

// Bounds on what is counted, which a term reads from the ledger when it begins.
const (
	maxNotices    = 1000
	maxNoticesPer = 7 * 24 * time.Hour
)

// OnFailure makes a job a notifier, as [OnRecovery] and [OnMissed] do: it is due once for each
// such event ([NoticeEvent]) of the jobs that are named, or of all jobs if none is, with a
// [Notice] as its arguments. The methods of the same names add events:
//
//	jobs.Job{Name: "tell", Schedule: jobs.OnFailure().OnRecovery().OnMissed("invoices"), Do: tell}
//
// A notice is a run of the notifier in the ledger. It is inserted with the outcome or the
// claim that it tells of, in one transaction, so that none is lost and none comes twice,
// also over a takeover. Its run then is one like any other: [Job.Recover] says what becomes
// of it when the leader dies in the middle of it, and [Job.Retry] how often it is tried again.
//
// The runs of a notifier wait in line for one another, as those of [After], and what they
// tell of waits for none of them: a slow notifier delays no other job. While as many as
// [CatchUp].Limit wait, or while the notifier or the group is paused, notices are recorded as
// skipped. Nothing is told of notifiers, so that there is no way round: they cannot be named,
// no job can be [After] one, and "all" jobs are all others. Nothing is told of
// jobs that run everywhere either, since their runs are not recorded.
//
// [NotifySchedule.AtMost] bounds how many notices there are.
func OnFailure(names ...string) NotifySchedule { return NotifySchedule{}.OnFailure(names...) }

// OnRecovery is as [OnFailure].
func OnRecovery(names ...string) NotifySchedule { return NotifySchedule{}.OnRecovery(names...) }

// OnMissed is as [OnFailure].
func OnMissed(names ...string) NotifySchedule { return NotifySchedule{}.OnMissed(names...) }

// OnFailure tells of failures, too. No names: of all jobs.
func (s NotifySchedule) OnFailure(names ...string) NotifySchedule { return s.with(0, names) }

// OnRecovery tells of recoveries, too. No names: of all jobs.
func (s NotifySchedule) OnRecovery(names ...string) NotifySchedule { return s.with(1, names) }

// OnMissed tells of missed ticks, too. No names: of all jobs.
func (s NotifySchedule) OnMissed(names ...string) NotifySchedule { return s.with(2, names) }

func (s NotifySchedule) with(event int, of []string) NotifySchedule {
	if s.on[event] = "*"; len(of) == 0 {
		return s
	}
	of = slices.Compact(slices.Sorted(slices.Values(of)))
	s.on[event] = strings.Join(of, ", ")
	for _, name := range of {
		if !names.Valid(name) {
			s.err = fmt.Errorf("on %s of %.150q: expected the name of a job", noticeEvents[event], name)
		}
	}
	return s
}

// AtMost bounds how many notices there are in any such span of time, from 1 s to 7 days:
// up to 1000 of them. Events beyond that get none; they are counted, and the next notice
// says how many there were ([Notice].LeftOut). No job uses the limit up: that a job still fails
// is told at intervals (per divided by a quarter of n, at least by two), and leaves a quarter of
// the limit for what is new. The recovery from a failure that was told is told in any case, and
// does not count. The leader counts. One that takes over goes on with the notices that the ledger
// has, and forgets how many were left out. Zero: without a limit. The
// default is 20 in an hour.
func (s NotifySchedule) AtMost(n int, per time.Duration) NotifySchedule {
	s.limit, s.per = n, per
	switch {
	case n < 0 || n > maxNotices:
		s.err = fmt.Errorf("at most %d notices: must be from 0 to %d", n, maxNotices)
	case n == 0:
		s.limit, s.per = -1, 0
	case per < time.Second || per > maxNoticesPer:
		s.err = fmt.Errorf("at most %d notices per %v: must be from 1s to %v", n, per, maxNoticesPer)
	}
	return s
}

// Limit is how many notices there are at most in any such span of time. False: there is
// no limit.
func (s NotifySchedule) Limit() (n int, per time.Duration, ok bool) {
	switch {
	case s.limit < 0:
		return 0, 0, false
	case s.limit == 0:
		return defaultNotices, defaultNoticesPer, true
	}
	return s.limit, s.per, true
}

// Jobs are those of which it tells that event. all: it tells it of all jobs.
func (s NotifySchedule) Jobs(event NoticeEvent) (named []string, all bool) {
	switch on := s.of(event); on {
	case "":
		return nil, false
	case "*":
		return nil, true
	default:
		return strings.Split(on, ", "), false
	}
}

func (s NotifySchedule) of(event NoticeEvent) string {
	if i := slices.Index(noticeEvents[:], event); i >= 0 {
		return s.on[i]
	}
	return ""
}

// Names reports whether it names a job.
func (s NotifySchedule) Names(job string) bool { return slices.Contains(s.named(), job) }

// named are all jobs that it names.
func (s NotifySchedule) named() (all []string) {
	for _, event := range noticeEvents {
		of, _ := s.Jobs(event)
		all = append(all, of...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// maxNamed bounds the text of the schedule, which the ledger keeps.
const maxNamed = 12_000

// Err reports names that no job can have, and limits that are none.
func (s NotifySchedule) Err() error {
	switch {
	case s.err != nil:
		return s.err
	case s.on == [len(noticeEvents)]string{}:
		return errors.New("a notifier without events: make the schedule with jobs.OnFailure, OnRecovery or OnMissed")
	case len(s.String()) > maxNamed:
		return fmt.Errorf("a notifier of jobs whose names have more than %d letters: name none, for all jobs, or divide them", maxNamed)
	}
	return nil
}

// Next implements [Schedule]: there are no ticks but those of other jobs.
func (s NotifySchedule) Next(time.Time) time.Time { return time.Time{} }

func (s NotifySchedule) String() string {
	var parts []string
	for i, event := range noticeEvents {
		switch s.on[i] {
		case "":
		case "*":
			parts = append(parts, "on "+string(event))
		default:
			parts = append(parts, "on "+string(event)+" of "+s.on[i])
		}
	}
	if n, per, ok := s.Limit(); ok {
		parts = append(parts, fmt.Sprintf("at most %d per %v", n, per))
	}
	return strings.Join(parts, "; ")
}

// guessNotify is guessSchedule for a notifier's text, and nil for any other.
func guessNotify(text string) Schedule {
	if !strings.HasPrefix(text, "on ") {
		return nil
	}
	s := NotifySchedule{}.AtMost(0, 0)
	for part := range strings.SplitSeq(text, "; ") {
		if limit, ok := strings.CutPrefix(part, "at most "); ok {
			count, per, _ := strings.Cut(limit, " per ")
			n, _ := strconv.Atoi(count)
			d, _ := time.ParseDuration(per)
			if s = s.AtMost(n, d); n == defaultNotices && d == defaultNoticesPer {
				s.limit, s.per = 0, 0
			}
			continue
		}
		event, of, some := strings.Cut(strings.TrimPrefix(part, "on "), " of ")
		i := slices.Index(noticeEvents[:], NoticeEvent(event))
		if i < 0 {
			return nil
		}
		if s = s.with(i, nil); some {
			s = s.with(i, strings.Split(of, ", "))
		}
	}
	return s
}

// words describes it to people: "when a job fails, recovers or misses a tick".
func (s NotifySchedule) words() string {
	verbs := [len(noticeEvents)]string{"fails", "recovers", "misses a tick"}
	var parts []string
	for i, of := range s.on {
		if of == "" || slices.Contains(s.on[:i], of) {
			continue
		}
		var does []string
		for k, same := range s.on {
			if same == of {
				does = append(does, verbs[k])
			}
		}
		parts = append(parts, "when "+ofWords(of)+" "+either(does))
	}
	return strings.Join(parts, "; ")
}

func ofWords(of string) string {
	named := strings.Split(of, ", ")
	switch {
	case of == "*":
		return "a job"
	case len(named) > 4:
		return fmt.Sprintf("one of %d jobs", len(named))
	}
	return either(named)
}

// either is "a, b or c".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// checkNotifier says what is wrong with what a notifier tells of.
func checkNotifier(schedules map[string]Schedule, name string, s NotifySchedule) error {
	for _, of := range s.named() {
		switch schedules[of].(type) {
		case nil:
			return noSuchJob(schedules, name, fmt.Sprintf("tells of %q", of), of)
		case NotifySchedule:
			return fmt.Errorf("jobs: job %q tells of %q, which tells of jobs itself: nothing is told of such jobs", name, of)
		}
	}
	return nil
}
