package joblist

import "github.com/cronlease/cronlease/jobs"

// Fill gives the replicas of a roster their jobs and labels: those that known has already, and what
// read returns for the others. Replicas without a list are left out.
func Fill(roster *jobs.Roster, known jobs.Roster, read func(jobs.Replica) (map[string]jobs.ScheduleHash, error)) error {
	var filled []jobs.Replica
	for _, r := range roster.Replicas {
		if was, ok := known.Find(r.Owner); ok && was.List == r.List {
			r.Jobs, r.Labels, r.MaxRuns, r.FollowerOnly, r.Lent = was.Jobs, was.Labels, was.MaxRuns, was.FollowerOnly, was.Lent
		} else {
			list, err := read(r)
			if err != nil {
				return err
			}
			told(&r, list)
		}
		if r.Jobs != nil {
			filled = append(filled, r)
		}
	}
	roster.Replicas = filled
	return nil
}

// Parts puts the parts of one list together.
type Parts struct {
	list       uint64
	jobs       map[string]jobs.ScheduleHash
	seen, want int
	unknown    bool
}

// NewParts returns the Parts of the list of that number.
func NewParts(list uint64) *Parts {
	return &Parts{list: list, jobs: map[string]jobs.ScheduleHash{}}
}

// Add takes in a row: a part of so many, of the list of that number.
func (p *Parts) Add(part, of int, list uint64, text []byte) {
	if list != p.list || part >= of || of > MostParts {
		return
	}
	if Decode(text, p.jobs) != nil {
		p.unknown = true
	}
	if p.seen, p.want = p.seen+1, of; p.seen > MostParts {
		p.unknown = true
	}
}

// Jobs is the whole list; nil when a part is missing, since it has changed meanwhile, or
// is of a format that this program does not know.
func (p *Parts) Jobs() map[string]jobs.ScheduleHash {
	if p.unknown || p.seen != p.want {
		return nil
	}
	return p.jobs
}
