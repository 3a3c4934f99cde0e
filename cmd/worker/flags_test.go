package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each flag that a document or a command's help names is there.
func TestFlagsOfTheDocuments(t *testing.T) {
	t.Parallel()
	root := newRoot()
	flag := regexp.MustCompile(`--([a-z][a-z-]+)`)
	for _, c := range root.Commands() {
		for _, f := range flag.FindAllStringSubmatch(c.Long, -1) {
			if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Flag(f[1]) != nil }) {
				t.Errorf("the help of worker %s names --%s, which no command has", c.Name(), f[1])
			}
		}
	}
	texts := map[string]string{}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	called := regexp.MustCompile("worker ([a-z]+)( [^`\n|]*)")
	seen := 0
	for where, text := range texts {
		for _, call := range called.FindAllStringSubmatch(text, -1) {
			command, _, err := root.Find([]string{call[1]})
			if err != nil || command == root {
				continue // a sentence about workers
			}
			for _, f := range flag.FindAllStringSubmatch(call[2], -1) {
				seen++
				if command.Flag(f[1]) == nil && f[1] != "help" {
					t.Errorf("%s: worker %s has no flag --%s", where, call[1], f[1])
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d flags are named", seen)
	}
}

// The document names each key that worker status prints with --json.
func TestKeysOfStatusAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/worker.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[status](), reflect.TypeFor[overdueTicks](), reflect.TypeFor[replicaStatus]()} {
		for i := range of.NumField() {
			if key := of.Field(i).Tag.Get("json"); key != "" && !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("docs/worker.md does not name the key %s of %v", key, of)
			}
		}
	}
}
