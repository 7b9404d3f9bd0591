package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"coppice/internal/must"
	"coppice/internal/problem"
)

const goldenDir = "testdata/golden/want"

// TestGolden writes a fixed dataset and compares all its files with the golden ones. The format is a promise to all who
// keep datasets: the golden files are rewritten (go test -run Golden -update) only together with FormatVersion.
// testdata/golden/check.py reads them with other tools.
func TestGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	m := newFixture(20261121, smallRows()).write(t, dir, 16, 2)
	names := append(m.fileNames(), ManifestFile)
	if *update {
		must.Do(t, os.RemoveAll(goldenDir))
		must.Do(t, os.CopyFS(goldenDir, os.DirFS(dir)))
	}
	for _, name := range names {
		if !bytes.Equal(mustRead(t, dir, name), mustRead(t, goldenDir, name)) {
			t.Errorf("%s differs from the golden file; want the same bytes", name)
		}
	}
}

// damage is a replacement in a manifest's text, and the error it causes.
type damage struct{ old, with, want string }

// refused makes the replacement in a good manifest's text, and expects DecodeManifest to refuse it with the error.
func (d damage) refused(t *testing.T, good []byte) {
	t.Helper()
	if !bytes.Contains(good, []byte(d.old)) {
		t.Fatalf("the good manifest has no %s to replace; want one", d.old)
	}
	_, err := DecodeManifest(bytes.Replace(good, []byte(d.old), []byte(d.with), 1))
	if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), d.want) {
		t.Errorf("%s in place of %s: got error %v, want ... %s ...", d.with, d.old, err, d.want)
	}
}

// TestDecodeManifestRefuses damages a good manifest in one place at a time, and expects an error of kind Damaged that
// names the place. A manifest of more than MaxManifest bytes must be refused without being decoded.
func TestDecodeManifestRefuses(t *testing.T) {
	good := mustRead(t, goldenDir, ManifestFile)
	for name, tc := range map[string]damage{
		"format":            {`"format":1`, `"format":4`, "format: 4; this build reads 1 to 3"},
		"format 2 of old":   {`"format":1`, `"format":2`, "format: 2, but the contents are of format 1"},
		"name":              {`"name":"clicks"`, `"name":"../clicks"`, `name: dataset name "../clicks"`},
		"version":           {`"version":"`, `"version":"x`, "is not 16 hexadecimal digits"},
		"kind":              {`"kind":"numeric"`, `"kind":"numbers"`, `features[0]: kind "numbers"`},
		"bounds descend":    {`[-1.5,1e-35,40]`, `[-1.5,41,40]`, "features[0]: bounds[2] is 40"},
		"bounds repeat":     {`[-1.5,1e-35,40]`, `[-1.5,40,40]`, "features[0]: bounds[2] is 40"},
		"too few bins":      {`"bins":4`, `"bins":3`, "features[0]: 3 bins"},
		"too many bins":     {`"bins":4`, `"bins":400`, "features[0]: 400 bins"},
		"missing bin":       {`"missing_bin":4`, `"missing_bin":1`, "missing_bin 1"},
		"other bin":         {`"other_bin":3`, `"other_bin":4`, "other_bin 4"},
		"category twice":    {`"Zürich"`, `"Ulm"`, `features[3]: categories[2] "Ulm" is repeated`},
		"name twice":        {`"name":"city"`, `"name":"age"`, `features[3]: the name "age" is repeated`},
		"reserved name":     {`"name":"city"`, `"name":"__row"`, `"__row" is taken`},
		"control character": {`"name":"city"`, `"name":"ci\u0000ty"`, "control character"},
		"empty name":        {`"name":"city"`, `"name":""`, "must be 1 to"},
		"label":             {`"kind":"binary"`, `"kind":"ternary"`, "label.kind"},
		"label twice": {`"column":"clicked","kind":"binary"`,
			`"column":"clicked","kind":"binary","positive":"1","above":1`, "contradicts itself"},
		"split order": {`{"name":"train","rows":11,"label_mean":0.5},{"name":"valid","rows":1,"label_mean":0.5}`,
			`{"name":"valid","rows":1,"label_mean":0.5},{"name":"train","rows":11,"label_mean":0.5}`,
			`"train" is unknown, repeated or out of order`},
		"split name":    {`"name":"calib"`, `"name":"other"`, `"other" is unknown`},
		"no rows":       {`"rows":64`, `"rows":0`, "calib has 0 rows"},
		"negative rows": {`"rows":64`, `"rows":-64`, "calib has -64 rows"},
		"split rule":    {`"by":"hash"`, `"by":"magic"`, `split.by: "magic"`},
		"sample": {`"sample":{"split":"train","rows":3}`, `"sample":{"split":"train","rows":12}`,
			"12 rows of the split"},
		"path": {`"name":"train/rows.arrow"`, `"name":"../../etc/passwd"`,
			`"../../etc/passwd" where "train/rows.arrow" belongs`},
		"no bytes": {`"name":"sample.arrow","bytes":`, `"name":"sample.arrow","bytes":-`,
			"files.sample.arrow: -"},
		"number overflow": {`"rows":64`, `"rows":99999999999999999999`, "cannot unmarshal"},
		"not JSON":        {`{"format"`, `{format`, "invalid character"},
		"max_bin":         {`"max_bin":255`, `"max_bin":1000`, "max_bin 1000"},
		"format of texts": {`"max_bin":255`, `"formats":{"age":"roman"},"max_bin":255`,
			`formats: column "age": format "roman"`},
		"long token": {`"nan"`, `"` + strings.Repeat("x", maxName+1) + `"`, "missing: a text of 1025 bytes"},
		"positions":  {`"split":{`, `"position":"slot","split":{`, `unknown key "position"`},
	} {
		t.Run(name, func(t *testing.T) { tc.refused(t, good) })
	}
	if _, err := DecodeManifest(make([]byte, MaxManifest+1)); err == nil ||
		!strings.Contains(err.Error(), "more than the") {
		t.Errorf("a manifest of more than MaxManifest bytes: got error %v, want one that says so", err)
	}
}

