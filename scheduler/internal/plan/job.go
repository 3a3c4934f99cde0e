package plan

import (
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Job is a job of a term, as far as it is planned. Its user owns it: no method is called concurrently.
type Job struct {
	Cursor
	Room
	group     string
	listing   listing
	claiming  claiming
	first     time.Time // tick of the claims that have no answer
	parted    bool      // the ticks that were claimed last go on behind a pause
	concludes bool      // see Conclude
	behind    bool      // while it concludes: its ticks wait for the run that stands for those before a pause
	skipped   skipped
	denied    []jobs.Key // see WasRefused
	counts    int        // counts of failures that are under way
	pauses    []jobs.Pause
	left      map[jobs.Key]jobs.Record // see LeaveAlone
}

// New returns a job of which the ledger knows nothing yet.
func New(group string, job *jobs.Job) Job {
	return Job{Cursor: Cursor{job: job, schedule: job.Schedule}, group: group}
}
