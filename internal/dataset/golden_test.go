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

// The format is a promise to everybody who keeps datasets: the golden files are rewritten (go test -run Golden -update)
// only together with FormatVersion. testdata/golden/check.py reads them with other tools.
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
			t.Errorf("%s is no longer what it was", name)
		}
	}
}

// damage is a replacement in a manifest's text, and the error it causes.
type damage struct{ old, with, want string }

// refused expects a good manifest to be refused with it.
func (d damage) refused(t *testing.T, good []byte) {
	t.Helper()
	if !bytes.Contains(good, []byte(d.old)) {
		t.Fatalf("nothing to replace: %s", d.old)
	}
	_, err := DecodeManifest(bytes.Replace(good, []byte(d.old), []byte(d.with), 1))
	if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), d.want) {
		t.Errorf("got  %v\nwant ... %s ...", err, d.want)
	}
}

// TestDecodeManifestRefuses: a manifest that contradicts itself or that no build writes is refused, with the place.
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
		"positions":       {`"split":{`, `"position":"slot","split":{`, `unknown key "position"`},
	} {
		t.Run(name, func(t *testing.T) { tc.refused(t, good) })
	}
	if _, err := DecodeManifest(make([]byte, MaxManifest+1)); err == nil ||
		!strings.Contains(err.Error(), "more than the") {
		t.Errorf("too long: %v", err)
	}
}

// travel gives what a model is given of a manifest, as it is read again.
func travel(t *testing.T, m *Manifest) *Encoding {
	t.Helper()
	data := must.Get(json.Marshal(m.Encoding()))(t)
	e := must.Get(DecodeEncoding(data))(t)
	again, err := json.Marshal(e)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("%s\nbecame\n%s (%v)", data, again, err)
	}
	return e
}

// TestEncodingTravelsAlone: a model's features.json has the same bytes after it was read, and is refused if it is empty
// or does not agree with itself.
func TestEncodingTravelsAlone(t *testing.T) {
	m := must.Get(ReadManifest(goldenDir))(t)
	travel(t, m)
	for _, bad := range []string{"", "{}", `{"format":1,"features":[],"missing":[]}`,
		`{"format":1,"features":[{"name":"a","kind":"numeric","why":"","bins":9,"missing_bin":-1,"other_bin":-1}]}`} {
		if _, err := DecodeEncoding([]byte(bad)); !problem.Is(err, problem.Damaged) {
			t.Errorf("the encoding %s: got error %v; want it called damaged", bad, err)
		}
	}
}

