package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// A group that is spread has long runs, too: each of these jobs has one that takes workTakes, every workEvery.
	workJobs  = 3
	workEvery = 8 * time.Second
	workTakes = 5 * time.Second
)

// idle stands for the long runs of a replica without any.
const idle = "nothing long"

// worked is that a long run has begun, or has ended.
type worked struct {
	job, owner string
	over, cut  bool
}

// work is the long runs of a demo.
type work struct {
	path      string              // of their requests
	events    chan worked         // of their requests
	going     map[string][]string // jobs by owner
	done      int                 // runs that have come to their end
	killed    int                 // runs that were cut off with their worker
	cutOthers int                 // runs that were cut off on a worker that was not killed
}

// serve holds the request of a long run for as long as it takes.
func (w *work) serve(ctx context.Context) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		tell := func(over, cut bool) {
			select {
			case w.events <- worked{r.Header.Get("Cronlease-Job"), r.Header.Get("Cronlease-Owner"), over, cut}:
			case <-ctx.Done():
			}
		}
		tell(false, false)
		select {
		case <-time.After(workTakes):
			tell(true, false)
		case <-r.Context().Done():
			tell(true, true)
		case <-ctx.Done():
		}
	}
}

// jobs are their declarations.
func (w *work) jobs(address string) string {
	var text strings.Builder
	for i := range workJobs {
		fmt.Fprintf(&text, "  - name: work-%d\n    every: %v\n    recover: rerun\n    timeout: 1m\n    http: {url: \"http://%s%s\"}\n", i+1, workEvery, address, w.path)
	}
	return text.String()
}

// worked takes in what a long run tells.
func (s *show) worked(e worked) {
	w := s.work
	if !e.over {
		w.going[e.owner] = append(w.going[e.owner], e.job)
		if s.board == nil {
			s.say("%s runs on %s", e.job, nameOf(e.owner))
		}
		return
	}
	w.going[e.owner] = slices.DeleteFunc(w.going[e.owner], func(job string) bool { return job == e.job })
	lives := slices.ContainsFunc(s.replicas, func(r *replica) bool { return r.process != nil && r.owns(e.owner) })
	switch {
	case !e.cut:
		w.done++
	case lives:
		w.cutOthers++
		s.say("%s was cut off on %s, which was not killed", e.job, nameOf(e.owner))
	default:
		w.killed++
		s.say("%s was cut off with %s: another worker runs it again once its lease is over", e.job, nameOf(e.owner))
	}
}

// of are the long runs of a replica, for people.
func (w *work) of(r *replica) string {
	for owner, jobs := range w.going {
		if len(jobs) > 0 && r.owns(owner) {
			return strings.Join(jobs, ", ")
		}
	}
	return idle
}

// others is what goes on while a replica is killed.
func (w *work) others(killed *replica, all []*replica) string {
	var parts []string
	for _, r := range all {
		if r != killed && r.process != nil {
			parts = append(parts, r.name+" goes on with "+w.of(r))
		}
	}
	return strings.Join(parts, ", ")
}
