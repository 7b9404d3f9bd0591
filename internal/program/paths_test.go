package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/program"
)

// TestPathsOfOutputs: a file may be replaced and a folder filled; devices, pipes and loops of links are neither.
func TestPathsOfOutputs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("folder"), 0o700), syscall.Mkfifo(at("pipe"), 0o600),
		os.Symlink(at("loop"), at("loop")), os.Symlink(at("file"), at("link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	for path, says := range map[string][2]string{ // what is said of it as a file, and as a folder
		at("file"): {"", "is a file; give a folder"}, at("link"): {"", "is a file; give a folder"},
		at("folder"): {"is a folder; give the file's name, too", ""},
		at("pipe"):   {"is a pipe; give the name of a file", "is a pipe; give a folder"},
		"/dev/null":  {"is a device; give the name of a file", "is a device; give a folder"},
		at("loop"):   {"too many levels of symbolic links", "too many levels of symbolic links"}, at("new"): {"", ""},
		at("no/new"):   {"no does not exist", ""},
		at("file/new"): {"not a directory", "not a directory"}, "a\x00b": {"invalid argument", "invalid argument"},
	} {
		for i, check := range []func(string, string) error{program.CheckOutFile, program.CheckOutFolder} {
			err := check("--out", path)
			if says[i] == "" && err != nil || says[i] != "" &&
				(err == nil || !strings.Contains(err.Error(), "--out "+path) ||
					!strings.Contains(err.Error(), says[i])) {
				t.Errorf("%q, check %d: %v, expected %q", path, i, err, says[i])
			}
		}
	}
}
