package ingest

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// sharedData returns the folder of real tables, which the project may not pass on: COPPICE_DATA, or ../shared/data next
// to the repository. It skips the test if there is none.
func sharedData(t testing.TB) string {
	t.Helper()
	if data := os.Getenv("COPPICE_DATA"); data != "" {
		return data
	}
	data := must.Get(filepath.Abs("../../../../shared/data"))(t)
	if _, err := os.Stat(data); err != nil {
		t.Skipf("SKIPPED: the real tables are not there; set COPPICE_DATA to their folder: %v", err)
	}
	return data
}

// stageReal stages one of the real tables, and checks that encoding its cells gives the bins that staging wrote.
func stageReal(t *testing.T, name, spec string) *staged {
	t.Helper()
	files := must.Get(table.Expand(filepath.Join(sharedData(t), filepath.FromSlash(name))))(t)
	s := stageFiles(t, spec, files, Options{})
	checkEncoder(t, s, files, parseSpec(t, spec).CSV)
	return s
}

// kinds counts the features of each kind that are columns themselves, and the tables of statistics.
func (s *staged) kinds() string {
	n := map[dataset.Kind]int{}
	for _, f := range s.Manifest.Features {
		if !f.IsDerived() {
			n[f.Kind]++
		}
	}
	return fmt.Sprintf("%d numeric, %d time, %d categorical, %d tables", n[dataset.Numeric], n[dataset.Temporal],
		n[dataset.Categorical], len(s.Manifest.Tables))
}

// splits lists the splits with their rows and mean labels.
func (s *staged) splits() string {
	var parts []string
	for _, split := range s.Manifest.Splits {
		parts = append(parts, fmt.Sprintf("%s %d %.4f", split.Name, s.Manifest.TableRows(split.Name), split.LabelMean))
	}
	return strings.Join(parts, ", ")
}

// realTable is a real table, the spec that stages it, and what kinds and splits return for it.
type realTable struct{ name, spec, kinds, splits string }

// TestRealTables: real tables, in several formats and of several domains, get the kinds of columns, the splits and the
// mean labels that are known of them. Of two tables, single columns are looked at more closely.
func TestRealTables(t *testing.T) {
	long(t)
	for _, want := range []realTable{
		{"bank-additional-full.csv",
			"label: {column: y, positive: yes, negative: no}\ndrop: [duration]\nmissing: [unknown]\ncsv: " +
				"{delimiter: \";\"}\n", "9 numeric, 0 time, 10 categorical, 0 tables", "train 41188 0.1127"},
		{"ads_criteo_10k.tsv", "label: c0\ncsv: {header: false}\n",
			"13 numeric, 0 time, 7 categorical, 20 tables", "train 10000 0.2182"},
		{"ads_criteo_10k.tsv", "label: c0\ncsv: {header: false}\nencodings: none\n",
			"13 numeric, 0 time, 26 categorical, 0 tables", "train 10000 0.2182"},
		{"ads_amexpert_display_60k.csv",
			"label: is_click\ndrop: [session_id]\ncategorical: [campaign_id, webpage_id, " +
				"product_category_1]\nsplit: {by: time, column: DateTime, train: 0.7, valid: 0.1, calib: 0.1, test: " +
				"0.1}\n", "7 numeric, 0 time, 5 categorical, 0 tables",
			"train 42156 0.0699, valid 6024 0.0632, calib 6029 0.0617, test 6019 0.0626"},
		{"flight_delays_100k.csv", "label: target\nsplit: {by: column, column: split}\n",
			"4 numeric, 0 time, 3 categorical, 4 tables", "train 75000 0.1904, valid 25000 0.1904"},
		{"parquet/duckdb_athletes_nulls.parquet", "label: {column: sex, positive: female}\n",
			"6 numeric, 1 time, 1 categorical, 2 tables", "train 11538 0.4511"},
		{"parquet/pyarrow4_green_tripdata_2022-01.parquet",
			"label: trip_distance\nsplit: {by: time, column: lpep_pickup_datetime, train: 0.7, test: 0.3}\ngroup: " +
				"PULocationID\n",
			"1 numeric, 1 time, 0 categorical, 0 tables", "train 43746 74.0409, test 18749 86.4329"},
		{"parquet/spark_taxi_tour_table_train_simple.snappy.parquet",
			"label: {column: trip_duration, kind: regression}\ndrop: [id]\n",
			"6 numeric, 2 time, 1 categorical, 0 tables", "train 10000 870.4606"},
		{"parquet/spark_fengdian_flattenRequest_wide_nulls.parquet", "label: col_20\n",
			"210 numeric, 2 time, 618 categorical, 0 tables", "train 996 128.3143"},
	} {
		t.Run(filepath.Base(want.name), func(t *testing.T) {
			s := want.stage(t)
			switch want.name {
			case "ads_criteo_10k.tsv":
				if len(s.Manifest.Tables) > 0 {
					break
				}
				if f := s.feature(t, "c30"); f.Categories[0] != "e5ba7672" || f.Counts[0] != 4304 {
					t.Errorf("c30: %q in %d rows first, expected e5ba7672 in 4304", f.Categories[0], f.Counts[0])
				}
				for _, c := range s.feature(t, "c24").Categories {
					if len(c) != 8 {
						t.Errorf("c24: got the category %q, want a hash of 8 digits", c)
					}
				}
			case "bank-additional-full.csv":
				if f := s.feature(t, "default"); f.Missing != 8597 || f.MissingBin < 0 {
					t.Errorf("default: %d missing in bin %d, expected 8597 in a bin of their own", f.Missing,
						f.MissingBin)
				}
			}
		})
	}
}

