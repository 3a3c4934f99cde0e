package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// againstOrder is how many references may run against the order of the files.
const againstOrder = 12

// The files are in the order that the package's comment gives: what a file uses stands in a later one, but for
// a few references, such as from the end of a run to what follows it.
func TestFilesAreInOrder(t *testing.T) {
	t.Parallel()
	files := parse(t)
	_, text, _ := strings.Cut(files["doc.go"].Doc.Text(), "In this order")
	order := regexp.MustCompile(`\w+\.go`).FindAllString(text, -1)
	for name := range files {
		if name != "doc.go" && !slices.Contains(order, name) {
			t.Errorf("%s is not in the order of the package's comment", name)
		}
	}
	home, unclear := map[string]string{}, map[string]bool{} // of functions and methods
	for name, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				key := n.Name.Name
				if n.Recv != nil {
					key = "." + key
				}
				unclear[key] = unclear[key] || home[key] != ""
				home[key] = name
			case *ast.StructType:
				for _, field := range n.Fields.List {
					for _, id := range field.Names {
						unclear["."+id.Name] = true
					}
				}
			}
			return true
		})
	}
	var against []string
	for name, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			key := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if !ast.IsExported(n.Sel.Name) { // of other packages, maybe
					key = "." + n.Sel.Name
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok {
					key = id.Name
				}
			}
			if unclear[key] {
				return true
			}
			if to := home[key]; to != "" && to != name && slices.Index(order, to) < slices.Index(order, name) {
				against = append(against, name+" uses "+key+" of "+to)
			}
			return true
		})
	}
	if len(against) > againstOrder {
		slices.Sort(against)
		t.Errorf("%d references run against the order of the files, want at most %d:\n%s", len(against), againstOrder, strings.Join(against, "\n"))
	}
}

// parse returns the files of the package without its tests, by name.
func parse(t *testing.T) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
