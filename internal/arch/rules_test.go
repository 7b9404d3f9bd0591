package arch_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"coppice/internal/must"
)

// raceRule is what the Makefile says about the packages that `make race` tests.
type raceRule struct {
	pattern *regexp.Regexp      // files that match it make their package one of CONCURRENT
	roots   []string            // the folders below which CONCURRENT looks
	lists   map[string][]string // the words of the other variables, by name
}

// readRaceRule reads the Makefile. It fails the test if that has another form than expected.
func readRaceRule(t *testing.T) raceRule {
	t.Helper()
	text := must.Get(os.ReadFile("Makefile"))(t)
	makefile := strings.ReplaceAll(string(text), "\\\n", "")
	rule := regexp.MustCompile(`(?m)^CONCURRENT = \$\(shell grep -rlE '([^']+)' .* --exclude-dir=testdata ` +
		`([a-z ]+) \|`).
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

// TestRaceWatchesWhatIsConcurrent: `make race` tests every package that starts, waits for or locks anything, or whose
// tests start something. The folders e2e and bench, and tests with a browser, do not run under the race detector.
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
			t.Errorf("make race leaves out %s, and %s; see CONCURRENT and CONCURRENT_TESTS in the Makefile",
				folder, what)
		}
	}
	for _, folder := range []string{"internal/gbt", "internal/cloud/gcs", "launcher/internal/provision"} {
		if seen[folder] == "" {
			t.Errorf("found nothing concurrent in %s, want something, as a sign that this test works", folder)
		}
	}
}

// TestRaceNamesTests: every test that RACE_TESTS in the Makefile names exists in a package of ONE_AT_A_TIME, and each
// of these packages, of which `make race` runs no other tests, has at least one.
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

// concurrency returns in words something concurrent that a file has, "" if it has nothing. Of tests only what starts a
// goroutine counts.
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

var (
	docOf  = regexp.MustCompile(`bench/(\w+)\.py[^#]*?--doc ([\w/.]+)`)
	markOf = regexp.MustCompile(`report\.marked\(args\.doc, "([\w-]+)"\)|\nMARK = "([\w-]+)"`)
)

// TestMeasurementsHaveAPlace: every document into which a benchmark of bench/bench.mk writes its results has the two
// marks between which they belong, and the benchmark looks for them before it runs. Otherwise hours of measuring could
// be lost.
func TestMeasurementsHaveAPlace(t *testing.T) {
	makefile := strings.ReplaceAll(read(t, "bench/bench.mk"), "\\\n", " ")
	found := 0
	for _, line := range strings.Split(makefile, "\n") {
		m := docOf.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found++
		script, doc := "bench/"+m[1]+".py", m[2]
		mark := markOf.FindStringSubmatch(read(t, script))
		if mark == nil {
			t.Errorf("%s writes into %s without asking for its marks first", script, doc)
			continue
		}
		text, name := read(t, doc), mark[1]+mark[2]
		begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
		if strings.Count(text, begin) != 1 || strings.Count(text, end) != 1 ||
			strings.Index(text, begin) > strings.Index(text, end) {
			t.Errorf("%s writes into %s, which must hold %s and after it %s, once each", script, doc, begin, end)
		}
	}
	if found < 4 {
		t.Errorf("bench/bench.mk has %d benchmarks that write into documents, want at least 4", found)
	}
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

// rootFolders are all that stand at the root; what no other module should import is under internal.
var rootFolders = []string{
	"aggregator", "bench", "container", "docs", "e2e", "examples", "internal", "launcher", "localemu", "python", "task",
	"terraform",
}

// TestRoot: at the root are only the folders that are listed, hidden ones and what is built, and no Go file.
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

// TestFewTypesOfErrors: at most 40 types have a method Error. A type of its own is worth while only if some caller
// treats it differently from other errors of its kind (package problem).
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

// receiver returns the name of the type that m is a method of, without a star, and "?" if it has another form.
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

// TestOneTypePerName: no package has an exported type of the same name as one of a package that it imports, so that a
// reader does not have to ask which of the two is meant. Excepted are the name Options, aliases, types named as one of
// package problem, and packages whose names end in test.
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
					t.Errorf("%s.%s and %s.%s are two types with one name; want two "+
						"names", path.Base(dir), name, path.Base(other), name)
				}
			}
		}
	}
}

