package ledgerrows

import (
	"context"

	"github.com/cronlease/cronlease/internal/cuttext"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Entry is the entry of the audit for an action, as far as the store does not give it:
// see [store.Archive].
func Entry(ctx context.Context, action jobs.Action, key jobs.Key, note string) jobs.AuditEntry {
	key.Job = cuttext.UTF8(key.Job, store.MaxName)
	if !key.Tick.IsZero() {
		key = Plain(key)
	}
	return jobs.AuditEntry{Actor: jobs.ActorOf(ctx), Action: action, Key: key, Note: cuttext.UTF8(note, store.MaxNote)}
}

// ActionOf is the action of a request for a run.
func ActionOf(r jobs.Request) jobs.Action {
	if r.Backfill != "" {
		return jobs.ActionBackfill
	}
	return jobs.ActionTrigger
}

// CutWhy bounds why a term ended.
func CutWhy(why string) string { return cuttext.UTF8(why, store.MaxWhy) }
