package page

import (
	"net/url"
	"strconv"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// jobURL is the link to a job.
func jobURL(name string) string { return "job?" + url.Values{"name": {name}}.Encode() }

// runURL is the link to a run.
func runURL(key jobs.Key) string { return "run?" + keyValues(key).Encode() }

// keyValues are a run's key in a query: see keyOf.
func keyValues(key jobs.Key) url.Values {
	return url.Values{"job": {key.Job}, "tick": {key.Tick.UTC().Format(time.RFC3339Nano)}, "trigger": {strconv.FormatUint(key.Trigger, 10)}}
}
