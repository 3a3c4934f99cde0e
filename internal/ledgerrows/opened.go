package ledgerrows

import (
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

const spread = " spread "

// FormatOpened writes the last term that declared its jobs, but for the instant, for stores that keep it as text: the token alone, or with the
// mode and the cluster.
func FormatOpened(o jobs.Opened) string {
	text := strconv.FormatUint(o.Token, 10)
	if o.Spread {
		text += spread + o.Cluster
	}
	return text
}

// ParseOpened reads what [FormatOpened] writes. What it cannot read, as after a change by hand, counts as no term: one row
// must not keep the group from its jobs.
func ParseOpened(text string, at time.Time) jobs.Opened {
	number, cluster, is := strings.Cut(text, spread)
	token, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil:
		return jobs.Opened{}
	case token == 0:
		at = time.Time{}
	}
	return jobs.Opened{Token: token, At: at, Spread: is, Cluster: cluster}
}
