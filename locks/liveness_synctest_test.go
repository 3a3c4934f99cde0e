package locks

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/store"
)

// What a session's row says of it.
func TestVerdictOnASession(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row           *store.Lease
		over, missing bool
	}{
		"no row":                           {nil, false, true},
		"its heartbeats":                   {&store.Lease{Token: 5}, false, false},
		"its release":                      {&store.Lease{Token: 5, Released: true}, true, false},
		"a later term":                     {&store.Lease{Token: 6}, true, false},
		"a later term, released":           {&store.Lease{Token: 6, Released: true}, true, false},
		"a restored earlier one":           {&store.Lease{Token: 4}, false, true},
		"a restored earlier one, released": {&store.Lease{Token: 4, Released: true}, false, true},
	} {
		if over, missing := isOver(test.row, theirs.sessionID()), isMissing(test.row, theirs.sessionID()); over != test.over || missing != test.missing {
			t.Errorf("%s: over %v, missing %v", name, over, missing)
		}
	}
}

// Observers that no caller needed are dropped: after two TTLs before their sessions are
// observed anew, but for those whose sessions are over, and after an hour in any case.
func TestForgottenObservers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLiveness(newBackground(time.Second), nil, nil, nil)
		defer l.stop()
		observe := func(group string, ttl time.Duration, over bool) process {
			p := process{Group: group, Token: 1}
			l.observers[p.sessionID()] = &observer{session: p.sessionID(), ttl: ttl, asked: time.Now(), over: over}
			return p
		}
		sessions := map[sessionID]process{}
		for _, p := range []process{observe("short", time.Minute, false), observe("long", time.Hour, false), observe("over", time.Minute, true)} {
			sessions[p.sessionID()] = p
		}
		observe("unasked", time.Minute, false)
		left := func(when, want string) {
			t.Helper()
			var groups []string
			for s := range l.observers {
				groups = append(groups, s.group)
			}
			slices.Sort(groups)
			if got := strings.Join(groups, " "); got != want {
				t.Errorf("%s: left are %q, want %q", when, got, want)
			}
		}
		time.Sleep(2 * time.Minute)
		l.forgetIdle(sessions)
		left("after two TTLs", "long over short unasked")
		time.Sleep(time.Nanosecond)
		l.forgetIdle(sessions)
		left("after more", "long over unasked")
		time.Sleep(tidyEvery - 2*time.Minute - 1)
		observe("late", time.Minute, false)
		l.tidy()
		left("after an hour", "late long over unasked")
		time.Sleep(time.Nanosecond)
		l.tidy()
		left("after more", "late")
	})
}
