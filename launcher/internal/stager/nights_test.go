package stager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// night stages a table at dst. rest is added to the spec of nightstest.
func night(t *testing.T, s *stager.Stager, table nightstest.Table, dst stager.Destination, rest string) *stager.Staged {
	t.Helper()
	file := filepath.Join(t.TempDir(), "night.csv")
	must.Do(t, os.WriteFile(file, table.CSV(), 0o600))
	spec := must.Get(dataset.ParseSpec("dataset.yaml", append(nightstest.Spec(file), "encodings: none\n"+rest...)))(t)
	return must.Get(s.Stage(t.Context(), spec, dst))(t)
}

// clearColumn empties a column of a table, in place.
func clearColumn(table nightstest.Table, name string) {
	at := slices.Index(table.Names, name)
	for _, row := range table.Rows {
		row[at] = ""
	}
}

// TestNightsAreCompared: in a folder and in a bucket, a night that is not like those before is blocked, also when it is
// staged again. Later nights are not compared with it until a person accepts it.
func TestNightsAreCompared(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	stream := nightstest.Stream{Seed: 2, Rows: 3000}
	for name, dst := range map[string]stager.Destination{"folder": {Dir: t.TempDir()},
		"bucket": {Store: blob.Memory(), URL: "gs://d"}} {
		t.Run(name, func(t *testing.T) {
			at := nightstest.First // moves a day forward whenever the stager asks for the time
			s := &stager.Stager{Scratch: t.TempDir(), Now: func() time.Time { at = at.Add(24 * time.Hour); return at }}
			first := night(t, s, stream.Night(0), dst, "contract: auto\n")
			if first.Night == nil || first.Night.Blocked() || len(first.Night.Against) != 0 {
				t.Fatalf("the first night has the record %+v; want it against none, and not blocked", first.Night)
			}

			// A night whose column of countries is empty.
			bad := stream.Night(1)
			clearColumn(bad, "country")
			blocked := night(t, s, bad, dst, "contract: auto\n")
			err := stager.CheckNight(blocked.Night, at, "")
			var refused *stager.BlockedError
			if !errors.As(err, &refused) || refused.ExitStatus() != sweep.ExitBlocked ||
				blocked.Night.Findings[0].Code != nights.CodeEmpty {
				t.Fatalf("a night without countries: got error %v, findings %v; want it blocked for an empty column",
					err, blocked.Night.Findings)
			}
			if again := night(t, s, bad, dst, "contract: auto\n"); !again.Existed || !again.Night.Blocked() {
				t.Errorf("staged again, the night existed %t and is blocked %t; want both", again.Existed,
					again.Night.Blocked())
			}

			// The same night as it should be.
			good := night(t, s, stream.Night(1), dst, "contract: auto\n")
			if good.Night.Blocked() || len(good.Night.Against) != 1 || good.Night.Against[0] != first.Manifest.Version {
				t.Errorf("a good night was compared with %v and found %v; want it compared with the first alone",
					good.Night.Against, good.Night.Findings)
			}

			// Accept the blocked one; then it counts.
			r, err := dst.Accept(t.Context(), "clicks", blocked.Manifest.Version,
				nights.Acceptance{By: "ann", Why: "no countries any more", At: at})
			if err != nil || r.Blocked() {
				t.Fatalf("accepted: %v, blocked %t; want it to pass", err, r.Blocked())
			}
			read, err := dst.Night(t.Context(), "clicks", blocked.Manifest.Version)
			if err != nil || read.Accepted == nil || read.Accepted.Why != "no countries any more" ||
				stager.CheckNight(read, at, "") != nil {
				t.Errorf("the record says %+v, %v; want who accepted it, why, and that it passes", read, err)
			}
			// Three nights are staged by now: the first, the accepted one without countries, and the good second one.
			if next := night(t, s, stream.Night(2), dst, "contract: auto\n"); len(next.Night.Against) != 3 {
				t.Errorf("the next night was compared with %v; want all three, of which one was accepted",
					next.Night.Against)
			}
		})
	}
}

