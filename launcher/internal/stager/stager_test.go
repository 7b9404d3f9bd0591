package stager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// spec returns a spec for a table of datasettest. edits are pairs: a text in the spec, and what replaces it.
func spec(t *testing.T, source string, edits ...string) *dataset.Spec {
	t.Helper()
	text := "name: clicks\nsource: " + source +
		"\nlabel: is_click\ndrop: [revenue]\nsplit: {by: hash, key: user_id, train: 0.7, valid: 0.3}\n"
	return must.Get(dataset.ParseSpec("dataset.yaml", []byte(strings.NewReplacer(edits...).Replace(text))))(t)
}

// staged stages, which has to succeed.
func staged(t *testing.T, s *stager.Stager, spec *dataset.Spec, dst stager.Destination) *stager.Staged {
	t.Helper()
	return must.Get(s.Stage(t.Context(), spec, dst))(t)
}

// rows writes a table of datasettest with so many rows, and returns its path.
func rows(t *testing.T, rows int) string {
	t.Helper()
	return writeFile(t, datasettest.Table(datasettest.Options{Rows: rows}))
}

// names returns the names of all objects in a store.
func names(t *testing.T, s blob.Store) []string {
	t.Helper()
	var out []string
	for attrs, err := range s.List(t.Context(), "") {
		must.Do(t, err)
		out = append(out, attrs.Name)
	}
	return out
}

// TestFolderAndBucketHoldTheSame: a table staged into a folder and into a bucket has the same version and the same
// bytes. Progress names every step and never exceeds its total, and the scratch folder is left empty.
func TestFolderAndBucketHoldTheSame(t *testing.T) {
	source := rows(t, 800)
	store, dir := blob.Memory(), t.TempDir()
	steps := map[stager.Step]bool{}
	s := &stager.Stager{Scratch: t.TempDir(), Threads: 2, Progress: func(step stager.Step, done, total int64) {
		steps[step] = true
		if done > total {
			t.Errorf("%s: %d of %d done; want no more than all", step, done, total)
		}
	}}
	a := staged(t, s, spec(t, source), stager.Destination{Dir: dir})
	b := staged(t, s, spec(t, source), stager.Destination{Store: store, URL: "gs://d"})
	if a.Manifest.Version != b.Manifest.Version || a.Existed || b.Existed {
		t.Errorf("versions %s (existed: %t) and %s (%t), want the same new one", a.Manifest.Version, a.Existed,
			b.Manifest.Version, b.Existed)
	}

	// The same bytes.
	for _, f := range append(a.Manifest.Files, dataset.FileInfo{Name: dataset.ManifestFile}) {
		local := must.Get(os.ReadFile(filepath.Join(a.Place, filepath.FromSlash(f.Name))))(t)
		remote, _, err := blob.ReadAll(t.Context(), store, sweep.DatasetDir("clicks", b.Manifest.Version)+f.Name, 1<<26)
		if err != nil || !bytes.Equal(local, remote) {
			t.Errorf("%s in the bucket: got other bytes than in the folder, or error %v; want the same", f.Name, err)
		}
	}
	want := []stager.Step{stager.StepChecksum, stager.StepSurvey, stager.StepUpload, stager.StepWrite,
		stager.StepEncode, stager.StepCompare}
	if !slices.Equal(slices.Sorted(maps.Keys(steps)), slices.Sorted(slices.Values(want))) {
		t.Errorf("progress was of the steps %v, want %v", steps, want)
	}
	left, err := os.ReadDir(s.Scratch)
	if err != nil || len(left) != 0 {
		t.Errorf("the scratch folder holds %v (error %v), want nothing", left, err)
	}
}

