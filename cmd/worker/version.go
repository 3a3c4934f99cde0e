package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is set with -ldflags "-X main.release=v1.2.3"; otherwise the module's
// version counts.
var release string

func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// commit is what the program was built from, such as "commit 20da124d3f4e of
// 2026-11-22T10:04:00Z, modified"; empty where Go has not noted it, as in programs
// that `go install` made of a module's download.
func commit(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := settings["vcs.revision"]
	if text == "" {
		return ""
	}
	text = "commit " + text[:min(len(text), 12)]
	if at := settings["vcs.time"]; at != "" {
		text += " of " + at
	}
	if settings["vcs.modified"] == "true" {
		text += ", modified"
	}
	return text
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built from",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			parts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok && commit(info) != "" {
				parts = append([]string{commit(info)}, parts...)
			}
			_, err := fmt.Fprintf(command.OutOrStdout(), "worker %s (%s)\n", version(), strings.Join(parts, ", "))
			return err
		},
	}
}
