package arch_test

import (
	"go/ast"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

// rootFolders are all that stand at the root; what no other module should import is under internal.
var rootFolders = []string{
	"aggregator", "bench", "container", "docs", "e2e", "examples", "internal", "launcher", "localemu", "python", "task",
	"terraform",
}

func TestRoot(t *testing.T) {
	entries := must.Get(os.ReadDir("."))(t)
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() && !strings.HasPrefix(name, ".") && name != "bin" && name != "build" &&
			!slices.Contains(rootFolders, name) {
			t.Errorf("%s is a new folder at the root; expected one below %v", name, rootFolders)
		}
		if strings.HasSuffix(name, ".go") {
			t.Errorf("%s: a Go file at the root, where no package is", name)
		}
	}
}

// TestFewTypesOfErrors counts types with a method Error: each has to be worth a caller that treats it differently from
// other errors of its kind (package problem).
func TestFewTypesOfErrors(t *testing.T) {
	var found []string
	for _, f := range parseAll(t) {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			m, ok := d.(*ast.FuncDecl)
			if ok && m.Recv != nil && m.Name.Name == "Error" && m.Type.Params.NumFields() == 0 {
				found = append(found, f.dir+"."+receiver(m))
			}
		}
	}
	if len(found) > 40 {
		t.Errorf("%d types of errors, expected at most 40:\n%s", len(found), strings.Join(found, "\n"))
	}
}

func receiver(m *ast.FuncDecl) string {
	of := m.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return "?"
}

// TestOneTypePerName: a reader of one package who meets a type of a package that it imports under the same name must not
// have to ask which of the two is meant.
func TestOneTypePerName(t *testing.T) {
	types, imports := map[string][]string{}, map[string][]string{}
	for _, f := range parseAll(t) {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && !ts.Assign.IsValid() {
					types[f.dir] = append(types[f.dir], ts.Name.Name)
				}
			}
		}
		for _, imp := range f.imports {
			if dir, ok := strings.CutPrefix(imp, "coppice/"); ok {
				imports[f.dir] = append(imports[f.dir], dir)
			}
		}
	}
	for dir, list := range imports {
		slices.Sort(list)
		for _, other := range slices.Compact(list) {
			for _, name := range types[dir] {
				// Options is what every package calls its own; kinds of errors are meant to be known by all.
				if name == "Options" || other == "internal/problem" || strings.HasSuffix(dir, "test") {
					continue
				}
				if slices.Contains(types[other], name) {
					t.Errorf("%s.%s and %s.%s: two types with one name", path.Base(dir), name, path.Base(other), name)
				}
			}
		}
	}
}
