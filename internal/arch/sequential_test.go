package arch_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSequentialPackages: what `make race` leaves out neither starts anything nor locks anything.
func TestSequentialPackages(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
	named := regexp.MustCompile(`(?m)^SEQUENTIAL := (.+)$`).FindSubmatch(text)
	if named == nil {
		t.Fatal("the Makefile has no line SEQUENTIAL := PACKAGE ...; want the packages that make race leaves out")
	}
	for _, name := range strings.Fields(string(named[1])) {
		folder := filepath.FromSlash(strings.TrimPrefix(name, "coppice/"))
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("SEQUENTIAL names %s, which has no files (error %v)", name, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, found := range concurrency(t, file) {
				t.Errorf("%s: %s has %s; take the package out of SEQUENTIAL in the Makefile", file, name, found)
			}
		}
	}

	if got := concurrency(t, filepath.Join("internal", "gbt", "pool.go")); len(got) == 0 {
		t.Error("nothing concurrent is found in internal/gbt/pool.go, which is a worker pool: the test sees nothing")
	}
}

// concurrency is what a file has of it.
func concurrency(t *testing.T, file string) (found []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Imports {
		if path := strings.Trim(i.Path.Value, `"`); path == "sync" || path == "sync/atomic" ||
			strings.Contains(path, "errgroup") {
			found = append(found, "an import of "+path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt:
			found = append(found, "a go statement")
		case *ast.SelectStmt:
			found = append(found, "a select statement")
		}
		return true
	})
	return found
}
