// Command performance writes docs/performance.md and its pictures from what the
// benchmarks have printed, which is kept in results.txt beside it:
//
//	make performance                         run the benchmarks, and write it
//	go generate ./internal/cmd/performance   write it again, after a change of the template
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:generate go run . results.txt ../../../docs

//go:embed performance.md.tmpl
var text string

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: performance RESULTS FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

func write(results, folder string) error {
	files, err := render(results)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns the document and its pictures by their names in docs.
func render(file string) (map[string][]byte, error) {
	printed, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := parse(string(printed))
	if err != nil {
		return nil, err
	}
	t, err := template.New("performance.md").Funcs(r.functions()).Parse(text)
	if err != nil {
		return nil, err
	}
	var document bytes.Buffer
	if err := t.Execute(&document, r); err != nil {
		return nil, err
	}
	files := map[string][]byte{"performance.md": document.Bytes()}
	for _, p := range plots {
		files[filepath.Join("pictures", p.file())] = []byte(p.draw(r))
	}
	return files, nil
}
