package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/must"
)

// TestOnlyAFileIsReplaced: since the table is renamed into place, it would replace a pipe or /dev/null by a file. So a
// pipe as output is refused and stays, and a file's name is accepted.
func TestOnlyAFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe.csv"), filepath.Join(dir, "clicks.csv")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	// A table of 10 rows, made with seed 7.
	if err := writeTable(pipe, 10, 7); err == nil {
		t.Error("a pipe was replaced by a table, expected an error")
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v now (%v), expected it to be one still", info, err)
	}
	if err := writeTable(file, 10, 7); err != nil {
		t.Errorf("writing %s: %v, expected a table", file, err)
	}
}

// TestTheFirstPageKnowsTheTable: each column that docs/start.md repeats beside predictions (--keep) is one of the
// table's.
func TestTheFirstPageKnowsTheTable(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/start.md"))(t)
	kept := regexp.MustCompile(`--keep\s+([a-z_,]+)`).FindAllSubmatch(text, -1)
	if len(kept) == 0 {
		t.Error("docs/start.md has no --keep; want one, or this test checks nothing")
	}
	for _, found := range kept {
		for _, name := range strings.Split(string(found[1]), ",") {
			if !slices.Contains(names, name) {
				t.Errorf("docs/start.md keeps %q, which is none of %q", name, names)
			}
		}
	}
}
