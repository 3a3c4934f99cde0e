package page

import (
	"context"
	"fmt"
)

// Role is what a user may do. The zero Role may do nothing.
type Role uint8

const (
	// Look may see everything: jobs, runs with their arguments, errors and output, locks
	// and the audit.
	Look Role = iota + 1
	// Steer may also act: trigger, pause, resume, cancel, resign, backfill and forget.
	Steer
)

// String returns "look" or "steer".
func (r Role) String() string {
	switch r {
	case Look:
		return "look"
	case Steer:
		return "steer"
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// User is whom a request comes from.
type User struct {
	// Name is what the audit has of the user.
	Name string
	Role Role
}

type userKey struct{}

func withUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// userOf is the user of a request that has passed the guard.
func userOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}
