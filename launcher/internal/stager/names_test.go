package stager_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/launcher/internal/stager"
)

func TestBucketsHavePlainNames(t *testing.T) {
	for url, want := range map[string][2]string{
		"gs://my-exports/day/*.parquet": {"my-exports", "day/*.parquet"},
		"gs://b.example/":               {"b.example", ""},
		"gs://../x":                     {},
		"gs://b%2F..%2Fo/x":             {},
		"gs://UPPER/x":                  {},
		"gs:///x":                       {},
		"gs://b?x/y":                    {},
		"gs://" + strings.Repeat("b", 300) + "/x": {},
		"b/x": {},
	} {
		bucket, rest, err := stager.SplitURL(url)
		if bucket != want[0] || rest != want[1] && err == nil || (err == nil) != (want[0] != "") {
			if err == nil || want[0] != "" {
				t.Errorf("split %q into %q and %q, error %v; expected %q", url, bucket, rest, err, want)
			}
		}
	}
}

// TestAPointerLeadsNowhereElse: a note on the disk that an input was staged before names a version of this dataset, and
// no other folder.
func TestAPointerLeadsNowhereElse(t *testing.T) {
	source, dir := rows(t, 500), t.TempDir()
	s := &stager.Stager{Scratch: t.TempDir()}
	dst := stager.Destination{Dir: dir}
	stage := func(edits ...string) *stager.Staged {
		t.Helper()
		got := must.Get(s.Stage(t.Context(), spec(t, source, edits...), dst))(t)
		return got
	}
	first, other := stage(), stage("name: clicks", "name: other", "train: 0.7, valid: 0.3", "train: 0.6, valid: 0.4")
	version := func(v string) string { return `"version":"` + v + `"` }
	changed := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "manifest.json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), version(first.Manifest.Version)) {
			return err
		}
		changed++
		return os.WriteFile(path, []byte(strings.Replace(string(text), version(first.Manifest.Version),
			version("../other/"+other.Manifest.Version), 1)), 0o644)
	})
	if err != nil || changed == 0 {
		t.Fatalf("%d notes were altered (error %v); want at least one", changed, err)
	}
	if again := stage(); again.Manifest.Name != "clicks" || again.Manifest.Version != first.Manifest.Version {
		t.Errorf("clicks are now %s@%s", again.Manifest.Name, again.Manifest.Version)
	}
}
