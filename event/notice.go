package event

import "github.com/cronlease/cronlease/jobs"

// NoticeLeftOut says that a notifier is not told of something, because it has had as many
// notices as its limit allows (jobs.NotifySchedule.AtMost).
type NoticeLeftOut struct {
	Header
	// Notifier is the job that is not told, and Event what of.
	Notifier string
	Event    jobs.NoticeEvent
	// Key is the run that it would have been told of.
	jobs.Key
	// Again: the notifier was told the same of this job before, as far as this term knows.
	Again bool
	// First: of those that are not Again, it is the first one for as long as the limit counts.
	First bool
}
