package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// FuzzParse looks for a panic, an error that points nowhere, and a search that is slow or goes back.
func FuzzParse(f *testing.F) {
	for _, c := range meanings {
		f.Add(c.expression, uint8(1), true)
	}
	for _, text := range []string{"0 0 0 L-31 * *", "0 0 0 1,LW * 5L", "@", "-1 * * * *", "0 0 0 ? * 2#1", "* * * * * * *", "é * * * *"} {
		f.Add(text, uint8(2), false)
	}
	loc := location(f, "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, text string, dialect uint8, once bool) {
		dst := cron.Native
		if once {
			dst = cron.Once
		}
		e, err := cron.Parse(text, cron.WithDialect(cron.Dialect(dialect%4)), cron.WithDST(dst), cron.In(loc))
		if err != nil {
			var refused *cron.Error
			if !errors.As(err, &refused) || refused.Field == "" || refused.Reason == "" {
				t.Fatalf("%q: error %v points at no field", text, err)
			}
			if refused.Expression != text || !strings.HasPrefix(text[refused.Offset:], refused.Text) {
				t.Fatalf("%q: error %v points at the wrong place %d", text, err, refused.Offset)
			}
			return
		}
		start := time.Now()
		now := time.Date(2026, 4, 4, 13, 0, 0, 0, time.UTC)
		for range 10 {
			next := e.Next(now)
			if next.IsZero() {
				break
			}
			if !next.After(now) {
				t.Fatalf("%q: next of %v is %v", text, now, next)
			}
			if prev := e.Prev(next.Add(1)); !prev.Equal(next) && once {
				t.Fatalf("%q: %v is next, but not the one before a moment later, which is %v", text, next, prev)
			}
			now = next
		}
		if d := time.Since(start); d > time.Second {
			t.Fatalf("%q: ten answers took %v", text, d)
		}
	})
}