// TestSameInputIsFoundAgain: the same table and spec are not staged twice, neither at once nor after another version
// was staged in between. What was staged last is the latest version, also if it existed before.
func TestSameInputIsFoundAgain(t *testing.T) {
	source := rows(t, 500)
	store, dir := blob.Memory(), t.TempDir()
	s := &stager.Stager{Scratch: t.TempDir()}
	for round := range 2 {
		for _, dst := range []stager.Destination{{Store: store, URL: "gs://d"}, {Dir: dir}} {
			got := staged(t, s, spec(t, source), dst)
			if got.Existed != (round == 1) {
				t.Errorf("round %d at %+v: existed %t, want it from round 1 on", round, dst, got.Existed)
			}
		}
	}
	// The spec counts as input, too, so another split is another version. It does not make the first one be forgotten.
	bucket := stager.Destination{Store: store, URL: "gs://d"}
	other := staged(t, s, spec(t, source, "train: 0.7, valid: 0.3", "train: 0.6, valid: 0.4"), bucket)
	if other.Existed {
		t.Errorf("staging with another split: %+v, expected a new version", other)
	}
	m, err := stager.Resolve(t.Context(), store, "clicks")
	if err != nil || m.Version != other.Manifest.Version {
		t.Errorf("the latest version is %v, %v; want the one staged last", m, err)
	}
	again := staged(t, s, spec(t, source), bucket)
	if !again.Existed {
		t.Errorf("staging the first input again: %+v, expected the version that existed", again)
	}
	if m, err := stager.Resolve(t.Context(), store, "clicks"); err != nil || m.Version != again.Manifest.Version {
		t.Errorf("after staging the first input again, the latest version is %v, error %v; want %s", m, err,
			again.Manifest.Version)
	}
}

// TestInterruptedUploadIsTakenUp: if the store fails after three writes in each attempt, repeated attempts still end
// with a whole version, since each continues where the last one stopped. There is never a manifest before its files.
func TestInterruptedUploadIsTakenUp(t *testing.T) {
	const (
		perAttempt    = 3 // fewer than there are files, so that starting over each time would never end
		afterManifest = 3 // objects that may be missing when the manifest is there: the record and two pointers
	)

	// Which objects an upload makes that is not interrupted.
	source := rows(t, 500)
	whole, broken := blob.Memory(), blob.Memory()
	s := &stager.Stager{Scratch: t.TempDir()}
	staged(t, s, spec(t, source), stager.Destination{Store: whole})
	total := len(names(t, whole))
	for attempt := 1; ; attempt++ {
		// The store takes perAttempt writes, then it fails.
		left := perAttempt
		_, err := s.Stage(t.Context(), spec(t, source), stager.Destination{Store: blobtest.Before(broken, blobtest.Put,
			func(context.Context, string) error {
				if left--; left < 0 {
					return errors.New("out of reach")
				}
				return nil
			})})
		have := names(t, broken)
		complete := slices.ContainsFunc(have,
			func(name string) bool { return strings.HasSuffix(name, "/manifest.json") })
		if complete && len(have) < total-afterManifest {
			t.Fatalf("there is a manifest, but only these objects: %v; want it after all files", have)
		}
		if err == nil {
			break
		}
		if attempt > total {
			t.Fatalf("after %d attempts: got error %v, want a whole version by now", attempt, err)
		}
	}
	if !slices.Equal(names(t, whole), names(t, broken)) {
		t.Errorf("after an interruption there are %v; want the names of a whole upload, %v", names(t, broken),
			names(t, whole))
	}
}

// TestOldObjectsAreWrittenAnew: staging does not rely on objects that `launcher clean` may be about to remove. If a
// version lacks its manifest, its files of an hour ago are kept, but those of more than a day ago are written anew,
// which gives them another generation.
func TestOldObjectsAreWrittenAnew(t *testing.T) {
	source, store := rows(t, 500), blob.Memory()
	s := &stager.Stager{Scratch: t.TempDir()}
	whole := staged(t, s, spec(t, source), stager.Destination{Store: store})
	prefix := sweep.DatasetDir("clicks", whole.Manifest.Version)
	for _, c := range []struct {
		later time.Duration
		anew  bool
	}{{time.Hour, false}, {25 * time.Hour, true}} {
		s.Now = func() time.Time { return time.Now().Add(c.later) }
		before := map[string]blob.Generation{}
		for a, err := range store.List(t.Context(), prefix) {
			must.Do(t, err)
			before[a.Name] = a.Generation
		}
		manifest := prefix + dataset.ManifestFile
		must.Do(t, store.(blob.Remover).Remove(t.Context(), manifest, before[manifest]))
		staged(t, s, spec(t, source), stager.Destination{Store: store})
		for _, f := range whole.Manifest.Files {
			a, err := store.Stat(t.Context(), prefix+f.Name)
			if err != nil || (a.Generation != before[a.Name]) != c.anew {
				t.Errorf("%v later: %s is at %d, %v, and was at %d; want it anew: %t", c.later, f.Name, a.Generation,
					err, before[a.Name], c.anew)
			}
		}
	}
}

