package torture

import (
	"fmt"
	"reflect"
)

// Summary counts what was in a history, or in several.
type Summary struct {
	Rounds int
	// Quiet counts the rounds in which the last leader released the lease after all faults had ended and without trouble,
	// so that no row may have been left open.
	Quiet int

	Workers, Killed, Paused, Starved, Faults int
	Terms                                    int
	Early                                    int // terms whose lease was taken before its time
	Crashes                                  int // leaders that were killed when all was well
	Unseen                                   int // terms that the ledger shows and no event: their process was killed when it had just begun to lead
	Runs, Stops                              int
	Holds                                    int // times a job was paused, or all
	Ticks                                    int // that had to be in the ledger
	Rows, Effects                            int
	Stored, Refused, Broken, Unknown, None   int // transactions, by their outcome
	Unfinished                               int // transactions whose process was killed before it knew the outcome
	LateActs                                 int // runs that a process started after its replacement, having just been absent
	Excused                                  int // runs whose context had not ended when another led, since their process was absent
	Tight                                    int // runs that were not over when another led, and whose context had ended less than the grace before
	Forgotten                                int // what would be wrong, had not a failover lost it
}

// Add adds the counts of other histories.
func (s *Summary) Add(other Summary) {
	sum, add := reflect.ValueOf(s).Elem(), reflect.ValueOf(other)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + add.Field(i).Int())
	}
}

// String is of several lines.
func (s Summary) String() string {
	return fmt.Sprintf(`%d faults on %d processes: %d times killed, %d paused, %d starved; %d of %d ends were quiet
%d terms (and %d unseen; %d taken early), %d crashes when all was well, %d runs, %d contexts ended, %d pauses of jobs
%d ticks, %d rows, %d effects
%d transactions stored, %d refused, %d broken, %d unknown, %d none, %d unfinished
%d late acts, %d late stops excused, %d tight, %d forgotten`,
		s.Faults, s.Workers, s.Killed, s.Paused, s.Starved, s.Quiet, s.Rounds,
		s.Terms, s.Unseen, s.Early, s.Crashes, s.Runs, s.Stops, s.Holds,
		s.Ticks, s.Rows, s.Effects,
		s.Stored, s.Refused, s.Broken, s.Unknown, s.None, s.Unfinished,
		s.LateActs, s.Excused, s.Tight, s.Forgotten)
}
