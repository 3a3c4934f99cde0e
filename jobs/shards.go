package jobs

import (
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/internal/triggers"
)

// MaxShards is how many parts the runs of a job are divided into at most ([Job].Shards, and Everywhere where runs are spread).
const MaxShards = triggers.MaxShards

// ShardsOf is the name of the job that has the parts of a job's runs ([MaxShards]). The ledger knows it, and so do the
// page and the metrics.
func ShardsOf(job string) string { return job + "/shards" }

// ShardsSchedule is the schedule of the job that [ShardsOf] names: its runs are started by those of the job.
func ShardsSchedule(job string) ManualSchedule { return ManualSchedule{shardsOf: job} }

// checkShards reports what keeps the runs of the job from being divided.
func (j Job) checkShards() error {
	if j.Shards == 0 {
		return nil
	}
	var wrong []error
	refuse := func(is bool, format string, values ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, values...))
		}
	}
	refuse(j.Everywhere, "Shards does not apply to a job that runs everywhere: it runs on each replica")
	refuse(j.Shards < 0 || j.Shards > MaxShards, "Shards %d: must be from 1 to %d", j.Shards, MaxShards)
	refuse(!names.Valid(ShardsOf(j.Name)) && names.Valid(j.Name), "Shards: the name of a job with shards has at most %d bytes", 128-len(ShardsOf("")))
	_, notifies := j.Schedule.(NotifySchedule)
	refuse(notifies, "Shards does not apply to a job that tells of other jobs")
	refuse(j.Overlap.Replaces(), "Shards: overlap replace does not apply: a tick does not end the parts of the one before")
	refuse(j.ConcurrencyKey != "", "Shards: ConcurrencyKey does not apply: the parts of a run have the same arguments")
	refuse(j.Sticky, "Shards: Sticky does not apply: all parts would go to one replica")
	return errors.Join(wrong...)
}
