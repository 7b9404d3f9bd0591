package arch_test

import (
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
			t.Errorf("make race leaves out %s, and %s; see CONCURRENT and CONCURRENT_TESTS in the Makefile",
				folder, what)
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

var (
	docOf  = regexp.MustCompile(`bench/(\w+)\.py[^#]*?--doc ([\w/.]+)`)
	markOf = regexp.MustCompile(`report\.marked\(args\.doc, "([\w-]+)"\)|\nMARK = "([\w-]+)"`)
)

// TestMeasurementsHaveAPlace: a benchmark that runs for hours and then writes into a document finds its two marks
// there.
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

// TestOneTypePerName: a reader of one package who meets a type of a package that it imports under the same name must
// not
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
					t.Errorf("%s.%s and %s.%s are two types with one name; want two "+
						"names", path.Base(dir), name, path.Base(other), name)
				}
			}
		}
	}
}

// TestThreatModelNamesTests: a defence whose test has been renamed or dropped must not stay on paper.
func TestThreatModelNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(string(text), -1) {
		missing[quoted[1]] = true
	}
	if len(missing) < 40 {
		t.Fatalf("only %d tests are named", len(missing))
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
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
		t.Fatal(err)
	}
	for name := range missing {
		t.Errorf("docs/design.md names %s, which is no test", name)
	}
}

// TestVulncheckIsNotSkippedInSilence: without its database the check says so, and fails where it is required.
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
		text := "#!/bin/sh\necho '" + tc.says + "'\nexit " + string(rune('0'+tc.ends)) + "\n"
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

// TestLinksLeadSomewhere follows every relative link of every page: to a file or folder of the project, and to a
// heading where it names one.
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
				t.Errorf("%s: %s: there is no such heading", page, m[1])
			}
		}
	}
	if followed < 25 {
		t.Errorf("only %d links were followed", followed)
	}
}

// TestNamedPagesExist: a page that a comment, a message, a help text or the list of changes names is there. LAB.md is
// of the pages of its time.
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
		t.Errorf("only %d pages are named", named)
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

// TestChangesAreToldOnce: merging keeps both sides of the list of changes, so that an entry may stand there twice.
func TestChangesAreToldOnce(t *testing.T) {
	told := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*`).FindAllStringSubmatch(read(t, "CHANGELOG.md"), -1) {
		if told[m[1]] {
			t.Errorf("CHANGELOG.md has %q twice: make one entry of them", m[1])
		}
		told[m[1]] = true
	}
}

// TestCommandsNameFolders: a go command in a page, a comment, a Makefile or a message of a test names folders that
// exist. Those of LAB.md are of the commits that it names.
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
		t.Errorf("only %d folders were looked for", looked)
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

// pages are the project's Markdown files.
func pages(t *testing.T) map[string]string {
	t.Helper()
	return files(t, ".md")
}

// files are the project's files with one of these extensions, without what is made by building or tests.
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
		t.Fatal(err)
	}
	return found
}

// headings are a page's headings as links name them: small letters, hyphens for blanks, no other marks.
func headings(t *testing.T, page string) (names []string) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(plain, " ", "-"))
	}
	return names
}

// TestProseEndsAt100 holds documents to 100 columns, where a line can be broken: not tables, code and long addresses.
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
