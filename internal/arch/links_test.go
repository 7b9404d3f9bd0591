package arch_test

import (
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"coppice/internal/must"
)

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