// travel encodes the Encoding of a manifest, decodes it and returns it. Encoding it again must give the same bytes.
func travel(t *testing.T, m *Manifest) *Encoding {
	t.Helper()
	data := must.Get(json.Marshal(m.Encoding()))(t)
	e := must.Get(DecodeEncoding(data))(t)
	again, err := json.Marshal(e)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("encoded again: got\n%s (error %v)\nwant\n%s", again, err, data)
	}
	return e
}

// TestEncodingTravelsAlone checks that an Encoding keeps its bytes when it is decoded and encoded again, and that
// encodings that are empty, contradict themselves or have an unknown format are refused as damaged.
func TestEncodingTravelsAlone(t *testing.T) {
	m := must.Get(ReadManifest(goldenDir))(t)
	travel(t, m)
	const oneFeature = `{"format":1,"features":[{"name":"a","kind":"numeric","why":"","bins":1,"missing_bin":-1,` +
		`"other_bin":-1,"missing":0}],"missing":[]`
	must.Get(DecodeEncoding([]byte(oneFeature + "}")))(t)
	for _, bad := range []string{"", "{}", `{"format":1,"features":[],"missing":[]}`,
		strings.Replace(oneFeature, `"bins":1`, `"bins":9`, 1) + "}", oneFeature + `,"formats":{"a":"roman"}}`} {
		if _, err := DecodeEncoding([]byte(bad)); !problem.Is(err, problem.Damaged) {
			t.Errorf("the encoding %s: got error %v; want it called damaged", bad, err)
		}
	}
}