// TestContractBeginsWithNights: a table is compared with earlier ones, but two tables are not yet nights: a person may
// be trying out a spec. So the second is warned about, not blocked. A schedule or a third table makes them nights,
// which can be blocked. contract: in the spec does, too (TestNightsAreCompared).
func TestContractBeginsWithNights(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	stream := nightstest.Stream{Seed: 2, Rows: 3000}
	dst := stager.Destination{Dir: t.TempDir()}
	at := nightstest.First
	s := &stager.Stager{Scratch: t.TempDir(), Now: func() time.Time { at = at.Add(time.Hour); return at }}
	passes := func(what string, n *stager.Staged) {
		t.Helper()
		if err := stager.CheckNight(n.Night, at, ""); err != nil {
			t.Errorf("%s: %v; want it to pass", what, err)
		}
	}
	first := stream.Night(0)

	// The last 5 % of the rows, which are test once the table is split by time, are also in train. Staged with other
	// specs it stays one table, which is not compared with itself.
	copied := len(first.Rows) * 95 / 100
	for i := copied; i < len(first.Rows); i++ {
		ts := first.Rows[i][0]
		first.Rows[i] = slices.Clone(first.Rows[i-copied])
		first.Rows[i][0] = ts
	}
	passes("a table", night(t, s, first, dst, "drop: [age]\n"))
	passes("the same with a changed spec", night(t, s, first, dst, "drop: [age, price]\n"))
	passes("and again", night(t, s, first, dst, "drop: [price]\nmax_bin: 63\n"))

	// A second table, without countries.
	empty := stream.Night(1)
	clearColumn(empty, "country")
	second := night(t, s, empty, dst, "drop: [price]\n")
	passes("a second table", second)
	if len(second.Night.Findings) == 0 || second.Night.Findings[0].Code != nights.CodeEmpty {
		t.Errorf("a second table without countries: found %v; want a warning %s", second.Night.Findings,
			nights.CodeEmpty)
	}

	// A schedule's nights: the first has nothing to be compared with, and the second can be blocked already.
	nightly := &stager.Stager{Scratch: t.TempDir(), Now: s.Now, Night: "2026-11-20"}
	empty.Rows = empty.Rows[1:] // so that it is another table than the second one, which has its record already
	scheduled := stager.Destination{Dir: t.TempDir()}
	if n := night(t, nightly, empty, scheduled, ""); n.Night.Blocked() {
		t.Errorf("a schedule's first night is blocked, want it to pass: %v", n.Night.Findings)
	}
	clearColumn(empty, "device")
	if n := night(t, nightly, empty, scheduled, ""); !n.Night.Blocked() {
		t.Errorf("a schedule's second night, without devices: found %v; want it blocked", n.Night.Findings)
	}

	// A third table where two are staged can be blocked without a schedule.
	if n := night(t, s, empty, dst, "drop: [price]\n"); !n.Night.Blocked() {
		t.Errorf("a third table, without devices: found %v; want it blocked", n.Night.Findings)
	}
}

// TestNightGrowsOld: CheckNight, which is asked when a dataset is staged and when it is trained on, passes a table that
// is two hours old under contract.max_age 30h, and refuses it 30 hours later.
func TestNightGrowsOld(t *testing.T) {
	at := nightstest.First.Add(26 * time.Hour) // the newest row is of the end of the first day, two hours ago
	s := &stager.Stager{Scratch: t.TempDir(), Now: func() time.Time { return at }}
	staged := night(t, s, nightstest.Stream{Seed: 2, Rows: 1000}.Night(0), stager.Destination{Dir: t.TempDir()},
		"contract: {max_age: 30h}\n")
	if err := stager.CheckNight(staged.Night, at, ""); err != nil {
		t.Errorf("a table two hours old, where 30 are allowed: got error %v, want none", err)
	}
	if err := stager.CheckNight(staged.Night, at.Add(30*time.Hour), ""); err == nil {
		t.Error("a table 32 hours old, with max_age 30h: got no error, want it refused")
	}
}

// TestDamagedNights: a record that cannot be read is an error of its own. Staging the same table again writes a new
// one, and other nights are compared without it.
func TestDamagedNights(t *testing.T) {
	store := blob.Memory()
	dst := stager.Destination{Store: store, URL: "gs://d"}
	s := &stager.Stager{Scratch: t.TempDir()}
	stream := nightstest.Stream{Seed: 2, Rows: 1000}
	first := night(t, s, stream.Night(0), dst, "")
	name := sweep.DatasetNight("clicks", first.Manifest.Version)
	must.Get(store.Put(t.Context(), name, blob.Any, strings.NewReader("{}")))(t)

	if _, err := dst.Night(t.Context(), "clicks", first.Manifest.Version); !problem.Is(err, problem.Damaged) {
		t.Errorf("the record {}: %v; want an error of the kind damaged", err)
	}
	if again := night(t, s, stream.Night(0), dst, ""); again.Night == nil || again.Night.Blocked() {
		t.Errorf("staged again, the night's record is %+v; want a new one", again.Night)
	}
	must.Get(store.Put(t.Context(), name, blob.Any, strings.NewReader("{}")))(t)
	if second := night(t, s, stream.Night(1), dst, ""); len(second.Night.Against) != 0 {
		t.Errorf("compared with %v; want nothing, since the only night before is damaged", second.Night.Against)
	}
}

