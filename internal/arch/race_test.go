package arch_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
)

// raceRule is what the Makefile says of `make race`.
type raceRule struct {
	pattern *regexp.Regexp // of CONCURRENT, for product code in roots
	roots   []string
	lists   map[string][]string
}

func readRaceRule(t *testing.T) raceRule {
	t.Helper()
	text := must.Get(os.ReadFile("Makefile"))(t)
	makefile := strings.ReplaceAll(string(text), "\\\n", "")
	rule := regexp.MustCompile(`(?m)^CONCURRENT = \$\(shell grep -rlE '([^']+)' .* --exclude-dir=testdata ([a-z ]+) \|`).
		FindStringSubmatch(makefile)
	if rule == nil {
		t.Fatal("the Makefile has no line CONCURRENT = $(shell grep -rlE 'PATTERN' ... FOLDER ... |")
	}
	r := raceRule{regexp.MustCompile("(?m)" + rule[1]), strings.Fields(rule[2]), map[string][]string{}}
	for _, name := range []string{"CONCURRENT_TESTS", "ONE_AT_A_TIME", "RACE_TESTS"} {
		found := regexp.MustCompile(`(?m)^` + name + ` := (.+)$`).FindStringSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no line %s := ...", name)
		}
		for _, word := range strings.Fields(found[1]) {
			r.lists[name] = append(r.lists[name], strings.TrimPrefix(word, "./"))
		}
	}
	return r
}

// TestRaceWatchesWhatIsConcurrent: `make race` leaves out no package in which something is started, waited for or
// locked, nor one whose tests start something.
func TestRaceWatchesWhatIsConcurrent(t *testing.T) {
	rule := readRaceRule(t)
	watched, seen := map[string]bool{}, map[string]string{}
	for _, name := range slices.Concat(rule.lists["CONCURRENT_TESTS"], rule.lists["ONE_AT_A_TIME"]) {
		watched[name] = true
	}
	for _, f := range parseAll(t) {
		folder := path.Dir(f.path)
		top, _, _ := strings.Cut(folder, "/")
		text := must.Get(os.ReadFile(f.path))(t)
		// Of those nothing runs under the detector.
		if top == "e2e" || top == "bench" || strings.HasPrefix(string(text), "//go:build browser") {
			continue
		}
		watched[folder] = watched[folder] || !f.test && slices.Contains(rule.roots, top) && rule.pattern.Match(text)
		if what := concurrency(f); what != "" {
			seen[folder] = f.path + " has " + what
		}
	}

	for folder, what := range seen {
		if !watched[folder] {
			t.Errorf("make race leaves out %s, and %s; see CONCURRENT and CONCURRENT_TESTS in the Makefile", folder, what)
		}
	}
	for _, folder := range []string{"internal/gbt", "internal/cloud/gcs", "launcher/internal/provision"} {
		if seen[folder] == "" {
			t.Errorf("nothing concurrent is found in %s: the test sees nothing", folder)
		}
	}
}

// TestRaceNamesTests: the tests that `make race` names are there, and each package of which it runs only those has one.
func TestRaceNamesTests(t *testing.T) {
	lists := readRaceRule(t).lists
	missing := slices.Clone(lists["RACE_TESTS"])
	for _, folder := range lists["ONE_AT_A_TIME"] {
		own := 0
		for _, f := range parseAll(t) {
			for _, d := range f.ast.Decls {
				d, is := d.(*ast.FuncDecl)
				if is && f.test && path.Dir(f.path) == folder && slices.Contains(lists["RACE_TESTS"], d.Name.Name) {
					own++
					missing = slices.DeleteFunc(missing, func(name string) bool { return name == d.Name.Name })
				}
			}
		}
		if own == 0 {
			t.Errorf("make race runs no test of %s: RACE_TESTS in the Makefile names none", folder)
		}
	}
	if len(missing) > 0 {
		t.Errorf("RACE_TESTS in the Makefile names %q, which the packages of ONE_AT_A_TIME do not have", missing)
	}
}

// concurrency names something of it that a file has, or is empty. Of tests it counts what they start.
func concurrency(f goFile) (found string) {
	for _, i := range f.ast.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if !f.test && err == nil && (name == "sync" || name == "sync/atomic" || strings.HasSuffix(name, "/errgroup")) {
			found = "an import of " + name
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = "a go statement"
		case *ast.SelectStmt:
			if !f.test {
				found = "a select statement"
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" {
				found = "a call of " + n.Sel.Name
			}
		}
		return true
	})
	return found
}
