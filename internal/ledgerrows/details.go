package ledgerrows

import (
	"encoding/json"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// FormatDetails writes the details of a run for stores that keep them as text: as JSON, and
// empty for the zero value.
func FormatDetails(d jobs.Details) string {
	if d == (jobs.Details{}) {
		return ""
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // of a type that JSON has no form for
	}
	return string(text)
}

// ClaimDetails are those of the row that a claim inserts.
func ClaimDetails(h store.Holder, c store.Claim) (d jobs.Details) {
	if h.Assigns && c.State == jobs.Waiting {
		d = c.Details
	}
	return d
}

// ParseDetails reads what [FormatDetails] writes. What it cannot read, as after a change by
// hand, is as if it were not there.
func ParseDetails(text string) (d jobs.Details) {
	if text != "" && json.Unmarshal([]byte(text), &d) != nil {
		return jobs.Details{}
	}
	return d
}