// stage stages the table, and compares its kinds of columns and its splits with those that are wanted.
func (want realTable) stage(t *testing.T) *staged {
	t.Helper()
	s := stageReal(t, want.name, want.spec)
	must.Equal(t, s.kinds(), want.kinds, "columns")
	must.Equal(t, s.splits(), want.splits, "splits")
	return s
}

// TestRealWarnings: a real table of display ads gets the warnings that it deserves, and no other: session_id does not
// repeat, three columns of numbers look like ids, and the key of the split is not a feature.
func TestRealWarnings(t *testing.T) {
	long(t)
	files := must.Get(table.Expand(filepath.Join(sharedData(t), "ads_amexpert_display_60k.csv")))(t)
	s := must.Get(tryStage(t,
		"label: is_click\ncategorical: [session_id]\nsplit: {by: hash, key: user_id, train: 0.8, test: 0.2}\n", files,
		Options{}))(t)
	if got := codes(s); !slices.Equal(got, []string{"dropped session_id", "id_like session_id", "ids campaign_id",
		"ids user_group_id", "ids webpage_id", "key user_id"}) {
		t.Errorf("warnings about amex: got %q; want session_id dropped as an id, and three columns of ids", got)
	}
}

// TestEncoderAgreesWithStage: for random tables and each of randomSpecs, encoding a cell gives the bin that Stage wrote
// for it, whether the cell is read from the table again or from the sample.
func TestEncoderAgreesWithStage(t *testing.T) {
	long(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, spec := range randomSpecs {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "t.csv", randomTable(seed, 2000))
			s := stageFiles(t, spec, []table.File{file}, Options{})
			checkEncoder(t, s, []table.File{file}, dataset.CSVSpec{})
		})
	}
}

// checkEncoder encodes the sample and the source again, and fails the test if a bin is not the one that Stage wrote.
// files and csv are as they were staged.
func checkEncoder(t *testing.T, s *staged, files []table.File, csv dataset.CSVSpec) {
	t.Helper()
	data := must.Get(s.Manifest.Encode())(t)
	m := must.Get(dataset.DecodeManifest(data))(t) // all that the encoder knows comes from the manifest's JSON
	enc := mustEncode(t, m.Encoding(), s.levels(t))
	checkSample(t, s, enc)
	rows := 0
	for _, split := range s.Splits {
		rows += split.Rows
	}
	if rows < 150_000 {
		checkSource(t, s, enc, files, csv)
	}
}

