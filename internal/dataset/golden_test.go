package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		"positions":       {`"split":{`, `"position":"slot","split":{`, "position: is gone; "},
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
		p.schema(p.root(0, int64(len(p.data))), &f)
		if want == "" && (p.err != nil || len(f.fields) != len(fields) || len(f.fields[0].meta) != pairs) {
			t.Errorf("%d pairs: %v", pairs, p.err)
		}
		if want != "" && (p.err == nil || !strings.Contains(p.err.Error(), want) || len(f.fields) > 1) {
			t.Errorf("%d pairs: %v after %d columns", pairs, p.err, len(f.fields))
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
					t.Fatalf("bin %d of %d", feature.BinOfNumber(x), feature.Bins)
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
					t.Fatalf("a buffer at byte %d", s.off)
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
