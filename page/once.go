package page

import (
	"crypto/rand"
	"sync"
	"time"
)

// once makes sure that a form is carried out once: a user may press a button twice, and a
// browser may send a form again. A form without a number, as of a program, is always
// carried out.
type once struct {
	mu    sync.Mutex
	taken map[string]time.Time
}

const (
	// rememberFor is how long a form is known to be carried out.
	rememberFor = time.Hour
	// maxRemembered bounds how many are; the oldest go first.
	maxRemembered = 1000
)

// number is one for a new form.
func (o *once) number() string { return rand.Text() }

// take reports whether the form has to be carried out.
func (o *once) take(number string) bool {
	if number == "" {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if at, ok := o.taken[number]; ok && now.Sub(at) < rememberFor {
		return false
	}
	if len(number) > 64 { // it is not one of ours
		return true
	}
	if o.taken == nil {
		o.taken = map[string]time.Time{}
	}
	oldest, oldestAt := "", now
	for n, at := range o.taken {
		if now.Sub(at) >= rememberFor {
			delete(o.taken, n)
		} else if !at.After(oldestAt) {
			oldest, oldestAt = n, at
		}
	}
	if len(o.taken) >= maxRemembered {
		delete(o.taken, oldest)
	}
	o.taken[number] = now
	return true
}

// giveBack is for a form that failed: it may be sent again.
func (o *once) giveBack(number string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.taken, number)
}
