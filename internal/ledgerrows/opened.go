package ledgerrows

import (
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// What stands between the token and the cluster, by the mode.
const spread, gathered = " spread ", " gathered "

// FormatOpened writes the last term that declared its jobs, but for the instant, for stores that keep it as text: the
// token alone, or with the mode and the cluster. A group is spread if that has " spread " in it.
func FormatOpened(o jobs.Opened) string {
	text := strconv.FormatUint(o.Token, 10)
	switch {
	case o.Spread:
		text += spread + o.Cluster
	case o.Cluster != "":
		text += gathered + o.Cluster
	}
	return text
}

// ParseOpened reads what [FormatOpened] writes. What it cannot read, as after a change by hand, counts as no term: one row
// must not keep the group from its jobs.
func ParseOpened(text string, at time.Time) jobs.Opened {
	number, cluster, is := strings.Cut(text, spread)
	if !is {
		number, cluster, _ = strings.Cut(text, gathered)
	}
	token, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil:
		return jobs.Opened{}
	case token == 0:
		at = time.Time{}
	}
	return jobs.Opened{Token: token, At: at, Spread: is, Cluster: cluster}
}