// checkSample compares the bin of every cell of the sample with the one that Stage wrote. Rows of train are compared
// without statistics, because each has only seen the rows before it.
func checkSample(t *testing.T, s *staged, enc *cell.Encoder) {
	t.Helper()
	features := s.Manifest.Features
	width := len(features)
	sample := s.sample(t)
	split := s.Split(sample.Split)
	train := sample.Split == "train"
	values := must.Get(enc.EncodeSample(sample))(t)
	for i, row := range sample.Row {
		for j := range features {
			if train && ofTable(&features[j]) {
				continue
			}
			x := values[i*width+j]
			if got, want := features[j].BinOfNumber(x), split.Columns[j][row]; got != want {
				t.Fatalf("sampled row %d, %s: value %v in bin %d, staged in %d; want the same", row,
					features[j].Name, x, got, want)
			}
			if split.RowMajor[int(row)*width+j] != split.Columns[j][row] {
				t.Fatalf("row %d, %s: got bin %d in the row, %d in the column; want the same", row, features[j].Name,
					split.RowMajor[int(row)*width+j], split.Columns[j][row])
			}
		}
	}
}

// isNumber reports whether a text is a number that stands for a missing value, in any spelling.
func isNumber(text string, t *cell.Markers) bool {
	x, err := strconv.ParseFloat(text, 64)
	return err == nil && t.HasNumber(x)
}

// ofTable reports whether a feature is a statistic of ids.
func ofTable(f *dataset.Feature) bool { return f.From != nil && f.From.Table >= 0 }

// checkSource encodes the whole source again, and compares the rows of bins with those of the dataset: each must be
// there as often. Their order is not compared, as rows are dealt to splits. Rows of train are compared without
// statistics, because each has only seen the rows before it.
func checkSource(t *testing.T, s *staged, enc *cell.Encoder, files []table.File, csv dataset.CSVSpec) {
	t.Helper()
	m := s.Manifest
	width := len(m.Features)

	// columns returns the bins of a row without statistics, as a key.
	columns := func(bins []byte) string {
		var some []byte
		for j, b := range bins {
			if !ofTable(&m.Features[j]) {
				some = append(some, b)
			}
		}
		return string(some)
	}

	// Count the rows of the dataset: all without statistics, and held-out ones with statistics.
	counts, whole := map[string]int{}, map[string]int{}
	for _, split := range s.Splits {
		rows := split.Rows
		if split.Name == "train" {
			rows /= m.Copies()
		}
		for r := range rows {
			bins := split.RowMajor[r*width : (r+1)*width]
			counts[columns(bins)]++
			if split.Name != "train" {
				whole[string(bins)]++
			}
		}
	}

	// Take away the rows of the source.
	rows := must.Get(table.Open(files, table.Options{CSV: csv}))(t)
	unlabelled, tok := int64(0), cell.NewMarkers(m.Missing)
	must.Do(t, rows.Read(context.Background(), append(enc.Columns(), m.Label.Column), 333, func(b *table.Batch) error {
		out, err := enc.Encode(b, nil, nil, 1)
		if err != nil {
			return err
		}
		for i := range b.Rows {
			if label := b.Column(m.Label.Column); cell.Missing(label, i, tok) || label.Type == dataset.Text &&
				isNumber(label.Text[i], tok) {
				unlabelled++
				continue
			}
			bins := make([]byte, width)
			for j := range m.Features {
				x := out[i*width+j]
				bins[j] = m.Features[j].BinOfNumber(x)
				if math.IsInf(x, 0) || m.Features[j].Kind == dataset.Categorical && x != float64(bins[j]) {
					return fmt.Errorf("the model value of %s is %v", m.Features[j].Name, x)
				}
			}
			counts[columns(bins)]--
			whole[string(bins)]--
		}
		return nil
	}))

	// What is left is wrong, except for rows that staging left out.
	thinned := 0
	for bins, n := range counts {
		thinned += max(-n, 0) // rows of the source that the dataset has not
		if n > 0 || n < 0 && m.Thinned == 0 {
			t.Fatalf("the row of bins %v is in the dataset %d times more than in the source, want as often",
				[]byte(bins), n)
		}
	}
	must.Equal(t, thinned, int(m.Thinned), "rows that the dataset lacks, negative ones left out")
	for bins, n := range whole {
		if n > 0 {
			t.Fatalf("the held-out row of bins %v is in the dataset %d times more than in the source, want as often",
				[]byte(bins), n)
		}
	}
	must.Equal(t, unlabelled, m.LeftOut, "rows without a label, of which the manifest says that they were left out")
}
