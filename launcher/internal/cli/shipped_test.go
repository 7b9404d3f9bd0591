package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// shipped returns the specs that people copy: by file and, for blocks of the documentation, by document.
func shipped(t *testing.T) map[string]string {
	t.Helper()
	const root = "../../.."
	specs := map[string]string{}
	read := func(path string) string {
		text := must.Get(os.ReadFile(path))(t)
		return string(text)
	}

	for _, tree := range []string{"examples", "terraform/examples"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, tree), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (filepath.Ext(path) == ".yaml" || filepath.Ext(path) == ".yml") {
				specs[strings.TrimPrefix(path, root+"/")] = read(path)
			}
			return err
		}))
	}

	// Whole specs in the documentation begin with a name; the other blocks are parts of one.
	block := regexp.MustCompile("(?ms)^```yaml\n(name: .*?)^```$")
	for _, doc := range []string{"docs/sweep.md", "docs/data.md"} {
		found := block.FindAllStringSubmatch(read(filepath.Join(root, doc)), -1)
		if len(found) == 0 {
			t.Errorf("%s has no whole spec in a yaml block any more", doc)
		}
		for _, m := range found {
			specs[doc] = m[1]
		}
	}
	// The acceptance run makes its own.
	script := read(filepath.Join(root, "terraform/acceptance.sh"))
	m := regexp.MustCompile("(?ms)^sweep_spec\\(\\) \\{\n  cat <<END\n(.*?)^END$").FindStringSubmatch(script)
	if m == nil {
		t.Fatal("terraform/acceptance.sh has no sweep_spec with a text any more")
	}
	specs["terraform/acceptance.sh"] = strings.NewReplacer("$MACHINE", "n2-highmem-2", "$SSDS", "2").Replace(m[1])
	return specs
}

// TestShippedSpecsAreTaken plans every sweep and reads every dataset that ships: what our own launcher refuses must not
// be what people begin with. A file that is neither is an error, so that none is passed over.
func TestShippedSpecsAreTaken(t *testing.T) {
	w := newWorld(t)
	sweeps, datasets := 0, 0
	for name, text := range shipped(t) {
		switch {
		case regexp.MustCompile(`(?m)^source:`).MatchString(text):
			datasets++
			if _, err := dataset.ParseSpec(name, []byte(text)); err != nil {
				t.Errorf("reading the dataset %s: %v", name, err)
			}
		case regexp.MustCompile(`(?m)^(trials|search): `).MatchString(text):
			sweeps++
			file := w.file("sweep.yaml", text)
			if code, out, errOut := w.run("plan", file, "--rows", "130000000", "--features", "40"); code != 0 {
				t.Errorf("planning the sweep %s ended with %d, expected 0\n%s%s", name, code, out, errOut)
			}
		default:
			t.Errorf("%s is neither a dataset (source:) nor a sweep (trials:)", name)
		}
	}
	if sweeps < 5 || datasets < 3 {
		t.Errorf("%d sweeps and %d datasets were found, expected at least 5 and 3", sweeps, datasets)
	}
}
