package store

import (
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/internal/names"
)

// MaxName is the largest length of a group, job or owner name, in bytes.
const MaxName = names.Max

// CheckName reports why s cannot name a group, a job or an owner. Names are
// ASCII, so that two names are equal in the database exactly when they are
// equal in Go, whatever the collation.
func CheckName(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("store: %s: empty: give it a name of 1 to %d bytes", what, MaxName)
	case len(s) > MaxName:
		return fmt.Errorf("store: %s %.40q...: %d bytes: at most %d", what, s, len(s), MaxName)
	case !names.Valid(s):
		return fmt.Errorf("store: %s %q: only letters, digits and . _ : / @ + - are allowed, the first a letter or a digit", what, s)
	}
	return nil
}

// reservedPrefix begins the groups that are the sessions of package locks. Their
// rows are deleted when they have ended, which those of other groups must never
// be.
const reservedPrefix = "locks/"

// CheckGroup reports why s cannot be a group that replicas contend for: it cannot
// be a name ([CheckName]), or begins with locks/, which is reserved for the
// sessions of package locks.
func CheckGroup(s string) error {
	if strings.HasPrefix(s, reservedPrefix) {
		return fmt.Errorf("store: group %.40q: names that begin with %s are reserved for the sessions of locks: choose another one", s, reservedPrefix)
	}
	return CheckName("group", s)
}
