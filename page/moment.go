package page

import "time"

// moment is an instant as the templates show it, beside now.
type moment struct{ now, at time.Time }

// Is reports whether there is one.
func (m moment) Is() bool { return !m.at.IsZero() }

// Text is as short as it can be.
func (m moment) Text() string { return instant(m.now, m.at) }

// Ago says how far it is away.
func (m moment) Ago() string { return ago(m.now, m.at) }

// Exact has all of it.
func (m moment) Exact() string { return exact(m.at) }

// Stamp is for scripts.
func (m moment) Stamp() string { return stamp(m.at) }
