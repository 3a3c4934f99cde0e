// Package migrations reads the steps by which a store brings its tables to the
// newest version.
package migrations

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Step leads to the next version of the tables. The versions that can live side
// by side stand in a table schema: the least version that a program has to know,
// and a level, which is the newest step that was made. So a program may be older
// than the tables, as in a rolling upgrade, as long as no step says otherwise.
type Step struct {
	Name  string // of its file, such as 0003_locks
	Text  string
	Least int // what a program has to know to use the tables after it
}

var leastLine = regexp.MustCompile(`(?m)^-- For programs from version (\d+) on\.$`)

// MustRead reads the files of the folder migrations: the one that begins with 0001
// leads to version 1, and so on. The line "-- For programs from version N on." says
// which programs can use the tables after the step; without it, only those that
// know the step.
func MustRead(pkg string, files embed.FS) []Step {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	var steps []Step
	for i, entry := range entries {
		if want := fmt.Sprintf("%04d_", i+1); !strings.HasPrefix(entry.Name(), want) {
			panic(fmt.Sprintf("%s: migration %s: the name must begin with %s", pkg, entry.Name(), want))
		}
		text, err := files.ReadFile("migrations/" + entry.Name())
		if err != nil {
			panic(err)
		}
		least := i + 1
		if found := leastLine.FindSubmatch(text); found != nil {
			if least, err = strconv.Atoi(string(found[1])); err != nil || least > i+1 {
				panic(fmt.Sprintf("%s: migration %s: for programs from version %s on", pkg, entry.Name(), found[1]))
			}
		}
		steps = append(steps, Step{strings.TrimSuffix(entry.Name(), ".sql"), string(text), least})
	}
	return steps
}

// Statements returns those of a step, which end with a semicolon at the end of a line, without comments.
func (s Step) Statements() []string {
	var lines []string
	for line := range strings.Lines(s.Text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, line)
		}
	}
	var all []string
	for statement := range strings.SplitSeq(strings.Join(lines, ""), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	return all
}