// TestSharedMetadataIsRefused makes a schema whose 2,000 columns all refer to one list of metadata. A list of maxPairs
// pairs is read; one of 2,000 pairs is refused at the first column, before 2,000 copies of it take the memory.
func TestSharedMetadataIsRefused(t *testing.T) {
	for pairs, want := range map[int]string{maxPairs: "", 2000: "2000 pairs of metadata"} { // "": no error
		// Build the schema with a flatbuffers builder, since buildSchema would write the list for each column. Slots 0,
		// 2, 3 and 6 of a Field are its name, the kind of its type, the type and the metadata. Slot 1 of a Schema has
		// the fields.
		b := flatbuffers.NewBuilder(1 << 16)
		meta := make([]keyValue, pairs)
		for i := range meta {
			meta[i] = keyValue{"key", "value"}
		}
		metaVector := buildKeyValues(b, meta)
		name, typ := b.CreateString("n"), buildType(b, arrowUint8)
		fields := make([]flatbuffers.UOffsetT, 2000)
		for i := range fields {
			b.StartObject(7)
			b.PrependUOffsetTSlot(0, name, 0)
			b.PrependByteSlot(2, typeInt, 0)
			b.PrependUOffsetTSlot(3, typ, 0)
			b.PrependUOffsetTSlot(6, metaVector, 0)
			fields[i] = b.EndObject()
		}
		vector := buildOffsets(b, fields)
		b.StartObject(4)
		b.PrependUOffsetTSlot(1, vector, 0)
		b.Finish(b.EndObject())

		p := &parser{name: "f", data: b.FinishedBytes()}
		var f arrowFile
		p.parseSchema(p.root(0, int64(len(p.data))), &f)
		if want == "" && (p.err != nil || len(f.fields) != len(fields) || len(f.fields[0].meta) != pairs) {
			t.Errorf("%d pairs: %v; want them read", pairs, p.err)
		}
		if want != "" && (p.err == nil || !strings.Contains(p.err.Error(), want) || len(f.fields) > 1) {
			t.Errorf("%d pairs: %v after %d columns; want them refused, at the first", pairs, p.err, len(f.fields))
		}
	}
}

// TestWriterRefusesAnEndlessManifest checks that a manifest which is too large to be read is not written: its missing
// markers have 65 MB.
func TestWriterRefusesAnEndlessManifest(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	f := newFixture(1, smallRows())
	m := f.manifest
	long := strings.Repeat("x", 1<<20)
	for i := range 65 {
		m.Missing = append(m.Missing, fmt.Sprint(i, long))
	}
	_, err := NewWriter(filepath.Join(t.TempDir(), "d"), &m)
	if !problem.Is(err, problem.Damaged) ||
		!strings.Contains(err.Error(), "it may have 67108864; drop columns or lower max_bin") { // 64 MiB
		t.Errorf("a manifest of 65 MB: got error %v, want one of kind damaged that says it may have 67108864", err)
	}
}

// TestWriterRefusesTargetsOfOtherLengths checks that a column of targets which is missing, or longer than the label, is
// an error, and is not taken for zeros or for values of another width.
func TestWriterRefusesTargetsOfOtherLengths(t *testing.T) {
	f := newFixture(1, smallRows())
	m := f.manifest
	w := must.Get(NewWriter(filepath.Join(t.TempDir(), "d"), &m))(t)
	defer w.Close()
	for name, change := range map[string]func(*Targets){
		"weight": func(t *Targets) { t.Weight = nil },
		"group":  func(t *Targets) { t.Group = append(t.Group, t.Group...) },
		"fold":   func(t *Targets) { t.Fold = t.Fold[1:] },
	} {
		targets := f.targets["calib"]
		change(&targets)
		err := w.WriteTargets("calib", 0, targets)
		must.Say(t, fmt.Sprintf("another length of %s", name), err, name+" is not as long")
	}
	must.Do(t, w.WriteTargets("calib", 0, f.targets["calib"]))
}

