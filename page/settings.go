package page

import (
	"cmp"
	"strconv"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// notRecorded says why little is known of a job that each replica runs by itself.
const notRecorded = "Its runs are not recorded: when it ran, and how that ended, is in the log and the metrics of each replica."

// maxAbout is how much of what a job does is shown, in bytes.
const maxAbout = 4 << 10

// everywhere are the jobs that the replica which shows the page runs by itself.
func (p *Page) everywhere() map[string]jobs.Job {
	if p.here == nil {
		return nil
	}
	all := map[string]jobs.Job{}
	for _, job := range p.here.Everywhere() {
		all[job.Name] = job
	}
	return all
}

// runningHere says since when a job that runs everywhere runs on this replica; empty: it does not.
func (v *viewer) runningHere(name string) string {
	if v.page.here == nil {
		return ""
	}
	for _, r := range v.page.here.Running() {
		if r.Job == name && r.Token == 0 {
			return "On the replica that shows this page it has been running for " + took(time.Since(r.Started)) + "."
		}
	}
	return ""
}

// settings are how a job is declared, as far as this replica has it; nil: it has not.
func (v *viewer) settings(name string) []pair {
	if v.page.here == nil {
		return nil
	}
	job, ok := v.page.here.Job(name)
	if !ok {
		return nil
	}
	var all []pair
	add := func(is bool, name, text string) {
		if is {
			all = append(all, pair{name, text})
		}
	}
	orNone := func(d time.Duration) string {
		if d == 0 {
			return "none"
		}
		return took(d)
	}
	about := job.About
	if len(about) > maxAbout {
		about = about[:maxAbout] + " …"
	}
	add(about != "", "Does", visible(about))
	add(true, "Timeout", orNone(job.Timeout))
	retry := "none"
	if job.Retry.Attempts > 1 {
		first := cmp.Or(job.Retry.Initial, time.Second)
		retry = count(job.Retry.Attempts) + " attempts, the second after about " + took(first)
		if most := job.Retry.Longest(job.Retry.Attempts - 1); most > first {
			retry += ", the last after at most " + took(most)
		}
	}
	add(true, "Retry", retry)
	add(job.Jitter > 0, "Jitter", "up to "+took(job.Jitter))
	if v.local[name].Everywhere {
		return all
	}
	misfire := job.Misfire.String()
	if job.Misfire.Each() {
		misfire += ", up to " + count(job.CatchUp.Limit) + " at a time"
	}
	if job.CatchUp.Deadline > 0 {
		misfire += ", none later than " + took(job.CatchUp.Deadline)
	}
	add(true, "Misfire", misfire)
	overlap := job.Overlap.String()
	if job.Limit > 0 {
		overlap += ", up to " + count(job.Limit) + " at a time"
	}
	add(true, "Overlap", overlap)
	add(true, "Recover", job.Recover.String())
	add(job.LockAtLeastFor > 0, "Locked for", "at least "+took(job.LockAtLeastFor))
	add(job.PauseAfter > 0, "Pause after", strconv.Itoa(job.PauseAfter)+" failures in a row")
	history := ""
	if job.History.Keep > 0 {
		history = counted(job.History.Keep, "run", "runs")
	}
	if job.History.For > 0 {
		if history != "" {
			history += ", "
		}
		history += "for " + took(job.History.For)
	}
	add(true, "History", history)
	return all
}
