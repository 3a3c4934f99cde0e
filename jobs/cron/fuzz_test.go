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
			if shown := err.Error(); len(shown) > 1500 || strings.ContainsAny(shown, "\n\x1b") {
				t.Fatalf("%q: an error of %d bytes: %.1000q", text, len(shown), shown)
			}
			return
		}
		if e.String() != text {
			t.Fatalf("%q is %q", text, e)
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

// FuzzNext asks an expression from any instant, in zones whose clocks change in odd ways, and compares what Next and
// Prev say with each other and with the same expression read again.
func FuzzNext(f *testing.F) {
	zones := []*time.Location{time.UTC}
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "Asia/Kathmandu",
		"Africa/Casablanca", "Antarctica/Troll", "America/Nuuk",
	} {
		zones = append(zones, location(f, name))
	}
	for i, c := range meanings {
		f.Add(c.expression, uint8(i), uint8(i), i%2 == 0, int64(1_774_740_000+3600*i))
	}
	f.Fuzz(func(t *testing.T, text string, dialect, zone uint8, once bool, unix int64) {
		options := []cron.Option{cron.WithDialect(cron.Dialect(dialect % 4)), cron.In(zones[int(zone)%len(zones)])}
		if !once {
			options = append(options, cron.WithDST(cron.Native))
		}
		e, err := cron.Parse(text, options...)
		if err != nil {
			return
		}
		again := must(t, e.String(), options...)
		start := time.Now()
		after := time.Unix(unix%(1<<40), 0) // beyond, time.Time itself wraps around
		if prev := e.Prev(after); !prev.IsZero() && !prev.Before(after) {
			t.Fatalf("%q: %v is before %v", text, prev, after)
		}
		for range 10 {
			next := e.Next(after)
			if other := again.Next(after); !other.Equal(next) {
				t.Fatalf("%q: after %v: %v, and read again %v", text, after, next, other)
			}
			if next.IsZero() {
				break
			}
			if !next.After(after) || next.Location() != time.UTC || next.Nanosecond() != 0 || next.Year() < 1970 || next.Year() > 2199 {
				t.Fatalf("%q: next of %v is %v", text, after, next)
			}
			// Native's answer depends on the question: its instants are those that follow the second before them.
			matches := once || e.Next(next.Add(-time.Second)).Equal(next)
			if prev := e.Prev(next.Add(1)); matches != prev.Equal(next) {
				t.Fatalf("%q: %v is next, and the one before a moment later is %v", text, next, prev)
			}
			if prev := e.Prev(next); once && !prev.IsZero() && prev.After(after) {
				t.Fatalf("%q: after %v comes %v, but %v is between them", text, after, next, prev)
			}
			after = next
		}
		if d := time.Since(start); d > time.Second {
			t.Fatalf("%q: ten answers took %v", text, d)
		}
	})
}