// FuzzManifest checks that a manifest which is accepted is also accepted after it has been written again. The features
// of one without faults put any number in a bin that there is, even if the version is wrong, which protects manifests
// from accidents and not from people who compute it.
func FuzzManifest(f *testing.F) {
	f.Add(mustRead(f, goldenDir, ManifestFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		var raw Manifest
		if decodeJSON(data, &raw) == nil && raw.check() == nil {
			for i := range raw.Features {
				feature := &raw.Features[i]
				for _, x := range []float64{0, -1, 1e308} {
					if int(feature.BinOfNumber(x)) >= feature.Bins {
						t.Fatalf("bin %d of %d, want a bin that there is", feature.BinOfNumber(x), feature.Bins)
					}
				}
			}
		}
		m, err := DecodeManifest(data)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("got error %v of type %T, want one of kind damaged", err, err)
		}
		if err != nil {
			return
		}
		again := must.Get(m.Encode())(t)
		if _, err := DecodeManifest(again); err != nil {
			t.Fatalf("written and decoded again: got error %v, want none", err)
		}
	})
}

// FuzzOpen reads all bytes that the metadata of an accepted Arrow file points to: they must be inside the file and
// aligned.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"train/rows.arrow", "train/columns.arrow", "train/targets.arrow"} {
		f.Add(mustRead(f, goldenDir, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseArrow("f", data)
		if err != nil {
			if !problem.Is(err, problem.Damaged) {
				t.Fatalf("got error %v of type %T, want one of kind Damaged", err, err)
			}
			return
		}
		sum := 0
		for _, c := range a.columns {
			for _, s := range []span{c.validity, c.offsets, c.data} {
				if s.off%alignment != 0 {
					t.Fatalf("a buffer begins at byte %d, want a multiple of %d", s.off, alignment)
				}
				for _, b := range data[s.off : s.off+s.n] { // panics if the buffer is not inside the file
					sum += int(b)
				}
			}
		}
		_, _ = ReadTargets(data) // must not panic, either
	})
}

// FuzzSample checks that a sample which is accepted stays the same when it is written and read again.
func FuzzSample(f *testing.F) {
	f.Add(mustRead(f, goldenDir, SampleFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadSample(data)
		if err != nil {
			return
		}
		again := must.Get(s.Encode())(t)
		s2 := must.Get(ReadSample(again))(t)
		if describe(s) != describe(s2) {
			t.Fatalf("written and read again: got\n%s\nwant\n%s", describe(s2), describe(s))
		}
	})
}

// someLevels returns tables with so many levels each, and random levels for them, with weights and with times if asked
// for. Only the last table has recency.
func someLevels(weight, last bool, counts ...int) (*Levels, []LevelTable) {
	rng := rand.New(rand.NewPCG(5, 5))
	l, tables := &Levels{}, []LevelTable{}
	for i, n := range counts {
		tables = append(tables, LevelTable{First: l.Len(), Levels: n, Floor: 1, Strength: 1, BackOff: -1,
			Recency: last && i == len(counts)-1})
		hashes := make([]uint64, n)
		for j := range hashes {
			hashes[j] = rng.Uint64()
		}
		slices.Sort(hashes)
		for _, h := range hashes {
			l.Hash, l.Sum, l.Rows = append(l.Hash, h), append(l.Sum, rng.NormFloat64()), append(l.Rows, rng.Uint32())
			if weight {
				l.Weight = append(l.Weight, rng.Float64())
			}
			if last {
				l.Last = append(l.Last, rng.NormFloat64()*1e9)
			}
		}
	}
	return l, tables
}

// openBytes writes data as a levels file and opens it for the tables. The levels are closed when the test ends.
func openBytes(t *testing.T, data []byte, tables []LevelTable) (*Levels, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), LevelsFile)
	must.Do(t, os.WriteFile(path, data, 0o600))
	l, err := OpenLevels(path, tables)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, err
}

