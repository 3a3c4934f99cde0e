// Package jobs describes scheduled work: what a job is, when its ticks are, and
// what a run of it is told. It knows neither leases nor elections; the fencing
// token reaches it as a number.
//
// A tick is one planned instant of a job, always in UTC and the same on every
// replica: schedules depend on the calendar alone, never on when a process
// started. A run is one attempt at one tick.
package jobs
