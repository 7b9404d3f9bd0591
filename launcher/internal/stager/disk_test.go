package stager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// narrowIDs writes a table with a label, a time and four columns of ids, as compressed Parquet or as CSV. Both take few
// bytes, compared with what is derived from ids.
func narrowIDs(t *testing.T, ext string, rows int) table.File {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 1))
	columns := []table.Column{{Name: "y", Type: dataset.Int}, {Name: "at", Type: dataset.Int}}
	for i := range 4 {
		columns = append(columns, table.Column{Name: fmt.Sprint("id", i), Type: dataset.Text})
	}
	b := &table.Batch{Rows: rows, Columns: make([]dataset.Values, len(columns))}
	for i, c := range columns {
		b.Names, b.Columns[i].Type = append(b.Names, c.Name), c.Type
	}
	for r := range rows {
		b.Columns[0].Int = append(b.Columns[0].Int, int64(rng.IntN(20)/19)) // one of 20 rows is positive
		b.Columns[1].Int = append(b.Columns[1].Int, int64(r*60/rows))
		for i := range 4 {
			x := rng.Float64() // low numbers of ids are the frequent ones
			b.Columns[2+i].Text = append(b.Columns[2+i].Text, fmt.Sprint("a", int(2000*x*x*x)))
		}
	}

	path := filepath.Join(t.TempDir(), "t"+ext)
	f, err := os.Create(path)
	must.Do(t, err)
	if ext == ".parquet" {
		var w *table.ParquetWriter
		if w, err = table.NewParquetWriter(f, columns, table.Zstd); err == nil {
			err = errors.Join(w.Write(b), w.Close())
		}
	} else {
		var w *table.CSVWriter
		if w, err = table.NewCSVWriter(f, columns, ','); err == nil {
			err = w.Write(b)
		}
	}
	must.Do(t, errors.Join(err, f.Close()))
	info := must.Get(os.Stat(path))(t)
	return table.File{URI: path, Path: path, Bytes: info.Size()}
}

// spooled returns the size of the temporary files for a dataset's statistics. For each row of the table they hold 20
// bytes of number, label and time, and 8 bytes of a hash for each part of the tables. For each row of each copy they
// hold its number (4 bytes) and a byte for each statistic; a count in random orders has the number of the level, too (4
// bytes).
func spooled(m *dataset.Manifest) int64 {
	parts := map[string]bool{}
	for i := range m.Tables {
		for _, p := range m.Tables[i].Of {
			parts[p.String()] = true
		}
	}
	bins := int64(4)
	for i := range m.Features {
		switch d := m.Features[i].From; {
		case d == nil || d.Table < 0:
		case d.What == dataset.DeriveCount && m.Order.By == dataset.OrderRandom:
			bins += 4
		default:
			bins++
		}
	}
	bytes := int64(0)
	for _, s := range m.Splits {
		bytes += int64(m.TableRows(s.Name))*(20+8*int64(len(parts))) + int64(s.Rows)*bins
	}
	return bytes
}

// TestDiskHoldsWhatIsSpooled: the disk that DiskNeed asks for is at least as large as the source, the dataset that is
// staged from it and the temporary files for statistics (spooled) together. It tries the worst sources: well compressed
// ids, with as many keys as the search makes for a large table, twelve.
func TestDiskHoldsWhatIsSpooled(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long: run it without -short")
	}
	var keys []string
	for _, pair := range []string{"0,1", "0,2", "0,3", "1,2", "1,3", "2,3", "0,1,2", "0,1,3", "0,2,3", "1,2,3",
		"0,1,at~", "0,2,at~"} {
		keys = append(keys, "["+strings.NewReplacer("0", "id0", "1", "id1", "2", "id2", "3", "id3").Replace(pair)+"]")
	}
	asked := "keys: [" + strings.Join(keys, ", ") + "]"
	// Statistics of twelve keys take long, so their tables are small. Without statistics the table has to be large
	// compared with the 50,000 rows that staging keeps for the next night.
	parquet, text, plain := narrowIDs(t, ".parquet", 40_000), narrowIDs(t, ".csv", 20_000),
		narrowIDs(t, ".parquet", 150_000)
	for name, tc := range map[string]struct {
		file      table.File
		encodings string
	}{
		"none":    {plain, "none"},
		"by time": {parquet, "{" + asked + ", order: {column: at}}"},
		"random":  {parquet, "{" + asked + ", order: {copies: 1}}"},
		"copies":  {parquet, "{" + asked + ", order: {copies: 3}}"},
		"text":    {text, "{" + asked + ", order: {copies: 1}}"},
	} {
		// A short run skips two: "text" has as many copies as "random", and "copies" has more.
		if (name == "random" || name == "by time") && os.Getenv("COPPICE_FULL") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			file := tc.file
			spec := must.Get(dataset.ParseSpec("dataset.yaml",
				[]byte("name: t\nsource: "+file.Path+"\nlabel: y\nencodings: "+tc.encodings+"\n")))(t)
			r := must.Get(ingest.Stage(t.Context(), spec, []table.File{file}, filepath.Join(t.TempDir(), "d"),
				ingest.Options{}))(t)
			need := file.Bytes + r.Manifest.Bytes()
			if r.Manifest.Order != nil {
				need += spooled(r.Manifest)
			}
			disk := (&Located{src: &source{files: []table.File{file}}}).DiskNeed(spec)
			t.Logf("%d bytes of source need %d, %.1f times as many, %d are taken; %d features", file.Bytes, need,
				float64(need)/float64(file.Bytes), disk, len(r.Manifest.Features))
			if disk < need {
				t.Errorf("staging %d bytes with encodings %s asks for a disk of %d bytes, want at least the %d needed",
					file.Bytes, tc.encodings, disk, need)
			}
		})
	}
}

// TestPointersOfAnotherBuild: a pointer in a format of another build, whether of a dataset's latest version or of an
// input, is neither followed nor overwritten: it is a conflict that names the formats.
func TestPointersOfAnotherBuild(t *testing.T) {
	ctx, store := t.Context(), blob.Memory()
	d := Destination{Store: store}
	const theirs = `{"format":2,"version":"0123456789abcdef"}`
	for name, follow := range map[string]func() error{
		sweep.DatasetLatest("clicks"): func() error { _, err := Resolve(ctx, store, "clicks"); return err },
		sweep.DatasetInput("clicks", "ab"): func() error {
			_, err := d.findStagedInBucket(ctx, "clicks", "ab")
			return err
		},
	} {
		// This build writes a pointer, which another build replaces by one of format 2.
		if err := d.putPointer(ctx, name, pointer{Format: 1, Version: "fedcba9876543210"}); err != nil {
			t.Fatalf("the first pointer: %v", err)
		}
		must.Get(store.Put(ctx, name, blob.Any, strings.NewReader(theirs)))(t)
		for what, err := range map[string]error{"following": follow(),
			"overwriting": d.putPointer(ctx, name, pointer{Format: 1, Version: "fedcba9876543210"})} {
			if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "2, and this build reads 1") {
				t.Errorf("%s %s: %v, expected a refusal that names the formats", what, name, err)
			}
		}
		if text, _, err := blob.ReadAll(ctx, store, name, 1<<10); err != nil || string(text) != theirs {
			t.Errorf("%s is now %q (%v); want it as the other wrote it", name, text, err)
		}
	}
}