// TestLevelsSurviveTheirFile writes levels, with and without weights and times, and expects the same ones from
// ReadLevels and OpenLevels.
func TestLevelsSurviveTheirFile(t *testing.T) {
	for _, weight := range []bool{false, true} {
		for _, last := range []bool{false, true} {
			for _, counts := range [][]int{{1}, {0, 1, 0}, {7, 8, 9}, {1000, 0, 333}} {
				want, tables := someLevels(weight, last, counts...)
				data := want.Encode()
				read, err := ReadLevels(data, tables)
				if err != nil {
					t.Fatalf("read %v levels, weight %v, last %v: got error %v, want none", counts, weight, last, err)
				}
				mapped, err := openBytes(t, data, tables)
				if err != nil {
					t.Fatalf("map %v levels, weight %v, last %v: got error %v, want none", counts, weight, last, err)
				}
				bare := *mapped
				bare.mapping = nil // which levels that were not mapped lack
				if !reflect.DeepEqual(read, want) || !reflect.DeepEqual(&bare, want) {
					t.Errorf("%v levels, weight %v, last %v: read\n%v\nmapped\n%v\nwant what was written\n%v", counts,
						weight, last, read, &bare, want)
				}
				if again := mapped.Encode(); !slices.Equal(again, data) {
					t.Errorf("%v levels, weight %v, last %v: the mapped levels are encoded as %d other bytes, want "+
						"the %d that were mapped", counts, weight, last, len(again), len(data))
				}
			}
		}
	}
}

// TestLevelsCloseIsHarmless closes nil levels, levels that are not mapped, and mapped ones twice, without an error.
func TestLevelsCloseIsHarmless(t *testing.T) {
	want, tables := someLevels(false, false, 3)
	mapped := must.Get(openBytes(t, want.Encode(), tables))(t)
	for _, l := range []*Levels{nil, want, mapped, mapped} {
		if err := l.Close(); err != nil {
			t.Errorf("close: got error %v, want none", err)
		}
	}
}

// hashesOf returns functions that make the i-th of n hashes, by name. Levels.Find begins where a hash would be if
// hashes were evenly spread, so all but the first are spread unevenly.
func hashesOf(rng *rand.Rand) map[string]func(i, n int) uint64 {
	return map[string]func(i, n int) uint64{
		"spread":         func(int, int) uint64 { return rng.Uint64() },
		"at 0":           func(i, _ int) uint64 { return uint64(i) },
		"at the end":     func(i, _ int) uint64 { return math.MaxUint64 - uint64(i) },
		"high bits same": func(int, int) uint64 { return 0xABCDEF<<40 | rng.Uint64N(1<<40) },
		"low bits same":  func(i, n int) uint64 { return uint64(i) * (math.MaxUint64 / uint64(n)) },
		"both ends":      func(i, _ int) uint64 { return uint64(i) * -uint64(i%2) },
		"one far away":   func(i, _ int) uint64 { return uint64(min(i, 1))<<63 + uint64(i) },
	}
}

// TestFindAgreesWithAMap checks that Find finds the hashes of its own table and no others, for tables of up to 5,000
// levels and hashes that are spread in different ways. Find widens its range by 16 levels at first, so tables of about
// that size are among them.
func TestFindAgreesWithAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, next := range hashesOf(rng) {
		for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 100, 5000} {
			// The table is in the middle of three that have the same hashes: only its own must be found. Some functions
			// give a hash twice, so a table may have fewer than n levels.
			hashes := map[uint64]bool{}
			for i := range n {
				hashes[next(i, n)] = true
			}
			sorted := make([]uint64, 0, n)
			for h := range hashes {
				sorted = append(sorted, h)
			}
			slices.Sort(sorted)
			l := &Levels{Hash: slices.Repeat(sorted, 3)}
			table := &LevelTable{First: len(sorted), Levels: len(sorted)}

			// Look up its hashes, those directly beside them, others that are spread alike, and random ones.
			asked := []uint64{0, 1, 1 << 63, math.MaxUint64}
			for _, h := range sorted {
				asked = append(asked, h, h-1, h+1)
			}
			for range 100 {
				asked = append(asked, next(rng.IntN(n+1), n+1), rng.Uint64())
			}
			for _, h := range asked {
				at, ok := l.Find(table, h)
				if ok != hashes[h] {
					t.Fatalf("%s, %d levels: hash %x is found: %t, want %t", name, len(sorted), h, ok, hashes[h])
				}
				if ok && (at < table.First || at >= table.First+table.Levels || l.Hash[at] != h) {
					t.Fatalf("%s, %d levels: hash %x is found at %d, which has %x; want its index, from %d to %d", name,
						len(sorted), h, at, l.Hash[at], table.First, table.First+table.Levels-1)
				}
			}
		}
	}
}

