package scheduler

// paused reports whether a run has to wait for the end of a pause.
func (t *term) paused(r *run) bool { return r.entry.HoldsBack(r.record, t.roll.paused) }
