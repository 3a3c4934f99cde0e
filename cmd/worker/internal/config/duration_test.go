package config_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "-1s": -time.Second, "0": 0, "1d0.5s": 24*time.Hour + 500*time.Millisecond,
	} {
		if got, err := config.ParseDuration(text); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "1.5d", "-1d", "+1d", "1d-1h", "1d+1h", "1d1d", "1h1d", "65536d", "65535d2000000h", "d5s", "1D"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
