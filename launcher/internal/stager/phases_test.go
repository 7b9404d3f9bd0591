package stager_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

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
