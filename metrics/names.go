package metrics

// other is the name of all jobs that have no series of their own. It is no valid name of a
// job.
const other = "(other)"

// names are the jobs that have series of their own.
type names struct {
	most  int
	known map[job]bool
}

type job struct{ group, name string }

func newNames(most int) names { return names{most, map[job]bool{}} }

// label is the name that a job has in labels.
func (n *names) label(group, name string) string {
	name = valid(name)
	j := job{group, name}
	if n.known[j] {
		return name
	}
	if len(n.known) >= n.most {
		return other
	}
	n.known[j] = true
	return name
}
