package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/lease"
)

func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil { // paths are those of the repository
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(workertest.Main(m))
}

// Each Go block of these documents is taken from an example, which has a test.
func TestDocumentsAreTakenFromExamples(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"README.md", "docs/fencing.md", "docs/testing.md"} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			testTakenFromExamples(t, document)
		})
	}
}

func testTakenFromExamples(t *testing.T, document string) {
	files, err := filepath.Glob("examples/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var examples strings.Builder
	for _, file := range files {
		examples.WriteString(unindent(read(t, file)))
	}
	found := blocks(read(t, document), "go")
	if len(found) == 0 {
		t.Error("no Go block found")
	}
	for _, block := range found {
		if !strings.Contains(examples.String(), unindent(block)) {
			t.Errorf("not in any example:\n%s", block)
		}
	}
}

// unindent takes the indentation away: a block may stand deeper in its file.
func unindent(s string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, "")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the code blocks of a document that are in that language.
func blocks(document, language string) []string {
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(document, -1) {
		found = append(found, block[1])
	}
	return found
}

// The program of the README runs as it stands, and on a server with the two
// lines that the README changes: the second replica goes on when the first stops.
func TestReadmeStart(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	program := blocks(readme, "go")[0]
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testStart(t, program)
	})
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		changed := program
		lines := strings.Split(strings.TrimSpace(blocks(readme, "diff")[0]), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			from, to := strings.TrimPrefix(lines[i], "-"), strings.TrimPrefix(lines[i+1], "+")
			if strings.Count(changed, from+"\n") != 1 {
				t.Fatalf("%q is not a line of the program", from)
			}
			changed = strings.Replace(changed, from, to, 1)
		}
		dsn := database.Config(t).FormatDSN()
		changed = regexp.MustCompile(`"mysql://.*"`).ReplaceAllString(changed, fmt.Sprintf("%q", dsn))
		testStart(t, changed)
	})
}

func testStart(t *testing.T, program string) {
	folder := t.TempDir()
	source, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "start")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var tokens []string
	stop := func() error { return nil }
	for range 2 {
		next := exec.CommandContext(ctx, binary)
		next.Dir = folder
		next.Stderr = new(bytes.Buffer)
		out, err := next.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Start(); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Errorf("stopped: %v", err)
		}
		var tick, token string
		if _, err := fmt.Fscanf(out, "tick %s token %s\n", &tick, &token); err != nil {
			t.Fatalf("%v\n%s", err, next.Stderr)
		}
		tokens = append(tokens, token)
		stop = func() error {
			if err := next.Process.Signal(os.Interrupt); err != nil {
				return err
			}
			return next.Wait()
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if tokens[1] <= tokens[0] {
		t.Errorf("token %s after %s", tokens[1], tokens[0])
	}
}

// The worker reads the README's configuration, and has the commands that it names.
func TestReadmeWorker(t *testing.T) {
	t.Parallel()
	readme, folder := read(t, "README.md"), t.TempDir()
	file := regexp.MustCompile(`(?m)^database:.*`).ReplaceAllString(blocks(readme, "yaml")[0], "database: sqlite:"+filepath.Join(folder, "lease.db"))
	config := filepath.Join(folder, "worker.yaml")
	if err := os.WriteFile(config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := func(args ...string) { workertest.Run(t, args...) }
	worker("migrate", "--config", config)
	worker("jobs", "--config", config)
	for _, command := range regexp.MustCompile(`(?m)(?:^|\x60|/)worker ([a-z]+)`).FindAllStringSubmatch(readme, -1) {
		worker(command[1], "--help")
	}
}

// The targets of make that documents name are there.
func TestDocumentsNameTargets(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, document := range documents(t) {
		for _, target := range regexp.MustCompile(`(?m)(?:^|\x60)make ([a-z-]+)`).FindAllStringSubmatch(read(t, document), -1) {
			if !strings.Contains(makefile, "\n"+target[1]+":") {
				t.Errorf("%s: make %s: no such target", document, target[1])
			}
		}
	}
}

// Figures that were measured are in docs/performance.md, which is generated, or in a
// section that names the command which prints them. Settings are written as in code
// (600ms) or in seconds.
func TestMeasuredFiguresNameTheirCommand(t *testing.T) {
	t.Parallel()
	figure := regexp.MustCompile(`[0-9] (ms|µs|MB|kB)\b|[0-9] [a-z ]*(a|per) second\b|[0-9]/s\b|\bp(50|99)\b`)
	command := regexp.MustCompile(`\b(make (bench|gameday|performance|soak|torture|simulate|test|model)|go (test|run))\b`)
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "README.md") {
		if file == "docs/performance.md" {
			continue
		}
		for _, section := range regexp.MustCompile(`(?m)^#+ `).Split(read(t, file), -1) {
			prose := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(section, "")
			if found := figure.FindString(prose); found != "" && !command.MatchString(section) {
				title, _, _ := strings.Cut(section, "\n")
				t.Errorf("%s, %q: no command that prints a figure such as %q: name it, or link docs/performance.md instead", file, title, found)
			}
		}
	}
}

// documents are all of the repository's.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Links within the repository lead to files, and to headings that are in them.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, document := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(read(t, document), -1) {
			path, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			file := filepath.Join(filepath.Dir(document), path)
			if path == "" {
				file = document
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: no such file", document, found[1])
				continue
			}
			if anchor != "" && !anchors(read(t, file))[anchor] {
				t.Errorf("%s: %s: no such heading", document, found[1])
			}
		}
	}
}

// anchors are those of a document's headings, as GitHub makes them.
func anchors(document string) map[string]bool {
	found := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(document, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

// The table of timings, and the README, have the figures of the code.
func TestTimingTable(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/timing.md")
	var timings []lease.Timing
	for _, ttl := range []time.Duration{15 * time.Second, 3 * time.Second} {
		timing, err := lease.Timing{TTL: ttl}.Complete()
		if err != nil {
			t.Fatal(err)
		}
		timings = append(timings, timing)
	}
	if want := fmt.Sprintf("within %v s by default", (timings[0].TTL + time.Second).Seconds()); !strings.Contains(read(t, "README.md"), want) {
		t.Errorf("README.md does not say %q", want)
	}
	for field, value := range map[string]func(lease.Timing) time.Duration{
		"TTL":            func(t lease.Timing) time.Duration { return t.TTL },
		"RenewEvery":     func(t lease.Timing) time.Duration { return t.RenewEvery },
		"AttemptTimeout": func(t lease.Timing) time.Duration { return t.AttemptTimeout },
		"Grace":          func(t lease.Timing) time.Duration { return t.Grace },
		"Drift":          func(t lease.Timing) time.Duration { return t.TTL - t.Grace - t.Trust() },
		"Trust()":        func(t lease.Timing) time.Duration { return t.Trust() },
	} {
		want := fmt.Sprintf("| %v | %v |", value(timings[0]), value(timings[1]))
		row := regexp.MustCompile("(?m)^\\| .*`" + regexp.QuoteMeta(field) + "`.*$").FindString(text)
		if !strings.HasSuffix(row, want) {
			t.Errorf("%s: has %q, want it to end with %q", field, row, want)
		}
	}
}

// A merge of two changes to the changelog can keep both of their old and new
// places.
func TestChangelogSaysNothingTwice(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, entry := range regexp.MustCompile(`(?m)^- .*(\n  .*)*`).FindAllString(read(t, "CHANGELOG.md"), -1) {
		if entry = strings.Join(strings.Fields(entry), " "); found[entry] {
			t.Errorf("twice: %.100s", entry)
		}
		found[entry] = true
	}
}