// TestFindWithoutLevels looks a hash up in nil levels, which a model has if none of its tables has a level.
func TestFindWithoutLevels(t *testing.T) {
	if at, ok := (*Levels)(nil).Find(&LevelTable{}, 1); ok {
		t.Errorf("without levels, found one at %d; want none", at)
	}
}

// damagedFile is the contents of a file, and part of the error with which it must be refused.
type damagedFile struct {
	file []byte
	want string
}

// damagedLevels returns levels files that are laid out well, but do not have what two tables of 70 and 30 levels need,
// of which the second has recency. l has the right levels.
func damagedLevels(l *Levels) map[string]damagedFile {
	// as returns a file of zeros whose columns are changed from hash, sum, rows, weight and last. with returns a file
	// of changed levels.
	fields := levelFields(true, true)
	as := func(change func(fields []arrowField) []arrowField) []byte {
		layout := newLayout(change(slices.Clone(fields)), nil, int64(l.Len()), nil)
		return append(append(slices.Clone(layout.head), make([]byte, layout.tailAt-int64(len(layout.head)))...),
			layout.foot...)
	}
	with := func(change func(l *Levels)) []byte {
		bad := &Levels{Hash: slices.Clone(l.Hash), Sum: slices.Clone(l.Sum), Rows: slices.Clone(l.Rows),
			Weight: slices.Clone(l.Weight),
			Last:   slices.Clone(l.Last)}
		change(bad)
		return bad.Encode()
	}
	const columns = "its columns are not hash, sum and rows"
	return map[string]damagedFile{
		"nothing":        {[]byte{}, ""},
		"no Arrow":       {[]byte(strings.Repeat("levels", 100)), "an Arrow file begins with ARROW1"},
		"one level more": {with(func(bad *Levels) { bad.Append(l, 99) }), "101 levels where the tables have 100"},
		"no levels": {with(func(bad *Levels) { *bad = Levels{Weight: []float64{}, Last: []float64{}} }),
			"0 rows"},
		"no last":          {with(func(bad *Levels) { bad.Last = nil }), columns},
		"no sum":           {as(func(f []arrowField) []arrowField { return slices.Delete(f, 1, 2) }), columns},
		"another order":    {as(func(f []arrowField) []arrowField { f[0], f[1] = f[1], f[0]; return f }), columns},
		"a column twice":   {as(func(f []arrowField) []arrowField { return append(f, f[4]) }), columns},
		"signed hashes":    {as(func(f []arrowField) []arrowField { f[0].typ = arrowInt64; return f }), columns},
		"short sums":       {as(func(f []arrowField) []arrowField { f[1].typ = arrowFloat32; return f }), columns},
		"long rows":        {as(func(f []arrowField) []arrowField { f[2].typ = arrowUint64; return f }), columns},
		"text for weights": {as(func(f []arrowField) []arrowField { f[3].typ = arrowUtf8; return f }), columns},
		"hashes descend": {with(func(bad *Levels) { bad.Hash[40], bad.Hash[41] = bad.Hash[41], bad.Hash[40] }),
			"levels of table 0 do not ascend at level 41"},
		"a hash twice": {with(func(bad *Levels) { bad.Hash[99] = bad.Hash[98] }),
			"levels of table 1 do not ascend at level 99"},
		"sum NaN":             {with(func(bad *Levels) { bad.Sum[3] = math.NaN() }), "sum NaN at level 3"},
		"sum infinite":        {with(func(bad *Levels) { bad.Sum[99] = math.Inf(-1) }), "sum -Inf at level 99"},
		"weight NaN":          {with(func(bad *Levels) { bad.Weight[0] = math.NaN() }), "weight NaN at level 0"},
		"weight infinite":     {with(func(bad *Levels) { bad.Weight[0] = math.Inf(1) }), "weight +Inf at level 0"},
		"weight below 0":      {with(func(bad *Levels) { bad.Weight[50] = -1 }), "weight -1 at level 50"},
		"last seen never":     {with(func(bad *Levels) { bad.Last[70] = math.NaN() }), "last NaN at level 70"},
		"last seen endlessly": {with(func(bad *Levels) { bad.Last[71] = math.Inf(1) }), "last +Inf at level 71"},
	}
}

