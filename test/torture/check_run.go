package torture

// runKey is how a process names a run.
type runKey struct {
	job     string
	tick    int64
	attempt int
	token   uint64
}

func keyOf(e Event) runKey { return runKey{e.Job, e.Tick, e.Attempt, e.Token} }

// run is a call of a job's function. Its Event is that call.
type run struct {
	Event
	process      *replica
	term         *term // nil: its process is not known to have led under that token
	stop, end    *Event
	transactions []*transaction
	forgotten    bool // a failover may have lost the claim or the start
}

// over is when the run's context had ended, or the run; endless if that is not known.
func (r *run) over() int64 {
	at := int64(endless)
	if r.stop != nil {
		at = r.stop.At
	}
	if r.end != nil {
		at = min(at, r.end.At)
	}
	return at
}

// events are the run's own.
func (r *run) events() []Event {
	events := []Event{r.Event}
	for _, e := range []*Event{r.stop, r.end} {
		if e != nil {
			events = append(events, *e)
		}
	}
	return events
}

// transaction is a fenced one.
type transaction struct {
	run    *run
	begin  Event
	commit *Event // nil: the process ended before it knew
}

func (x *transaction) events() []Event {
	if x.commit == nil {
		return []Event{x.begin}
	}
	return []Event{x.begin, *x.commit}
}

// outcome returns "" if it is unknown.
func (x *transaction) outcome() string {
	if x.commit == nil {
		return ""
	}
	return x.commit.Outcome
}

// time is when it can have been committed.
func (x *transaction) time() period {
	if x.commit == nil {
		return period{x.begin.At, endless}
	}
	return period{x.begin.At, x.commit.At}
}
