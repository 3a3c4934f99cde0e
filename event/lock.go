package event

import "time"

// LockGranted says that a lock was granted.
type LockGranted struct {
	Header
	Lock string
	// Waited is how long the caller has waited for it.
	Waited time.Duration
}

// LockReleased says that a lock was unlocked.
type LockReleased struct {
	Header
	Lock string
	Held time.Duration
}

// LocksLost says that the session of this process was lost, and all its locks with it.
type LocksLost struct {
	Header
	Locks int
	Cause error
}