// A file whose columns all share one long list of metadata is refused before it is multiplied.
func TestSharedMetadataIsRefused(t *testing.T) {
	for pairs, want := range map[int]string{maxPairs: "", 2000: "2000 pairs of metadata"} {
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

// What cannot be read again is not written.
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
		!strings.Contains(err.Error(), "it may have 67108864; drop columns or lower max_bin") {
		t.Errorf(`got %v; expected an error of the kind damaged, err.Error() with "it may have 67108864; drop `+
			`columns or lower max_bin"`, err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(mustRead(f, goldenDir, ManifestFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeManifest(data)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
		if err != nil {
			return
		}
		again := must.Get(m.Encode())(t)
		if _, err := DecodeManifest(again); err != nil {
			t.Fatalf("does not survive writing: %v", err)
		}
	})
}

// The version protects manifests from accidents, not from people who compute it anew: what lies behind it must hold
// too.
func FuzzManifestContents(f *testing.F) {
	f.Add(mustRead(f, goldenDir, ManifestFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Manifest
		if decodeJSON(data, &m) != nil || m.check() != nil {
			return
		}
		for i := range m.Features {
			feature := &m.Features[i]
			for _, x := range []float64{0, -1, 1e308} {
				if int(feature.BinOfNumber(x)) >= feature.Bins {
					t.Fatalf("bin %d of %d, want a bin that there is", feature.BinOfNumber(x), feature.Bins)
				}
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"train/rows.arrow", "train/columns.arrow", "train/targets.arrow"} {
		f.Add(mustRead(f, goldenDir, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseArrow("f", data)
		if err != nil {
			if !problem.Is(err, problem.Damaged) {
				t.Fatalf("untyped error %T: %v", err, err)
			}
			return
		}
		sum := 0
		for _, c := range a.columns {
			for _, s := range []span{c.validity, c.offsets, c.data} {
				if s.off%alignment != 0 {
					t.Fatalf("a buffer at byte %d, which is not aligned", s.off)
				}
				for _, b := range data[s.off : s.off+s.n] {
					sum += int(b)
				}
			}
		}
		_, _ = ReadTargets(data)
	})
}

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
			t.Fatalf("%s\nbecame\n%s", describe(s), describe(s2))
		}
	})
}

// someLevels are two tables, the second with recency where last is set, and levels for them.
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

// openBytes maps a levels file with the contents data until the test ends.
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

// TestLevelsSurviveTheirFile: levels that are read or mapped are those that were written, with and without weights and
// times.
func TestLevelsSurviveTheirFile(t *testing.T) {
	for _, weight := range []bool{false, true} {
		for _, last := range []bool{false, true} {
			for _, counts := range [][]int{{1}, {0, 1, 0}, {7, 8, 9}, {1000, 0, 333}} {
				want, tables := someLevels(weight, last, counts...)
				data := want.Encode()
				read, err := ReadLevels(data, tables)
				if err != nil {
					t.Fatalf("read %v levels, weight %v, last %v: %v", counts, weight, last, err)
				}
				mapped, err := openBytes(t, data, tables)
				if err != nil {
					t.Fatalf("map %v levels, weight %v, last %v: %v", counts, weight, last, err)
				}
				bare := *mapped
				bare.mapping = nil
				if !reflect.DeepEqual(read, want) || !reflect.DeepEqual(&bare, want) {
					t.Errorf("%v levels, weight %v, last %v: read\n%v\nmapped\n%v\nwritten\n%v", counts, weight, last,
						read, &bare, want)
				}
				if again := mapped.Encode(); !slices.Equal(again, data) {
					t.Errorf("%v levels, weight %v, last %v: mapped levels are written otherwise", counts, weight, last)
				}
			}
		}
	}
}

// Close is harmless on levels that were read, mapped, or never there, and a second time.
func TestLevelsCloseIsHarmless(t *testing.T) {
	want, tables := someLevels(false, false, 3)
	mapped := must.Get(openBytes(t, want.Encode(), tables))(t)
	for _, l := range []*Levels{nil, want, mapped, mapped} {
		if err := l.Close(); err != nil {
			t.Errorf("closed: %v; want no error, of none and twice either", err)
		}
	}
}

// hashesOf are hashes as Find expects them, and as it does not: it guesses that they are spread evenly, and must find
// them where they are not.
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

// TestFindAgreesWithAMap: a level is found by its hash in its table only, however hashes are spread.
func TestFindAgreesWithAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, next := range hashesOf(rng) {
		for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 100, 5000} {
			// The table in the middle: those beside it hold its hashes, too, and must not be found.
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
					t.Fatalf("%s, %d levels: hash %x is found: %v; it is there: %v", name, len(sorted), h, ok,
						hashes[h])
				}
				if ok && (at < table.First || at >= table.First+table.Levels || l.Hash[at] != h) {
					t.Fatalf("%s, %d levels: hash %x at %d, which is %x", name, len(sorted), h, at, l.Hash[at])
				}
			}
		}
	}
}

// A model may have tables of which all levels were pruned: there is then no levels file.
func TestFindWithoutLevels(t *testing.T) {
	if at, ok := (*Levels)(nil).Find(&LevelTable{}, 1); ok {
		t.Errorf("found a level at %d of none", at)
	}
}

// damagedLevels are files that are laid out well and do not hold what two tables of 70 and 30 levels, the latter with
// recency, must.
func damagedLevels(l *Levels) map[string]struct{ file, want any } {
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
	return map[string]struct{ file, want any }{
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

// TestDamagedLevelsAreRefused: levels that are changed, cut off or of other tables are damaged, read or mapped.
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
		check(name, tc.file.([]byte), tables, tc.want.(string))
	}
	for n := 0; n < len(good); n += 64 {
		check(fmt.Sprintf("cut off at byte %d", n), good[:n], tables, "")
	}
	check("recency that no table has", good, []LevelTable{{Levels: 100}}, "its columns are not")
	check("no tables", good, nil, "its columns are not")
}

// Neighbouring tables may begin where the one before them ends, whatever their hashes are.
func TestTablesDoNotShareAnOrder(t *testing.T) {
	l := &Levels{Hash: []uint64{5, 9, 1, 9}, Sum: make([]float64, 4), Rows: make([]uint32, 4)}
	if _, err := ReadLevels(l.Encode(), []LevelTable{{Levels: 2}, {First: 2, Levels: 2}}); err != nil {
		t.Errorf("two tables of ascending hashes: %v; want them read", err)
	}
}

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
			t.Fatalf("untyped error %T: %v", err, err)
		}
		if err != nil {
			return
		}

		for i := range tables {
			for at := tables[i].First; at < tables[i].First+tables[i].Levels; at++ {
				if found, ok := l.Find(&tables[i], l.Hash[at]); !ok || found != at {
					t.Fatalf("level %d of table %d is found at %d (%v), want itself", at, i, found, ok)
				}
				if rate := tables[i].Rate(l.Sum[at], l.Seen(at), 0.5); recency && l.Last[at] != l.Last[at] {
					t.Fatalf("rate %v, last %v; want a time that is a number", rate, l.Last[at])
				}
			}
		}
		again, err := ReadLevels(l.Encode(), tables)
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%v\nbecame\n%v (%v)", l, again, err)
		}
	})
}