// TestSourceInABucket: a table of several objects, given by a pattern or a folder, has the same version as the same
// rows in one local file. Objects that are not tables are left out. An input that was staged before is not fetched
// again.
func TestSourceInABucket(t *testing.T) {
	bucket, dst := blob.Memory(), blob.Memory()
	// Two objects with the rows of one table, and others that must be left out.
	data := datasettest.Table(datasettest.Options{Rows: 900})
	lines := bytes.SplitAfterN(data, []byte("\n"), 500) // the header, 498 rows, and the other 402 as one text
	head := lines[0]
	first, second := bytes.Join(lines[:499], nil), append(slices.Clone(head), lines[499]...)
	for name, text := range map[string][]byte{"day/part-0.csv": first, "day/part-1.csv": second, "day/_SUCCESS": nil,
		"day/_temporary/x.csv": head, "day/readme.txt": head, "other.csv": head} {
		must.Get(bucket.Put(t.Context(), name, blob.Any, bytes.NewReader(text)))(t)
	}
	fetched := 0 // how often a fetch has made progress
	s := &stager.Stager{Scratch: t.TempDir(), Bucket: func(_ context.Context, name string) (blob.Store, error) {
		if name != "exports" {
			return nil, errors.New("bucket " + name)
		}
		return bucket, nil
	}, Progress: func(step stager.Step, _, _ int64) {
		if step == stager.StepFetch {
			fetched++
		}
	}}
	local := must.Get(s.Stage(t.Context(), spec(t, writeFile(t, data)), stager.Destination{Dir: t.TempDir()}))(t)
	for _, pattern := range []string{"gs://exports/day/*.csv", "gs://exports/day/", "gs://exports/day/part-[01].csv"} {
		got := staged(t, s, spec(t, pattern), stager.Destination{Store: dst})
		if got.Manifest.Version != local.Manifest.Version || len(got.Manifest.About.Sources) != 2 {
			t.Errorf("%s: version %s of %v, want two sources and %s, as from one local file", pattern,
				got.Manifest.Version, got.Manifest.About.Sources, local.Manifest.Version)
		}
	}

	// The same source again, and sources that are not there.
	before := fetched
	if got, err := s.Stage(t.Context(), spec(t, "gs://exports/day"), stager.Destination{Store: dst}); err != nil ||
		!got.Existed || fetched != before {
		t.Errorf("staging the same objects again: got %+v, error %v, %d fetches; want the version that existed, and "+
			"no fetch", got, err, fetched-before)
	}
	_, err := s.Stage(t.Context(), spec(t, "gs://exports/nothing/*.parquet"), stager.Destination{Store: dst})
	if !problem.Is(err, problem.NotFound) {
		t.Errorf("staged from a pattern without objects: %v, want an error of the kind not found", err)
	}
	if _, err := s.Stage(t.Context(), spec(t, "gs://elsewhere/x.csv"), stager.Destination{Store: dst}); err == nil {
		t.Error("staging from a bucket that cannot be opened: got no error, want one")
	}
}

// writeFile writes a table into a new temporary folder and returns its path.
func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	must.Do(t, os.WriteFile(path, data, 0o644))
	return path
}

