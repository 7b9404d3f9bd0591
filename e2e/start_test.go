//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestE2EStart types every command of docs/start.md, and what docs/data.md and docs/sweep.md begin with, one after the
// other in one folder, as a reader does: with fewer rows and three trials. What fit prints has the rows that the page
// explains.
func TestE2EStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := must.Get(programs())(t)
	must.Do(t, os.Symlink(folder, filepath.Join(dir, "bin")))
	build := exec.Command("go", "build", "-tags", "disable_grpc_modules", "-o", filepath.Join(dir, "tools", "coppice"),
		"./python/program")
	build.Env = builder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building coppice: %v\n%s", err, out)
	}
	env := append(withoutCloud(t, filepath.Join(dir, "tmp")),
		"PATH="+filepath.Join(dir, "tools")+string(os.PathListSeparator)+os.Getenv("PATH"))

	smaller := strings.NewReplacer("make build && ", "", "--rows 200000", "--rows 20000", "--rows 10000",
		"--rows 2000", "--minutes 2", "--trials 3")
	said, typed := map[string]string{}, 0
	for _, line := range slices.Concat(typedIn(t, "docs/start.md", true), typedIn(t, "docs/data.md", false),
		typedIn(t, "docs/sweep.md", false)) {
		line = smaller.Replace(line)
		if strings.Contains(line, "SWEEP") {
			line = strings.ReplaceAll(line, "SWEEP", sweepOf(t, said["coppice status"]))
		}
		r := execute(t, dir, env, "/bin/sh", "-c", line)
		want := 0
		if strings.HasPrefix(line, "coppice cancel") {
			want = 5 // the sweep has ended
		}
		if r.code != want {
			t.Fatalf("%q ended with exit code %d, expected %d:\n%s\n%s", line, r.code, want, r.out, r.errOut)
		}
		said[line] = r.out
		typed++
	}
	if typed < 18 {
		t.Errorf("%d commands were found, expected at least 18", typed)
	}

	page := must.Get(os.ReadFile("docs/start.md"))(t)
	rows := regexp.MustCompile(`(?m)^\| \*([a-z ]+)\*`).FindAllStringSubmatch(string(page), -1)
	if len(rows) < 5 {
		t.Errorf("docs/start.md explains %d rows of what fit prints, expected at least 5", len(rows))
	}
	for line, out := range said {
		for _, row := range rows {
			shown := regexp.MustCompile(`(?m)^(│ )?` + row[1] + ` `)
			if strings.HasPrefix(line, "coppice fit") && !shown.MatchString(out) {
				t.Errorf("%q prints no row %q, which docs/start.md explains:\n%s", line, row[1], out)
			}
		}
	}
}

// typedIn are the commands of a page's indented blocks, all of them or those of the first one; without those that
// install, which `make door` types.
func typedIn(t *testing.T, page string, all bool) (commands []string) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	install := regexp.MustCompile(`^(make wheels|python3 |pip )`)
	comment := regexp.MustCompile(` +# .*$`)
	for _, line := range strings.Split(string(text), "\n") {
		command, indented := strings.CutPrefix(line, "    ")
		if !indented {
			if !all && len(commands) > 0 {
				return commands
			}
			continue
		}
		if command = comment.ReplaceAllString(command, ""); !install.MatchString(command) {
			commands = append(commands, command)
		}
	}
	return commands
}

// sweepOf is the id of the sweep that status shows.
func sweepOf(t *testing.T, status string) string {
	t.Helper()
	id := regexp.MustCompile(`clicks-[0-9a-f]{8}`).FindString(status)
	if id == "" {
		t.Fatalf("coppice status shows no sweep of clicks:\n%s", status)
	}
	return id
}
