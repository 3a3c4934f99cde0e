package cronlease_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each Go block of these documents is taken from an example, which has a test.
func TestDocumentsAreTakenFromExamples(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"README.md", "docs/fencing.md"} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			testTakenFromExamples(t, document)
		})
	}
}

func testTakenFromExamples(t *testing.T, document string) {
	readme, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("examples/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var examples strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples.WriteString(unindent(string(text)))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Error("no Go block found")
	}
	for _, block := range blocks {
		if !strings.Contains(examples.String(), unindent(block[1])) {
			t.Errorf("not in any example:\n%s", block[1])
		}
	}
}

// unindent takes the indentation away: a block may stand deeper in its file.
func unindent(s string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, "")
}
