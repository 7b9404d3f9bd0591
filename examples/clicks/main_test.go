package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOnlyAFileIsReplaced: the table is renamed into place, which would make a file of a pipe or of /dev/null.
func TestOnlyAFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe.csv"), filepath.Join(dir, "clicks.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(pipe, 10, 7); err == nil {
		t.Error("a pipe was replaced by a table, expected an error")
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v now (%v), expected it to be one still", info, err)
	}
	if err := write(file, 10, 7); err != nil {
		t.Errorf("writing %s: %v, expected a table", file, err)
	}
}