// TestManyBlockedNights: after 70 blocked versions, more than the 60 that would be read (twice nights.MaxNights), later
// nights are still compared with the good ones before: blocked ones do not count among the 60.
func TestManyBlockedNights(t *testing.T) {
	dst := stager.Destination{Store: blob.Memory(), URL: "gs://d"}
	s := &stager.Stager{Scratch: t.TempDir()}
	stream := nightstest.Stream{Seed: 2, Rows: 1000}
	good := night(t, s, stream.Night(0), dst, "").Night
	for i := range 70 {
		bad := *good
		bad.Version = fmt.Sprintf("%016x", i)
		bad.Findings = []nights.Finding{{Code: nights.CodeEmpty, Level: nights.Blocking, Text: "nothing"}}
		text := must.Get(bad.Encode())(t)
		must.Get(dst.Store.Put(t.Context(), sweep.DatasetNight("clicks", bad.Version), blob.Any,
			bytes.NewReader(text)))(t)
	}
	if n := night(t, s, stream.Night(1), dst, "").Night; !slices.Equal(n.Against, []string{good.Version}) {
		t.Errorf("after 70 blocked nights one is compared with %v; want %s", n.Against, good.Version)
	}
}

// TestBucketsHavePlainNames: a URL is split into bucket and rest only if a bucket may have that name; all others are
// errors.
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
		valid := want[0] != ""
		switch {
		case valid && (err != nil || bucket != want[0] || rest != want[1]):
			t.Errorf("split %q into %q and %q, error %v; expected %q", url, bucket, rest, err, want)
		case !valid && err == nil:
			t.Errorf("split %q into %q and %q, expected an error", url, bucket, rest)
		}
	}
}

// TestAPointerLeadsNowhereElse: the file in a folder that says which version an input was staged as can only name a
// version of its dataset. Altered to lead to another dataset, it is ignored, and the input is staged again.
func TestAPointerLeadsNowhereElse(t *testing.T) {
	source, dir := rows(t, 500), t.TempDir()
	s := &stager.Stager{Scratch: t.TempDir()}
	dst := stager.Destination{Dir: dir}
	stage := func(edits ...string) *stager.Staged { return staged(t, s, spec(t, source, edits...), dst) }
	first, other := stage(), stage("name: clicks", "name: other", "train: 0.7, valid: 0.3", "train: 0.6, valid: 0.4")

	// Alter the note of the first dataset, so that it names the version of the other.
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
		t.Errorf("staging clicks again gives %s@%s, want clicks@%s", again.Manifest.Name, again.Manifest.Version,
			first.Manifest.Version)
	}
}

// TestFetch: versions that were staged into a bucket are listed, the last as the latest, and can be fetched whole.
// Fetching a damaged version is an error of kind Damaged.
func TestFetch(t *testing.T) {
	store, dir := blob.Memory(), t.TempDir()
	s := &stager.Stager{Scratch: t.TempDir()}
	dst := stager.Destination{Store: store, URL: "gs://d"}
	stream := nightstest.Stream{Seed: 2, Rows: 1000}
	first := night(t, s, stream.Night(0), dst, "")
	second := night(t, s, stream.Night(1), dst, "")

	// Both are listed.
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

	// Fetch the first, then damage the second and fetch that.
	must.Do(t, stager.FetchTo(t.Context(), store, first.Manifest, dir))
	if m, err := dataset.Check(t.Context(), dir, nil); err != nil || m.Version != first.Manifest.Version {
		t.Errorf("what was fetched is %v, %v; want the first version, whole", m, err)
	}

	must.Get(store.Put(t.Context(), sweep.DatasetDir("clicks", second.Manifest.Version)+"train/rows.arrow",
		blob.Any, strings.NewReader("no rows")))(t)
	if err := stager.FetchTo(t.Context(), store, second.Manifest, t.TempDir()); !problem.Is(err, problem.Damaged) {
		t.Errorf("fetched a damaged version: got %v; want that kind of error", err)
	}
}

// TestEveryPhaseStops: staging that is cancelled in any of its steps returns the context's error. It leaves no file in
// the destination's or the scratch folder, and in a bucket neither a manifest nor a record of a comparison.
func TestEveryPhaseStops(t *testing.T) {
	source := rows(t, 2000)
	steps := []stager.Step{stager.StepSurvey, stager.StepWrite, stager.StepEncode, stager.StepChecksum,
		stager.StepCompare, stager.StepUpload}
	for _, at := range steps {
		for _, bucket := range []bool{false, true} {
			if at == stager.StepUpload && !bucket {
				continue // a folder has no upload
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

// files lists the files below a folder, except locks.
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

// TestVerdictComesFirst: the record of the comparison is written before the manifest. So staging that is killed at any
// moment leaves no version without one.
func TestVerdictComesFirst(t *testing.T) {
	var put []string
	store := blobtest.Before(blob.Memory(), blobtest.Put, func(_ context.Context, name string) error {
		put = append(put, name)
		return nil
	})
	m := staged(t, &stager.Stager{Scratch: t.TempDir()}, spec(t, rows(t, 800)), stager.Destination{Store: store,
		URL: "gs://d"}).Manifest
	verdict := slices.Index(put, sweep.DatasetNight("clicks", m.Version))
	manifest := slices.Index(put, sweep.DatasetDir("clicks", m.Version)+"manifest.json")
	if verdict < 0 || manifest < verdict {
		t.Errorf("staging wrote %q: the verdict is number %d and the manifest number %d, expected it to come before",
			put, verdict, manifest)
	}
}
