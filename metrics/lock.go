package metrics

import (
	"maps"

	"github.com/cronlease/cronlease/event"
)

var locksHeld = gauge("locks_held", "Locks that this process holds.", "group")

// lock is a lock that was granted. Readers may share it.
type lock struct {
	owner, name string
	token       uint64
}

func lockOf(h event.Header, name string) lock { return lock{h.Owner, name, h.Token} }

func (g *group) locked(l lock) {
	if g.locks == nil {
		g.locks = map[lock]int{}
	}
	g.locks[l]++
}

// unlocked takes in the end of a lock. The holder of one that was lost unlocks it too.
func (g *group) unlocked(l lock) {
	if g.locks[l] > 1 {
		g.locks[l]--
	} else {
		delete(g.locks, l)
	}
}

// lockless takes in that a client has lost its locks.
func (g *group) lockless(owner string) {
	maps.DeleteFunc(g.locks, func(l lock, _ int) bool { return l.owner == owner })
}

func (g *group) held() (n int) {
	for _, times := range g.locks {
		n += times
	}
	return n
}
