package jobs

import (
	"context"

	"github.com/cronlease/cronlease/internal/cuttext"
)

// Via is the way in which an action came.
type Via string

// The ways. An embedder may name others, of at most 32 bytes.
const (
	// ViaAPI is Go code that says nothing else.
	ViaAPI Via = "api"
	// ViaCLI is a command of the worker.
	ViaCLI Via = "cli"
	// ViaPage is the page.
	ViaPage Via = "page"
	// ViaScheduler is a scheduler, as when it pauses a job that keeps failing.
	ViaScheduler Via = "scheduler"
)

const (
	maxActor = 255 // bytes of a name
	maxVia   = 32
)

// Actor is who does something to a group, as the audit has it ([Group.Audit]). Nothing
// checks it: it is what the program says that acts.
type Actor struct {
	// Name is who it is, such as "alice@host"; empty: not known. What is longer than
	// 255 bytes is cut off, and what is not UTF-8 is replaced.
	Name string
	// Via is where the action came from. Empty: [ViaAPI].
	Via Via
}

type actorKey struct{}

// WithActor returns a context whose actions, such as [Group.Pause], are those of a.
func WithActor(ctx context.Context, a Actor) context.Context {
	a.Name, a.Via = cuttext.UTF8(a.Name, maxActor), Via(cuttext.UTF8(string(a.Via), maxVia))
	if a.Via == "" {
		a.Via = ViaAPI
	}
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a context, and one without a name if it has none.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Via: ViaAPI}
}
