package stager_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights/nightstest"
	"coppice/internal/problem"
	"coppice/internal/sweep"
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

// TestFetch: what was staged into a bucket is listed, and comes out of it whole; damaged, it is an error.
func TestFetch(t *testing.T) {
	store, dir := blob.Memory(), t.TempDir()
	s := &stager.Stager{Scratch: t.TempDir()}
	dst := stager.Destination{Store: store, URL: "gs://d"}
	stream := nightstest.Stream{Seed: 2, Rows: 1000}
	first := night(t, s, stream.Night(0), dst, "")
	second := night(t, s, stream.Night(1), dst, "")

	all, err := stager.List(t.Context(), store, "")
	if err != nil || len(all) != 2 {
		t.Fatalf("listed %d versions, %v; want 2", len(all), err)
	}
	for _, v := range all {
		if want := v.Manifest.Version == second.Manifest.Version; v.Latest != want || v.Damaged != nil {
			t.Errorf("version %s: latest %t, damaged %v; want %t and nil", v.Manifest.Version, v.Latest, v.Damaged,
				want)
		}
	}
	if none, err := stager.List(t.Context(), store, "click"); err != nil || len(none) != 0 {
		t.Errorf("of dataset click, %d versions are listed, %v; want none", len(none), err)
	}

	must.Do(t, stager.FetchTo(t.Context(), store, first.Manifest, dir))
	if m, err := dataset.Check(t.Context(), dir, nil); err != nil || m.Version != first.Manifest.Version {
		t.Errorf("what was fetched is %v, %v", m, err)
	}

	must.Get(store.Put(t.Context(), sweep.DatasetDir("clicks", second.Manifest.Version)+"train/rows.arrow",
		blob.Any, strings.NewReader("no rows")))(t)
	if err := stager.FetchTo(t.Context(), store, second.Manifest, t.TempDir()); !problem.Is(err, problem.Damaged) {
		t.Errorf("of a damaged version, the error is %v", err)
	}
}

// TestEveryPhaseStops: staging that is cancelled in any of its phases ends with that and leaves nothing: no file in the
// destination's folder or the scratch folder, and no object that makes a version or a verdict.
func TestEveryPhaseStops(t *testing.T) {
	source := rows(t, 2000)
	steps := []stager.Step{stager.StepSurvey, stager.StepWrite, stager.StepEncode, stager.StepChecksum,
		stager.StepCompare, stager.StepUpload}
	for _, at := range steps {
		for _, bucket := range []bool{false, true} {
			if at == stager.StepUpload && !bucket {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			reached := false
			s := &stager.Stager{Scratch: t.TempDir(), Threads: 2, Progress: func(step stager.Step, _, _ int64) {
				if step == at {
					reached = true
					cancel()
				}
			}}
			dir, store := t.TempDir(), blob.Memory()
			dst := stager.Destination{Dir: dir}
			if bucket {
				dst = stager.Destination{Store: store, URL: "gs://d"}
			}

			_, err := s.Stage(ctx, spec(t, source), dst)
			if !reached || !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled in %s (reached: %t), bucket %t: got error %v, expected that it is cancelled", at,
					reached, bucket, err)
			}
			left := append(files(t, dir), files(t, s.Scratch)...)
			for _, name := range names(t, store) {
				if strings.HasSuffix(name, ".json") { // other files are continued by the next upload
					left = append(left, name)
				}
			}
			if len(left) > 0 {
				t.Errorf("cancelled in %s, bucket %t: %q are left, expected nothing", at, bucket, left)
			}
		}
	}
}

// files lists the files below a folder, but for locks.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".lock" {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// order notes the names of objects in the order in which they are written.
type order struct {
	blob.Store
	put []string
}

func (o *order) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	o.put = append(o.put, name)
	return o.Store.Put(ctx, name, cond, r)
}

// TestVerdictComesFirst: a stage that is killed at any moment leaves no version without a verdict.
func TestVerdictComesFirst(t *testing.T) {
	store := &order{Store: blob.Memory()}
	staged := must.Get((&stager.Stager{Scratch: t.TempDir()}).Stage(t.Context(), spec(t, rows(t, 800)),
		stager.Destination{Store: store, URL: "gs://d"}))(t)
	verdict := slices.Index(store.put, sweep.DatasetNight("clicks", staged.Manifest.Version))
	manifest := slices.Index(store.put, sweep.DatasetDir("clicks", staged.Manifest.Version)+"manifest.json")
	if verdict < 0 || manifest < verdict {
		t.Errorf("staging wrote %q: the verdict is number %d and the manifest number %d, expected it to come before",
			store.put, verdict, manifest)
	}
}
