package ledgerrows

import "github.com/cronlease/cronlease/jobs"

// CountStarts raises each job's Started to the start of its runs that are not
// over: it is for stores that keep the starts of the others with the job.
func CountStarts(s jobs.Snapshot) {
	for _, r := range s.Open {
		if k, ok := s.Jobs[r.Job]; ok && r.Started.After(k.Started) {
			k.Started = r.Started
			s.Jobs[r.Job] = k
		}
	}
}
