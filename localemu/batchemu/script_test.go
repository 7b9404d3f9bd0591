package batchemu

import "testing"

// TestFolderScripts: folderScript matches scripts that only make folders and open them to others, which are all that is
// accepted on Windows, and no script that does more. Every line must have its end.
func TestFolderScripts(t *testing.T) {
	for text, want := range map[string]bool{
		"set -e\nmkdir -p /mnt/disks/coppice\nchmod 1777 /mnt/disks/coppice\n": true,
		"#!/bin/sh\nmkdir -p /mnt\n": true,
		"mkdir -p /mnt; rm -r /\n":   false, "mkdir -p $(x)\n": false, "exit 1\n": false, "mkdir -p /mnt": false,
	} {
		if got := folderScript.MatchString(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
