package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "github.com/cronlease/cronlease", Version: "v0.1.0"},
		Deps: []*debug.Module{
			{Path: "go.uber.org/zap", Version: "v1.28.0"},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0"}},
		},
	}
	var out bytes.Buffer
	if err := write(&out, info); err != nil {
		t.Fatal(err)
	}
	var got bill
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if want := "pkg:golang/github.com/cronlease/cronlease@v0.1.0"; got.Metadata.Component.PURL != want {
		t.Errorf("the program is %q, want %q", got.Metadata.Component.PURL, want)
	}
	want := []string{"pkg:golang/std@1.26.8", "pkg:golang/go.uber.org/zap@v1.28.0", "pkg:golang/example.com/new@v2.0.0"}
	if len(got.Components) != len(want) {
		t.Fatalf("%d components, want %d", len(got.Components), len(want))
	}
	for i, c := range got.Components {
		if c.PURL != want[i] {
			t.Errorf("component %d is %q, want %q", i, c.PURL, want[i])
		}
	}
}
