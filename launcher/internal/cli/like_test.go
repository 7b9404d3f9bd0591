package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestStageLikeTheChampion: a table of ids that is staged like the champion's dataset can be continued on, unlike one
// that is staged from scratch; before there is a champion, encodings are chosen.
func TestStageLikeTheChampion(t *testing.T) {
	w := newWorld(t)
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 3000, Seed: 5})))
	text := "name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\ncategorical: [campaign_id]\nsplit: " +
		"{by: hash, key: user_id, train: 0.6, valid: 0.1, calib: 0.1, test: 0.2}\n"
	anew, like := w.file("anew.yaml", text), w.file("like.yaml", text+"encodings: {like: ctr@champion}\n")
	night := w.file("night.yaml", sweepYAML+"continue: {from: champion}\n")
	staged := func(args ...string) (m dataset.Manifest) {
		t.Helper()
		must.Do(t, json.Unmarshal([]byte(w.must(append([]string{"stage", "--json"}, args...)...)), &m))
		return m
	}

	if code, out, errOut := w.run("stage", like); code != 0 ||
		!strings.Contains(errOut, "model ctr has no champion yet") || strings.Contains(out, "made like") {
		t.Errorf("without a champion: exit code %d, want 0 and encodings that are chosen\n%s\n%s", code, out, errOut)
	}
	g := w.grow(6)
	w.must("registry", "promote", "ctr@1", "--why", "this is the first")
	staged(anew)
	w.refused(sweep.ExitInput, "encodings: {like: MODEL@VERSION}", "sweep", night, "--dry-run")

	m := staged(like)
	if want := g.manifest.Name + "@" + g.manifest.Version; m.Like != want || len(m.Tables) == 0 ||
		m.Version == g.manifest.Version {
		t.Errorf("like the champion: like %q with %d tables, version %s; want another version like %s with its tables",
			m.Like, len(m.Tables), m.Version, want)
	}
	if out := w.must("sweep", night, "--dry-run"); !strings.Contains(out, "continues version 1 of model ctr, 6 trees") {
		t.Errorf("the sweep does not continue the champion:\n%s", out)
	}

	// The same result, and it is not staged twice.
	if here := staged(like, "--out", filepath.Join(w.dir, "here")); here.Version != m.Version {
		t.Errorf("into a folder: version %s, want %s", here.Version, m.Version)
	}
	if out := w.must("stage", like); !strings.Contains(out, "was staged before") ||
		!strings.Contains(out, "made like "+m.Like) {
		t.Errorf("staged again: got\n%s\nwant that it was, and like what", out)
	}

	w.refused(sweep.ExitNotFound, "encodings.like", "stage", w.file("none.yaml", text+"encodings: {like: ctr@7}\n"))
	w.refused(sweep.ExitInput, "such as ctr@champion", "stage", w.file("bad.yaml", text+"encodings: {like: ctr}\n"))
}
