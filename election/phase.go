package election

import "fmt"

// phase is how far an Election is: whether Run runs, and the leading function. Its zero
// value is that of an Election that New has not made.
type phase uint8

const (
	unmade      phase = iota
	idle              // neither runs: Run was not called, or has failed
	campaigning       // Run does
	working           // both do
	lingering         // the leading function does: Run, whose context has ended, has not waited for it
	stopped           // neither does: the context of Run has ended
)

// runs reports whether Run does.
func (p phase) runs() bool { return p == campaigning || p == working }

// step is what leads from one phase to the next.
type step uint8

const (
	runBegins step = iota
	workBegins
	workEnds
	runStops // its context has ended
	runFails // by itself
	steps
)

// transitions are all there are. Run returns while the leading function runs only when
// its context has ended.
var transitions = map[phase][steps]phase{
	idle:        {runBegins: campaigning},
	campaigning: {workBegins: working, runStops: stopped, runFails: idle},
	working:     {workEnds: campaigning, runStops: lingering},
	lingering:   {workEnds: stopped},
	stopped:     {runBegins: campaigning},
}

// after is the phase that follows.
func (p phase) after(s step) phase {
	next := transitions[p][s]
	if next == unmade {
		panic(fmt.Sprintf("election: step %d in phase %d", s, p))
	}
	return next
}

// step takes the Election to its next phase, in which the candidate may rest. It is called
// with e.mu held.
func (e *Election) step(s step) {
	e.phase = e.phase.after(s)
	if e.phase == idle || e.phase == stopped {
		e.candidate.End()
	}
}