// TestDamagedLevelsAreRefused expects an error of kind Damaged for levels that are damaged, cut off or of other tables,
// both when they are read and when they are mapped.
func TestDamagedLevelsAreRefused(t *testing.T) {
	l, tables := someLevels(true, true, 70, 30)
	good := l.Encode()
	if _, err := ReadLevels(good, tables); err != nil {
		t.Fatalf("levels before any damage: %v; want them read", err)
	}
	check := func(name string, data []byte, tables []LevelTable, want string) {
		t.Helper()
		if _, err := ReadLevels(data, tables); !problem.Is(err, problem.Damaged) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s, read: got %v, want ... %s ...", name, err, want)
		}
		if _, err := openBytes(t, data, tables); !problem.Is(err, problem.Damaged) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s, mapped: got %v, want ... %s ...", name, err, want)
		}
	}
	for name, tc := range damagedLevels(l) {
		check(name, tc.file, tables, tc.want)
	}
	for n := 0; n < len(good); n += 64 {
		check(fmt.Sprintf("cut off at byte %d", n), good[:n], tables, "")
	}
	check("times, and no table has recency", good, []LevelTable{{Levels: 100}}, "its columns are not")
	check("no tables", good, nil, "its columns are not")
}

// FuzzReadLevels checks that of levels which are accepted each is found by its hash, that with recency times are
// numbers, and that they stay the same when they are written and read again. The levels are those of two tables, of
// which the first has as many as the fuzzer says, and the second may have recency.
func FuzzReadLevels(f *testing.F) {
	for _, optional := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		l, _ := someLevels(optional[0], optional[1], 3, 4)
		f.Add(l.Encode(), 3, optional[1])
	}
	f.Fuzz(func(t *testing.T, data []byte, first int, recency bool) {
		a, err := parseArrow(LevelsFile, data)
		if err != nil {
			return
		}
		first = max(0, min(first, int(a.rows)))
		tables := []LevelTable{{Levels: first}, {First: first, Levels: int(a.rows) - first, Recency: recency}}
		l, err := ReadLevels(data, tables)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("got error %v of type %T, want one of kind Damaged", err, err)
		}
		if err != nil {
			return
		}

		for i := range tables {
			for at := tables[i].First; at < tables[i].First+tables[i].Levels; at++ {
				if found, ok := l.Find(&tables[i], l.Hash[at]); !ok || found != at {
					t.Fatalf("level %d of table %d is found at %d (%v), want itself", at, i, found, ok)
				}
				// Rate must not panic; a rate is not looked at.
				if rate := tables[i].Rate(l.Sum[at], l.Seen(at), 0.5); recency && l.Last[at] != l.Last[at] {
					t.Fatalf("rate %v, last %v; want a time that is a number", rate, l.Last[at])
				}
			}
		}
		again, err := ReadLevels(l.Encode(), tables)
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("written and read again: got\n%v (error %v)\nwant\n%v", again, err, l)
		}
	})
}