// TestFailureLeavesNothing: a bad table, or staging that is cancelled, leaves nothing in the destination and in the
// scratch folder, not even folders that staging made.
func TestFailureLeavesNothing(t *testing.T) {
	bad := writeFile(t, []byte("user_id,is_click,revenue,x\nu1,1,0,1\nu2,0,0\n"))
	dir, scratch, store := t.TempDir(), t.TempDir(), blob.Memory()
	s := &stager.Stager{Scratch: scratch}
	// The bad table is one value short in its third line. A write into the bucket would be an error about that instead.
	unwritten := func(_ context.Context, name string) error { return errors.New("no write expected: " + name) }
	for _, dst := range []stager.Destination{{Dir: dir}, {Store: blobtest.Before(store, blobtest.Put, unwritten)}} {
		var te *table.InputError
		if _, err := s.Stage(t.Context(), spec(t, bad), dst); !errors.As(err, &te) || te.Line != 3 {
			t.Errorf("staged a line with a value too few: error %v, want one about line 3", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Stage(ctx, spec(t, rows(t, 300)), stager.Destination{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("staged when cancelled: error %v, want that of the context", err)
	}
	for _, root := range []string{dir, scratch} {
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v (error %v), want nothing left behind", root, left, err)
		}
	}
	fresh := filepath.Join(dir, "new", "folder")
	if _, err := s.Stage(t.Context(), spec(t, bad), stager.Destination{Dir: fresh}); err == nil {
		t.Error("staging a bad table into a new folder: got no error, want one")
	}
	if _, err := os.Stat(filepath.Dir(fresh)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new folder after a failure: got %v, want it not to exist", err)
	}
}

// TestDamagedVersionIsMadeAgain: staging a damaged version again makes it whole, in a folder and in a bucket. The table
// of train, the sample or the manifest is damaged by a flipped bit in its middle, or by its last two bytes cut off.
func TestDamagedVersionIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	source, dir, store := rows(t, 500), t.TempDir(), blob.Memory()
	s := &stager.Stager{Scratch: t.TempDir()}
	folder, bucket := stager.Destination{Dir: dir}, stager.Destination{Store: store, URL: "gs://d"}
	stage := func(dst stager.Destination) *stager.Staged { return staged(t, s, spec(t, source), dst) }
	first := stage(folder)
	stage(bucket)
	prefix := sweep.DatasetDir("clicks", first.Manifest.Version)
	for _, name := range []string{"train/rows.arrow", "sample.arrow", dataset.ManifestFile} {
		good := must.Get(os.ReadFile(filepath.Join(first.Place, name)))(t)
		flipped := bytes.Clone(good)
		flipped[len(good)/2] ^= 1
		for what, bad := range map[string][]byte{"flipped": flipped, "cut off": good[:len(good)-2]} {
			must.Do(t, os.WriteFile(filepath.Join(first.Place, name), bad, 0o644))
			must.Get(store.Put(t.Context(), prefix+name, blob.Any, bytes.NewReader(bad)))(t)
			for _, dst := range []stager.Destination{folder, bucket} {
				if again := stage(dst); again.Existed || again.Manifest.Version != first.Manifest.Version {
					t.Errorf("%s %s: staged again as %+v; want the same version, made anew", name, what, again)
				}
				if !stage(dst).Existed {
					t.Errorf("%s %s: staged a third time, the version did not exist; want it found", name, what)
				}
			}
			if _, err := dataset.Check(t.Context(), first.Place, nil); err != nil {
				t.Errorf("%s %s, staged again: %v, expected a whole dataset in the folder", name, what, err)
			}
			if data, _, err := blob.ReadAll(t.Context(), store, prefix+name, 1<<26); err != nil ||
				!bytes.Equal(data, good) {
				t.Errorf("%s %s: the object has other bytes than at first (error %v), want the same", name, what, err)
			}
		}
	}
}

// TestStaleWorkspacesAreSwept: staging removes the workspaces of killed processes, whose lock is free, and empty ones.
// It leaves those of living processes, and folders without a lock, which may be another user's.
func TestStaleWorkspacesAreSwept(t *testing.T) {
	source, dir, scratch := rows(t, 300), t.TempDir(), t.TempDir()
	var kept []string // foreign and live of the destination's folder, then of scratch
	for _, base := range []string{filepath.Join(dir, "clicks", ".staging-"), filepath.Join(scratch, "coppice-stage-")} {
		for _, name := range []string{"dead", "foreign", "live"} {
			must.Do(t, os.MkdirAll(filepath.Join(base+name, "dataset"), 0o755))
			if name != "foreign" { // another user's folder of the same name
				must.Do(t, os.WriteFile(filepath.Join(base+name, "lock"), nil, 0o644))
			}
		}
		must.Do(t, os.Mkdir(base+"young", 0o755)) // killed before it had locked its folder
		lock := flock.New(filepath.Join(base+"live", "lock"))
		if ok, err := lock.TryLock(); err != nil || !ok {
			t.Fatalf("locking a live folder: %v, %v, expected the lock", ok, err)
		}
		defer lock.Close()
		kept = append(kept, filepath.Base(base+"foreign"), filepath.Base(base+"live"))
	}
	s := &stager.Stager{Scratch: scratch}
	for _, dst := range []stager.Destination{{Dir: dir}, {Store: blob.Memory()}} {
		staged(t, s, spec(t, source), dst)
	}
	for i, root := range []string{filepath.Join(dir, "clicks"), scratch} {
		entries := must.Get(os.ReadDir(root))(t)
		var left []string
		for _, e := range entries {
			if strings.Contains(e.Name(), "stag") {
				left = append(left, e.Name())
			}
		}
		if want := kept[2*i : 2*i+2]; !slices.Equal(left, want) {
			t.Errorf("%s: left %v, want %s", root, left, want)
		}
	}
}

// TestStagingsSideBySide: eight stagers that stage two versions of one dataset into one folder at the same time all
// succeed, and the folder has the two versions.
func TestStagingsSideBySide(t *testing.T) {
	source, dir := rows(t, 300), t.TempDir()
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error {
			s := &stager.Stager{Scratch: dir, Threads: 1}
			_, err := s.Stage(t.Context(), spec(t, source, "train: 0.7, valid: 0.3",
				fmt.Sprintf("train: 0.%d, valid: 0.%d", 6+i%2, 4-i%2)), stager.Destination{Dir: dir})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Errorf("staging eight times at once: got error %v, want none", err)
	}
	if versions, err := filepath.Glob(filepath.Join(dir, "clicks", "*", dataset.ManifestFile)); err != nil ||
		len(versions) != 2 {
		t.Errorf("the versions are %v, %v, expected two", versions, err)
	}
}

// TestResolve: a dataset or version that is not staged is an error of kind NotFound, and a text that is not a name of
// one is another error. A forged pointer cannot lead out of the dataset's folder.
func TestResolve(t *testing.T) {
	store := blob.Memory()
	for _, ref := range []string{"clicks", "clicks@0123456789abcdef"} {
		if _, err := stager.Resolve(t.Context(), store, ref); !problem.Is(err, problem.NotFound) {
			t.Errorf("resolved %s, which is not staged: error %v, expected one of kind not found", ref, err)
		}
	}
	for _, ref := range []string{"../clicks", "clicks@../x", "clicks@"} {
		if _, err := stager.Resolve(t.Context(), store, ref); err == nil || problem.Is(err, problem.NotFound) {
			t.Errorf("resolved %q: error %v, expected one about the name", ref, err)
		}
	}
	// A forged pointer cannot lead outside.
	must.Get(store.Put(t.Context(), sweep.DatasetLatest("clicks"), blob.Any,
		strings.NewReader(`{"format":1,"version":"../../secrets"}`)))(t)
	if _, err := stager.Resolve(t.Context(), store, "clicks"); err == nil {
		t.Error("resolving by a pointer to ../../secrets: got no error, want one")
	}
}

// TestAKnownManifestIsRenewed: if a table gives a version that is there already, although no pointer says so, the
// manifest keeps its contents but is written anew, so that `launcher clean` leaves the version alone.
func TestAKnownManifestIsRenewed(t *testing.T) {
	store := blob.Memory()
	s := &stager.Stager{Scratch: t.TempDir()}
	source, to := rows(t, 300), stager.Destination{Store: store, URL: "gs://d"}
	first := staged(t, s, spec(t, source), to)

	// Remove the pointers that say which version an input was staged as.
	for a, err := range store.List(t.Context(), "datasets/clicks/inputs/") {
		must.Do(t, err)
		must.Do(t, store.(blob.Remover).Remove(t.Context(), a.Name, a.Generation))
	}
	name := sweep.DatasetDir("clicks", first.Manifest.Version) + dataset.ManifestFile
	old := must.Get(store.Stat(t.Context(), name))(t)
	again := staged(t, s, spec(t, source), to)
	renewed := must.Get(store.Stat(t.Context(), name))(t)
	if again.Manifest.Version != first.Manifest.Version || renewed.Generation == old.Generation ||
		renewed.CRC32C != old.CRC32C {
		t.Errorf("staged again as %s, its manifest is %+v, want that of %s, %+v, at a new generation",
			again.Manifest.Version, renewed, first.Manifest.Version, old)
	}
}
