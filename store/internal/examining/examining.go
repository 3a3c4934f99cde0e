// Package examining is what the Examine of stores have in common: see [store.Examiner].
package examining

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// limitOfStep is what one thing of an examination may take.
const limitOfStep = 15 * time.Second

// Step looks at one thing.
type Step struct {
	Check string
	Look  func(ctx context.Context, ttl time.Duration) (store.Finding, error)
}

// Failed is what an error of a step says. over reports that no other step can find out anything.
type Failed func(err error, first bool) (f store.Finding, over bool)

// Run takes the steps one after the other, and returns a finding for each.
func Run(ctx context.Context, ttl time.Duration, failed Failed, steps ...Step) []store.Finding {
	var found []store.Finding
	isOver := false
	for i, step := range steps {
		f, err := store.Finding{}, errOver
		if !isOver {
			limited, cancel := context.WithTimeout(ctx, limitOfStep)
			f, err = step.Look(limited, cmp.Or(ttl, 15*time.Second))
			cancel()
		}
		switch {
		case err != nil && i > 0 && (isOver || found[0].Grade >= store.Problem):
			f = store.Finding{Grade: store.Unknown, Text: "not looked at: see " + steps[0].Check} // which has said why
		case err != nil:
			f, isOver = failed(err, i == 0)
		}
		f.Check, f.Text = step.Check, strings.Join(strings.Fields(f.Text), " ")
		found = append(found, f)
	}
	return found
}

var errOver = errors.New("not looked at")

// Refused is what an error says without its prefixes. One that matches [lease.ErrSetup] says that the database is unfit, and
// names the cure in the last part of its text.
func Refused(err error, text string, prefixes ...string) store.Finding {
	if !errors.Is(err, lease.ErrSetup) {
		return store.Finding{Grade: store.Unknown, Text: "could not be looked at: " + err.Error()}
	}
	f := store.Finding{Grade: store.Problem, Text: text}
	for _, prefix := range append(prefixes, lease.ErrDenied.Error()+": ", lease.ErrNotReady.Error()+": ", lease.ErrSetup.Error()+": ") {
		f.Text = strings.TrimPrefix(f.Text, prefix)
	}
	if i := strings.LastIndex(f.Text, ": "); i >= 0 {
		f.Text, f.Cure = f.Text[:i], f.Text[i+2:]
	}
	return f
}