// TestThreatModelNamesTests: every test that docs/design.md names, as proof of a defence, exists. At least 40 have to
// be named.
func TestThreatModelNamesTests(t *testing.T) {
	text := read(t, "docs/design.md")
	missing := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(text, -1) {
		missing[quoted[1]] = true
	}
	if len(missing) < 40 {
		t.Fatalf("docs/design.md names %d tests, want at least 40", len(missing))
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range function.FindAllStringSubmatch(string(source), -1) {
			delete(missing, found[1])
		}
		return nil
	})
	if err != nil {
		t.Fatalf("cannot read the tests: %v", err)
	}
	for name := range missing {
		t.Errorf("docs/design.md names %s, which is no test, want one that exists", name)
	}
}

// TestVulncheckIsNotSkippedInSilence: if govulncheck cannot get its database, the script says that nothing was checked,
// and fails where VULN_REQUIRED is true. In all other cases it ends as govulncheck does. A shell script stands for
// that.
func TestVulncheckIsNotSkippedInSilence(t *testing.T) {
	script := must.Get(filepath.Abs(".ci/tools/vulncheck.sh"))(t)
	for _, tc := range []struct {
		required, says string // VULN_REQUIRED, and what the tool prints
		ends           int    // with which code
		code           int
		skipped        bool
	}{
		{"", "fetching vulnerabilities: Get: dial tcp: no such host", 1, 0, true},
		{"true", "fetching vulnerabilities: Get: dial tcp: no such host", 1, 1, true},
		{"true", "No vulnerabilities found.", 0, 0, false},
		{"", "Vulnerability #1: GO-2026-0001", 3, 3, false},
		{"", "internal error", 1, 1, false},
	} {
		dir := t.TempDir()
		tool := filepath.Join(dir, "build", "tools", "govulncheck")
		must.Do(t, os.MkdirAll(filepath.Dir(tool), 0o755))
		text := fmt.Sprintf("#!/bin/sh\necho '%s'\nexit %d\n", tc.says, tc.ends)
		must.Do(t, os.WriteFile(tool, []byte(text), 0o755))
		cmd := exec.CommandContext(t.Context(), "sh", script, "./...")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "VULN_REQUIRED="+tc.required)
		out, _ := cmd.CombinedOutput()
		skipped := strings.Contains(string(out), "not checked")
		if got := cmd.ProcessState.ExitCode(); got != tc.code || skipped != tc.skipped {
			t.Errorf("VULN_REQUIRED=%q, the tool ends with %d and says %q: exit code %d and skipped %t, expected %d "+
				"and %t\n%s", tc.required, tc.ends, tc.says, got, skipped, tc.code, tc.skipped, out)
		}
	}
}

// TestLinksLeadSomewhere: every relative link of every page leads to a file or folder of the project, and to a heading
// there if it names one. At least 25 links have to be found.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	followed := 0
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: the link %s: %v, expected an address", page, m[1], err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			followed++
			target := page
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(page), u.Path)
			}
			if !filepath.IsLocal(target) {
				t.Errorf("%s: %s leads out of the project, where nobody else has it", page, m[1])
				continue
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, m[1], err)
				continue
			}
			if u.Fragment != "" && !slices.Contains(headings(t, target), u.Fragment) {
				t.Errorf("%s: the link %s: there is no such heading, want one of %q", page, m[1], headings(t, target))
			}
		}
	}
	if followed < 25 {
		t.Errorf("followed %d links, want at least 25", followed)
	}
}

// TestNamedPagesExist: every page docs/NAME.md exists that a comment, a message, a help text or the list of changes
// names. docs/LAB.md may name pages that have gone since. At least 50 have to be named.
func TestNamedPagesExist(t *testing.T) {
	page := regexp.MustCompile(`\bdocs/[a-z-]+\.md\b`)
	texts := files(t, ".md", ".go", ".py", ".sh", ".tf", ".yaml", ".mk", ".json", ".ipynb")
	texts["Makefile"] = read(t, "Makefile")
	named := 0
	for file, text := range texts {
		if file == "docs/LAB.md" {
			continue
		}
		for _, name := range page.FindAllString(text, -1) {
			named++
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s names %s, which is not there; say where it has gone", file, name)
			}
		}
	}
	if named < 50 {
		t.Errorf("found %d names of pages, want at least 50", named)
	}
}

