package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFiles is how many files a configuration may include.
const maxFiles = 10_000

// includedFields are the keys of an included file.
var includedFields = []field[struct{}]{
	{"jobs", func(v value, _ *struct{}) { v.doc.jobs = &v }},
}

// readIncluded reads the files that one or more patterns name, in the order of the
// patterns and then of their names, each once.
func readIncluded(v value, read func(path string) ([]byte, error)) []*document {
	if read == nil && v.form == nil {
		v.report("expected no such key: this configuration is not in a file")
		return nil
	}
	var paths []string
	pattern := func(v value) {
		const what = "files such as jobs.d/*.yaml"
		if t, ok := readText(v, what); ok {
			for _, path := range t.files(what) {
				if !slices.Contains(paths, path) {
					paths = append(paths, path)
				}
			}
		}
	}
	either(v, yaml.SequenceNode, func(v value) { readList(v, "a list of files such as [jobs.d/*.yaml]", pattern) }, pattern)
	if len(paths) > maxFiles {
		v.report("%d files: expected at most %d", len(paths), maxFiles)
		return nil
	}
	var docs []*document
	for _, path := range paths {
		doc := newDocument(path, v.doc.lookup)
		docs = append(docs, doc)
		data, err := read(path)
		if err != nil {
			v.report("%v", err)
			continue
		}
		if root := doc.parse(data, "the key jobs"); root != nil {
			root := value{doc: doc, node: root}
			found := readMapping(root, "jobs, as in the file that includes it,", includedFields, &struct{}{})
			require(root, found, "jobs", "a list of jobs")
		}
	}
	return docs
}

// files are those that a pattern names, relative to the folder of the file that it
// stands in. Hidden ones, such as an editor's copies, are not meant by a *.
func (t text) files(what string) []string {
	pattern := t.expanded
	if pattern == "" || strings.ContainsRune(pattern, 0) {
		t.bad("expected %s", what)
		return nil
	}
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(t.doc.name), pattern)
	}
	if !strings.ContainsAny(pattern, `*?[`) {
		return []string{pattern}
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.bad("no pattern: expected %s", what)
		return nil
	}
	// A pattern that fits no file yet is fine, a misspelt folder is not.
	if folder := filepath.Dir(pattern); !strings.ContainsAny(folder, `*?[`) {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			t.bad("there is no folder %s: expected %s", quote(folder), what)
		}
	}
	if strings.HasPrefix(filepath.Base(pattern), ".") {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") })
}
