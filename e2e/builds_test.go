//go:build e2e

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestE2EOldLocalCloud: a folder of the first localemu (e2e/testdata/cloud-1 is what its commit f886c52c47c5 left of one
// upload) and one of a later one are refused by all that would write into them, and stay as they are; a folder of this
// build is used again.
func TestE2EOldLocalCloud(t *testing.T) {
	for format, reads := range map[string]string{
		"format is 1 and this build reads 2": "localemu f886c52c47c5",
		"format is 3 and this build reads 2": "localemu v9",
	} {
		l := newLocal(t)
		if err := os.CopyFS(l.data, os.DirFS("e2e/testdata/cloud-1")); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(format, "3") {
			if err := os.WriteFile(filepath.Join(l.data, "gcs", ".format"), []byte(`{"format":3,"build":"v9"}`),
				0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := l.objects()
		for name, r := range map[string]ran{
			"exec": l.run("launcher", "registry", "list"),
			"fit": execute(t, l.dir, nil, binaryOf(t, "launcher"), "fit", l.file("t.csv", "a,b\n1,0\n"), "--label", "b",
				"--data", l.data),
		} {
			if r.code != 5 || !strings.Contains(r.errOut, format) || !strings.Contains(r.errOut, reads) {
				t.Errorf("%s ended with %d, expected 5, and said\n%s\nexpected %q and %q", name, r.code, r.errOut,
					format, reads)
			}
		}
		if after := l.objects(); !maps.Equal(before, after) {
			t.Errorf("%s: the folder has changed: %v, before %v", format, after, before)
		}
	}

	l := newLocal(t)
	for range 2 {
		l.must("launcher", "registry", "list")
	}
}
