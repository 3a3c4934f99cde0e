// Package runjson has the JSON form of a run, as the worker prints it and the page serves it.
package runjson

import (
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// Record is a run. Its JSON form is relied on: keys are added, but never renamed or
// removed. What has not happened is null.
type Record struct {
	Job  string           `json:"job"`
	Tick jsontime.Instant `json:"tick"`
	// Trigger is 0 for a tick of the schedule.
	Trigger uint64 `json:"trigger"`
	// Kind is schedule, trigger, after, backfill, notice or shard: why there is the run.
	Kind string `json:"kind"`
	// Shard is which part of Shards a shard is, from 0; both are 0 for any other run.
	Shard  int `json:"shard"`
	Shards int `json:"shards"`
	// State is running, waiting, succeeded, failed, timed out, cancelled,
	// panicked, skipped or interrupted.
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
	Owner   string `json:"owner"`
	Token   uint64 `json:"token"` // [jobs.Record.RunToken]
	// Claimed, Due, Started and Finished are by the database's clock.
	Claimed     *jsontime.Instant `json:"claimed"`
	Due         *jsontime.Instant `json:"due"`
	Started     *jsontime.Instant `json:"started"`
	Finished    *jsontime.Instant `json:"finished"`
	TookSeconds *float64          `json:"took_seconds"`
	Missed      int               `json:"missed"`
	Error       string            `json:"error"`
	CancelAsked bool              `json:"cancel_asked"`
	// HasArgs: the run was triggered with arguments.
	HasArgs bool `json:"has_args"`
}

// Of returns the form of a run.
func Of(r jobs.Record) Record {
	record := Record{
		Job: r.Job, Tick: jsontime.Instant{Time: r.Tick.UTC()}, Trigger: r.Trigger, Kind: triggers.KindOf(r.Trigger), State: r.State.String(),
		Attempt: r.Attempt, Owner: r.Owner, Token: r.RunToken(),
		Claimed: jsontime.Of(r.Claimed), Due: jsontime.Of(r.Due), Started: jsontime.Of(r.Started), Finished: jsontime.Of(r.Finished),
		Missed: r.Missed, Error: r.Error, CancelAsked: r.CancelAsked, HasArgs: r.HasArgs,
	}
	record.Shard, record.Shards = triggers.ShardOf(r.Trigger)
	if !r.Started.IsZero() && !r.Finished.IsZero() {
		took := r.Finished.Sub(r.Started).Seconds()
		record.TookSeconds = &took
	}
	return record
}
