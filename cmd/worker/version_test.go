package main

import (
	"runtime/debug"
	"testing"
)

func TestCommit(t *testing.T) {
	t.Parallel()
	const revision, at = "20da124d3f4e5a6b7c8d9e0f1a2b3c4d5e6f7a8b", "2026-11-22T10:04:00Z"
	for name, test := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"nothing noted": {[]debug.BuildSetting{{Key: "GOOS", Value: "linux"}}, ""},
		"clean": {[]debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: at}, {Key: "vcs.modified", Value: "false"}},
			"commit 20da124d3f4e of 2026-11-22T10:04:00Z"},
		"modified": {[]debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: at}, {Key: "vcs.modified", Value: "true"}},
			"commit 20da124d3f4e of 2026-11-22T10:04:00Z, modified"},
		"short": {[]debug.BuildSetting{{Key: "vcs.revision", Value: "20da"}}, "commit 20da"},
	} {
		if got := commit(&debug.BuildInfo{Settings: test.settings}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