// TestPagesAreMerged: no page has the markers of an unresolved merge, which no compiler would notice there.
func TestPagesAreMerged(t *testing.T) {
	marker := regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>)( |$)`)
	for page, text := range pages(t) {
		if found := marker.FindString(text); found != "" {
			t.Errorf("%s has the marker %q of a merge; expected a resolved page", page, found)
		}
	}
}

// TestChangesAreToldOnce: no two entries of CHANGELOG.md have the same heading. Merging two branches keeps the entries
// of both, so that one can come to stand there twice.
func TestChangesAreToldOnce(t *testing.T) {
	told := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*`).FindAllStringSubmatch(read(t, "CHANGELOG.md"), -1) {
		if told[m[1]] {
			t.Errorf("CHANGELOG.md has %q twice: make one entry of them", m[1])
		}
		told[m[1]] = true
	}
}

// TestCommandsNameFolders: every go command in a page, a comment, a Makefile or a message of a test names folders that
// exist. Commands in docs/LAB.md are for the commits that it names. At least 50 folders have to be found.
func TestCommandsNameFolders(t *testing.T) {
	command := regexp.MustCompile(`(\bgo|\$\(GO\)) (test|run|build|vet) .*`)
	folder := regexp.MustCompile(`[ '](\./[a-z][\w/-]*)`)
	looked := 0
	texts := files(t, ".md", ".go", ".py", ".sh", ".mk")
	texts["Makefile"] = read(t, "Makefile")
	for file, text := range texts {
		if file == "docs/LAB.md" {
			continue
		}
		for _, line := range command.FindAllString(text, -1) {
			for _, m := range folder.FindAllStringSubmatch(line, -1) {
				looked++
				if _, err := os.Stat(m[1]); err != nil {
					t.Errorf("%s says %q: there is no folder %s; name it from the root of the project", file, line,
						m[1])
				}
			}
		}
	}
	if looked < 50 {
		t.Errorf("found %d folders in commands, want at least 50", looked)
	}
}

// TestTheWayNamesFiles: the pages that lead a newcomer through the code name files that exist.
func TestTheWayNamesFiles(t *testing.T) {
	file := regexp.MustCompile("`([\\w/*-]+\\.go)`")
	sources := slices.Collect(maps.Keys(files(t, ".go")))
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/design.md"} {
		for _, m := range file.FindAllStringSubmatch(read(t, page), -1) {
			pattern := regexp.MustCompile("(^|/)" + strings.ReplaceAll(regexp.QuoteMeta(m[1]), `\*`, "[^/]*") + "$")
			if !slices.ContainsFunc(sources, pattern.MatchString) {
				t.Errorf("%s names %s, and there is no such file: say where it has gone", page, m[1])
			}
		}
	}
}

// pages returns the text of the project's Markdown files by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	return files(t, ".md")
}

// files returns the text of the project's files with one of these extensions, by path. It leaves out hidden folders and
// what is built.
func files(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || path == "build" || path == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains(extensions, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatalf("cannot read the files with %q: %v", extensions, err)
	}
	return found
}

// headings returns a page's headings as links name them: in small letters, with hyphens for blanks and without any
// other marks.
func headings(t *testing.T, page string) (names []string) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(plain, " ", "-"))
	}
	return names
}

// TestProseEndsAt100: no line of a page has more than 100 columns, except where a line cannot be broken: in tables,
// code and long addresses.
func TestProseEndsAt100(t *testing.T) {
	for page, text := range pages(t) {
		code := false
		for i, line := range strings.Split(text, "\n") {
			fence := strings.HasPrefix(strings.TrimSpace(line), "```")
			code = code != fence
			if code || fence || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "|") ||
				strings.HasPrefix(line, "<!--") {
				continue
			}
			if n := utf8.RuneCountInString(line); n > 100 && strings.Contains(strings.TrimSpace(line), " ") &&
				!strings.Contains(line, "`") {
				t.Errorf("%s:%d: %d columns, expected at most 100", page, i+1, n)
			}
		}
	}
}
