package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestSamplerIsFairAndStable: the sampler chooses the same rows whatever the order in which they are offered, exactly
// as many as wanted, and about as many from each part of a table.
func TestSamplerIsFairAndStable(t *testing.T) {
	const rows, size = 20_000, 2000
	// take offers rows in an order, and returns which of them are chosen. A row that is chosen so far goes to the place
	// that offerRow gives it, over one that no longer is; sorted has the places of those that remain.
	take := func(order []int64) map[int64]bool {
		s := newSampler(size)
		slots := make([]int64, s.slots())
		for _, row := range order {
			if place, ok := s.offerRow(row); ok {
				slots[place] = row
			}
		}
		out := map[int64]bool{}
		last := uint64(0)
		for _, slot := range s.sorted() {
			if slot.hash < last {
				t.Errorf("sorted gives the hash %x after %x, want ascending ones", slot.hash, last)
			}
			last = slot.hash
			out[slots[slot.place]] = true
		}
		return out
	}

	// Forwards and backwards.
	order := make([]int64, rows)
	for i := range order {
		order[i] = int64(i)
	}
	got := take(order)
	slices.Reverse(order)
	must.Equal(t, len(got), size, "rows that the sampler chose of %d", rows)
	if !reflect.DeepEqual(got, take(order)) {
		t.Error("the sampler chose other rows when they came in the opposite order, want the same")
	}

	// Each tenth of the table.
	var parts [10]int
	for row := range got {
		parts[row*10/rows]++
	}
	for i, n := range parts { // 200 expected, standard deviation 13.4
		if n < 140 || n > 260 {
			t.Errorf("%d rows from tenth %d, want 140 to 260", n, i)
		}
	}
}

// TestLongTextsAreOthers: a text longer than a category may be is never a category, but counts as one of the others.
// Long texts are told apart, and the sample of raw rows has them whole. A third of the texts of column s has just the
// allowed length, a third one byte more, and a third is short. Column id has a long text of its own in each row.
func TestLongTextsAreOthers(t *testing.T) {
	long := strings.Repeat("x", dataset.MaxCategory)
	csv := csvOf("y,s,id", 600, func(i int) string {
		return fmt.Sprintf("%d,%s,%s%03d", i%2, []string{long, long + "y", "short"}[i%3], long, i)
	})
	s := mustStage(t, "label: y\nencodings: none\n", csv)
	if f := s.feature(t, "s"); len(f.Categories) != 2 || f.Categories[0] != "short" || f.Categories[1] != long ||
		f.OtherBin != 2 {
		t.Errorf("s: %d categories, other_bin %d; want two, as frequent as each other and so in the order of texts: "+
			"short and then the long one, and other_bin 2", len(f.Categories), f.OtherBin)
	}

	// Row 0 has the long category, row 1 the longer text, which is one of the others, and row 2 the short category.
	if column := s.Split("train").Columns[0]; column[0] != 1 || column[1] != 2 || column[2] != 0 {
		t.Errorf("the bins begin with %v, want 1, 2 and 0", column[:3])
	}
	if f := s.feature(t, "id"); len(f.Categories) != 0 || f.Bins != 1 {
		t.Errorf("id: %d categories, %d bins; want none, and one bin for all texts", len(f.Categories), f.Bins)
	}
	if got := codes(s); !slices.Contains(got, "id_like id") {
		t.Errorf("the warnings are %v, want id_like of id: 600 long texts are told apart", got)
	}
	if v := s.sample(t).Column("s"); v.Text[1] != long+"y" {
		t.Errorf("the sample's second text has %d bytes, want the %d of the table", len(v.Text[1]), len(long)+1)
	}
}

// TestBinsAreMadeOfAllTrainRowsThereAre: bins are made of as many rows of train as the spec asks for, if there are as
// many. Of 5,000 rows of a Parquet file, only 500 have a label; the sampler must find 400 among those, although the
// file does not say how many there are.
func TestBinsAreMadeOfAllTrainRowsThereAre(t *testing.T) {
	var out bytes.Buffer
	w := must.Get(table.NewParquetWriter(&out, []table.Column{{Name: "y", Type: dataset.Int},
		{Name: "x", Type: dataset.Int}}, table.Plain))(t)
	b := &table.Batch{Names: []string{"y", "x"}, Rows: 5000,
		Columns: []dataset.Values{{Type: dataset.Int, Null: make([]bool, 5000)}, {Type: dataset.Int}}}
	for i := range b.Rows {
		b.Columns[0].Int = append(b.Columns[0].Int, int64(i/10%2))
		b.Columns[0].Null[i] = i%10 > 0
		b.Columns[1].Int = append(b.Columns[1].Int, int64(i))
	}
	must.Do(t, errors.Join(w.Write(b), w.Close()))
	s, err := tryStage(t, "label: y\nsample_rows_for_bins: 400\n",
		[]table.File{writeFile(t, "t.parquet", out.String())}, Options{})
	if err != nil || s.Manifest.BinRows != 400 {
		t.Errorf("staging with sample_rows_for_bins 400: got error %v and %+v, expected bins from 400 rows", err, s)
	}
}

// skewedTable returns CSV with a column site of ids, a few of which are very frequent, so that the counts of levels
// differ by far. tick numbers the rows; part puts the last third into test.
func skewedTable(rows int) string {
	rng := rand.New(rand.NewPCG(4, 8))
	return csvOf("y,site,tick,part", rows, func(i int) string {
		x := rng.Float64()
		return fmt.Sprintf("%d,s%d,%d,%s", rng.IntN(2), int(2000*x*x*x*x), i,
			[]string{"train", "train", "test"}[i*3/rows])
	})
}

// TestMaxBinHoldsForStatistics: no feature has more bins than max_bin, statistics included, and encoding the table
// again gives the same bins. Counts of levels use all bins that they may have, if these are few, and their first bin is
// for levels that were not seen. It tries the least max_bin, 2, some small ones, and the greatest.
func TestMaxBinHoldsForStatistics(t *testing.T) {
	long(t)
	text := skewedTable(9000)
	for name, encodings := range map[string]string{
		"by time": "{order: {column: tick}, columns: {site: [rate, count, recency]}}",
		"random":  "{order: {copies: 2}, columns: {site: [rate, count]}}",
	} {
		for _, most := range []int{2, 3, 15, 255} {
			t.Run(fmt.Sprintf("%s, %d", name, most), func(t *testing.T) {
				s := mustStage(t, fmt.Sprintf("label: y\nmax_bin: %d\nsplit: {by: column, column: part}\nencodings: "+
					"%s\n", most, encodings), text)
				for i, f := range s.Manifest.Features {
					if f.Bins > most {
						t.Errorf("%s has %d bins, want at most %d", f.Name, f.Bins, most)
					}
					for _, split := range s.Splits {
						if bin := slices.Max(split.Columns[i]); int(bin) >= f.Bins {
							t.Errorf("%s: a row of %s is in bin %d, want one below %d", f.Name, split.Name, bin, f.Bins)
						}
					}
				}
				// The first bin of counts is for levels that were not seen, so it ends at 0. There are enough different
				// counts for up to 15 bins, and all of these are used; with two bins there is none to spare for it.
				f := s.feature(t, "site:count")
				if most > 2 && f.Bounds[0] != 0 {
					t.Errorf("the first bin of counts goes up to %v, want 0: levels that were not seen", f.Bounds[0])
				}
				if (most == 3 || most == 15) && f.Bins != most {
					t.Errorf("counts have %d bins, want all %d", f.Bins, most)
				}
				checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{})
			})
		}
	}
}

// TestClasses: texts with more than two values are classes without being asked for. Numbers, and two texts, are classes
// if the spec says so. Classes are sorted, numbers first and by value; a label is the number of its class from 0 on.
// Numbers in several spellings are one class, with a warning. 01, which may be an id, is a class of its own: its value
// is that of 1, and of equal values the first text comes first.
func TestClasses(t *testing.T) {
	var texts, numbers strings.Builder
	texts.WriteString("x,y\n")
	numbers.WriteString("x,y\n")
	for i := range 300 {
		fmt.Fprintf(&texts, "%d,%s\n", i, []string{"red", " blue", "green"}[i%3])
		fmt.Fprintf(&numbers, "%d,%s\n", i, []string{"10", "0", "2.0"}[i%3])
	}
	texts.WriteString("7,\n") // without a label
	for name, tc := range map[string]struct {
		spec, csv string
		want      []string
		labels    []float32 // of the first three rows
	}{
		"texts": {"label: y\n", texts.String(), []string{"blue", "green", "red"}, []float32{2, 0, 1}},
		"said so": {"label: {column: y, kind: classes}\n",
			texts.String(), []string{"blue", "green", "red"}, []float32{2, 0, 1}},
		"numbers": {"label: {column: y, kind: classes}\n",
			numbers.String(), []string{"0", "2", "10"}, []float32{2, 0, 1}},
		"0, 1 and 2": {"label: {column: y, kind: classes}\n",
			"x,y\n1,1\n2,0\n3,2\n4,1\n", []string{"0", "1", "2"}, []float32{1, 0, 2}},
		"spellings": {"label: {column: y, kind: classes}\n", "x,y\n1,01\n2,1.0\n3,b\n4,1\n5,+1\n6,2.0\n7,01\n",
			[]string{"01", "1", "2", "b"}, []float32{0, 1, 3}},
		"only two": {"label: {column: y, kind: classes}\n",
			"x,y\n1,b\n2,a\n3,a\n", []string{"a", "b"}, []float32{1, 0, 0}},
		// An integer beyond those that a float64 holds. Which classes and labels come out is not compared (nil), only
		// that they are classes and that the encoding has the same.
		"of integers": {"label: {column: y, kind: classes}\n", "x,y\n1,9007199254740993\n2,3\n3,5\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustStage(t, tc.spec, tc.csv)
			l := s.Manifest.Label
			if l.Kind != dataset.Classes || len(l.Classes) < 2 || tc.want != nil && !slices.Equal(l.Classes, tc.want) {
				t.Fatalf("the label is %+v, want classes %q", l, tc.want)
			}
			if got := s.Split("train").Label; tc.labels != nil && !slices.Equal(got[:3], tc.labels) {
				t.Errorf("the first labels are %v, want %v", got[:3], tc.labels)
			}
			want := ""
			if name == "spellings" {
				want = `y: equal numbers are one class: "+1", "1", "1.0" all mean class 1` + "\n"
			}
			must.Equal(t, said(s, WarnSpelling), want, "warnings of spellings")
			if got := s.Manifest.Encoding().Classes; !slices.Equal(got, l.Classes) {
				t.Errorf("the encoding names the classes %q, want %q", got, l.Classes)
			}
		})
	}
}

// TestKeysOfClassesAreLearntOnce: with several classes, site has a table for each class with a rate, and so has zip. A
// search for keys is for one class at a time. It computes the rate of that class and the count for each key that it is
// given, so the keys of two tables of site would give the same two columns twice. No two columns that the learner gets
// are equal.
func TestKeysOfClassesAreLearntOnce(t *testing.T) {
	// 50 sites, 40 zips and 6 classes, independent of each other: so two columns are equal only if they are of one key.
	b := csvOf("site,zip,y", 4000, func(i int) string {
		h := encode.Mix(uint64(i))
		return fmt.Sprintf("s%d,z%d,c%d", h%50, h>>8%40, h>>16%6)
	})
	calls := 0
	_, err := tryStage(t, "label: y\ncategorical: [site, zip]\nencodings: {columns: {site: [rate], zip: [rate]}}\n",
		[]table.File{writeFile(t, "t.csv", b)}, Options{Learner: func(_ context.Context, l *encode.TrainingSet) (
			[]float64, error) {
			calls++
			for i, c := range l.Columns {
				for j := range i {
					if bytes.Equal(c.Data, l.Columns[j].Data) {
						t.Fatalf("of %d columns that the learner got, %d and %d are the same, want all different",
							len(l.Columns), j, i)
					}
				}
			}
			return make([]float64, len(l.Label)), nil // any scores do: what the search makes of them is not looked at
		}})
	if err != nil || calls == 0 {
		t.Errorf("staging asked the learner %d times, error %v; want at least once, and no error", calls, err)
	}
}

// TestIDsOfClasses: a column of many levels has a rate for each class but the rarest, for at most eight classes, the
// most frequent first, and one count, which follows the first rate. The table of a class counts that class's rows. That
// back_off has no effect is warned of.
func TestIDsOfClasses(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,y\n")
	// Half of the rows have this class, number 1. The others, 0 and 2, have a quarter each, and 2 has no rate.
	// A feature's name may not hold the name of this class, so rates are named by the numbers of classes.
	long := "b\x7f"
	for i := range 4000 {
		fmt.Fprintf(&b, "u%d,%s\n", i*i%700, []string{"1", long, "c", long}[i%4])
	}
	s := mustStage(t, "label: {column: y, kind: classes}\ncategorical: [id]\n", b.String())
	if got, want := s.names(), []string{"id:rate:1", "id:count", "id:rate:0"}; !slices.Equal(got, want) {
		t.Errorf("got features %q, want %q", got, want)
	}

	// Each table counts the rows of its class, and falls back to the class's share of train.
	train := s.Split("train")
	levels := must.Get(dataset.OpenLevels(filepath.Join(s.Dir(), dataset.LevelsFile), s.Manifest.Tables))(t)
	defer levels.Close()
	for i := range s.Manifest.Tables {
		table := &s.Manifest.Tables[i]
		want, got := 0.0, 0.0
		for _, y := range train.Label[:s.Manifest.TableRows("train")] {
			if int(y)+1 == table.Class { // Class counts from 1, as 0 stands for a label without classes
				want++
			}
		}
		for at := table.First; at < table.First+table.Levels; at++ {
			got += levels.Sum[at]
		}
		prior := want / float64(s.Manifest.TableRows("train"))
		if got != want || want == 0 || math.Abs(table.Prior-prior) > 1e-12 {
			t.Errorf("table %d of class %d has %v rows of it and prior %v, want %v and %v", i, table.Class, got,
				table.Prior, want, prior)
		}
	}

	// Of twelve classes, eight have a rate.
	b.Reset()
	b.WriteString("id,y\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "u%d,c%02d\n", i*i%700, i%12)
	}
	s = mustStage(t, "label: y\ncategorical: [id]\nencodings: {keys: [[id]], back_off: {id: other}}\n", b.String())
	// The key that the spec asks for is the column's own, and adds nothing.
	must.Equal(t, len(s.Manifest.Features), 9, "eight rates and a count of an id and twelve classes")
	if !slices.ContainsFunc(s.Manifest.About.Warnings, func(w dataset.Warning) bool {
		return w.Column == "id" && strings.HasPrefix(w.Text, "encodings.back_off has no effect with several classes")
	}) {
		t.Errorf("warned of %+v; want that back_off has no effect", s.Manifest.About.Warnings)
	}
}

// TestALeakOfClasses: a column that tells the class of each row gets a warning. A column that tells one of three
// classes from the other two (part: 0 for a, 1 for b and c) gets none, though it explains much of the variance.
func TestALeakOfClasses(t *testing.T) {
	csv := csvOf("leak,part,y", 3000, func(i int) string {
		k := i * 7 % 3
		return fmt.Sprintf("%d,%d,%s", k*10+i%2, min(k, 1), []string{"a", "b", "c"}[k])
	})
	s := mustStage(t, "label: y\n", csv)
	var leaks []string
	for _, w := range s.Manifest.About.Warnings {
		if w.Code == WarnLeak {
			leaks = append(leaks, w.Column)
		}
	}
	if !slices.Equal(leaks, []string{"leak"}) {
		t.Errorf("warned of %q, want of the column leak alone: %+v", leaks, s.Manifest.About.Warnings)
	}
}

// TestClassesRefused: too many classes, a class with too long a name, and a single class are errors that say so.
func TestClassesRefused(t *testing.T) {
	many := csvOf("x,y", dataset.MaxClasses+1, func(i int) string { return fmt.Sprintf("1,c%d", i) })
	three := "x,y\n1,a\n2,b\n3,c\n"
	for want, tc := range map[string][2]string{ // the spec and the table, by the error
		"holds more than 100 classes":      {"label: y\n", many},
		"a class whose name has 300 bytes": {"label: y\n", three + "4," + strings.Repeat("d", 300) + "\n"},
		"has the same value in every row":  {"label: {column: y, kind: classes}\n", "x,y\n1,a\n2,a\n"},
	} {
		_, err := tryStage(t, tc[0], []table.File{writeFile(t, "t.csv", tc[1])}, Options{})
		must.Say(t, tc[0], err, want)
	}
}

// lateTable returns CSV with a row for each hour from 2026-11-01 on, in the order of time. The labels of rows from
// number from on are still 0, as if they were not final.
func lateTable(rows, from int) string {
	return csvOf("y,site,x,ts", rows, func(i int) string {
		y := 0
		if i < from && i%3 == 0 {
			y = 1
		}
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
		return fmt.Sprintf("%d,s%d,%d,%s", y, i%40, i*7919%101, at.Format(time.RFC3339))
	})
}

// TestUnripeRowsAreLeftOut: leaving out rows whose labels are not final gives the same dataset, to the bit, as a table
// that ends before them. That holds for each way to split the rows and to say from which time ages count, and for
// statistics, which must not see a label before it is final.
func TestUnripeRowsAreLeftOut(t *testing.T) {
	const rows, late = 3000, 24 // one row an hour: the last 24 are younger than 24 hours
	// Both tables have the spec rest. That of the shorter table also has delayed, which makes its statistics ignore the
	// labels of the last 24 hours, as label.matures does; "delay" stands for a delay within the encodings of rest.
	for name, tc := range map[string]struct{ label, rest, delayed string }{
		"by time": {"{column: y, matures: 24h}", "split: {by: time, column: ts, train: 0.8, valid: 0.2}\n",
			"encodings: {order: {delay: 24h}}\n"},
		"by hash": {"{column: y, matures: 24h, at: ts}",
			"drop: [ts]\nsplit: {by: hash, key: site, train: 0.8, valid: 0.2}\n", ""},
		"stated": {"{column: y, matures: 2h, at: ts, as_of: TIME}",
			"drop: [ts]\nsplit: {by: hash, key: site, train: 0.8, valid: 0.2}\n", ""},
		"in an order": {"{column: y, matures: 24h, at: ts}",
			"split: {by: hash, key: x, train: 0.8, valid: 0.2}\nencodings: {order: {column: ts}, columns: {site: " +
				"[rate]}}\n", "delay"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "stated" { // 2 hours before the stated time is 24 hours before the newest row
				end := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add((rows - 1 - late + 2) * time.Hour)
				tc.label = strings.Replace(tc.label, "TIME", end.Format(time.RFC3339), 1)
			}

			// The whole table, and the table without its late rows. The second number of lateTable is the row from
			// which on labels are not final; in the shorter table that is beyond its end.
			all := mustStage(t, "label: "+tc.label+"\n"+tc.rest, lateTable(rows, rows-late))
			plain := tc.rest + tc.delayed
			if tc.delayed == "delay" {
				plain = strings.Replace(tc.rest, "column: ts}", "column: ts, delay: 24h}", 1)
			}
			cut := mustStage(t, "label: y\n"+plain, lateTable(rows-late, rows))

			must.Equal(t, all.Manifest.Version, cut.Manifest.Version, "the version, as without the last %d rows", late)

			// The manifest says what was left out.
			u := all.Manifest.About.Unripe
			newest := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add((rows - 1) * time.Hour)
			if u == nil || u.Rows != late || u.Column != "ts" || !u.Newest.Equal(newest) ||
				!u.Until.Equal(newest.Add(-late*time.Hour)) {
				t.Errorf("the manifest says %+v; want %d rows left out up to %s, the last %s before", u, late, newest,
					late*time.Hour)
			}
			if cut.Manifest.About.Unripe != nil {
				t.Errorf("without matures the manifest says %+v, want nothing", cut.Manifest.About.Unripe)
			}
			if n := all.report.Night; n.Table != rows-late || n.TimeColumn != "ts" {
				t.Errorf("the night has %d rows and times of %q; want %d, all but the late ones, and ts", n.Table,
					n.TimeColumn, rows-late)
			}
		})
	}
}

// TestUnripeDependsOnNoOrder: the rows that are left out do not depend on their order in the table. Of 1,000 rows, 10
// are younger than 10 hours; of the others, every third is positive.
func TestUnripeDependsOnNoOrder(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(lateTable(1000, 990)), "\n")
	body := lines[1:]
	for i := range body { // swap rows that are far apart, in the same way each time
		if j := i * 7 % len(body); j > i {
			body[i], body[j] = body[j], body[i]
		}
	}
	s := mustStage(t, "label: {column: y, matures: 10h, at: ts}\ndrop: [ts]\n", strings.Join(lines, "\n")+"\n")
	must.Equal(t, s.Manifest.About.Unripe.Rows, 10, "number of rows left out")
	if train, n := s.Manifest.Splits[0], s.Manifest.TableRows(dataset.TrainSplit); n != 990 ||
		train.LabelMean*990 != 330 {
		t.Errorf("%d rows with a mean label of %v, want 990 with 330 positive ones", n, train.LabelMean)
	}
}

// TestUnripeRefuses: label.matures is an error if the age of a row cannot be known, and if no row is old enough, or
// none that has a label.
func TestUnripeRefuses(t *testing.T) {
	text := lateTable(500, 490)
	for name, tc := range map[string]struct{ spec, csv, want string }{
		"a time is missing": {"label: {column: y, matures: 10h, at: ts}\n", text + "1,s1,3,\n",
			"it is not known whether the row's label is final: its time is missing"},
		"numbers": {"label: {column: y, matures: 10h, at: x}\n", text, `is not a time`},
		"none is ripe": {"label: {column: y, matures: 1000h, at: ts}\n", text,
			"no label is final: no row is as old as label.matures, 1000h"},
		"no such column": {"label: {column: y, matures: 10h, at: tz}\n", text, `column "tz" is not in`},
		"ripe rows have no label": {"label: {column: y, matures: 10h, at: ts}\n",
			"y,site,x,ts\n,s1,3,2026-11-01T00:00:00Z\n1,s1,3,2026-11-02T00:00:00Z\n0,s2,4,2026-11-02T01:00:00Z\n",
			"no row has a final label: 2 rows are younger than label.matures, 10h0m0s, and in all others the label " +
				"is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryStage(t, tc.spec, []table.File{writeFile(t, "t.csv", tc.csv)}, Options{})
			must.Say(t, "staging", err, tc.want)
		})
	}
}

// TestWrongNewestRowIsTold: ages count from the newest row, so a wrong time there is told. If it lies in the future,
// all other rows look old enough; if few rows are old enough, something is wrong, too. A usual table gets no warning,
// and neither does one whose old rows are all of one moment, which does not say how many rows come in a day.
func TestWrongNewestRowIsTold(t *testing.T) {
	for _, at := range []string{"2027-01-30", "9999-12-31"} {
		future := mustStage(t, "label: {column: y, matures: 48h, at: ts}\ndrop: [ts]\n", lateTable(900, 850)+
			"0,s1,3,"+at+"T00:00:00Z\n")
		if got := said(future, WarnUnripe); !strings.Contains(got, "1 rows are within 48h0m0s of the newest one") {
			t.Errorf("with a row of %s: the warnings are %q, want one of a row within 48 h of the newest", at, got)
		}
	}
	usual := mustStage(t, "label: {column: y, matures: 48h, at: ts}\ndrop: [ts]\n", lateTable(900, 850))
	must.Equal(t, said(usual, WarnUnripe), "", "without a row of the future, the warning")

	// All old rows are of one moment, and one row is 48 hours later: only it is too young.
	var moment strings.Builder
	moment.WriteString("y,site,x,ts\n")
	for i := range 300 {
		fmt.Fprintf(&moment, "%d,s%d,%d,2026-11-01T00:00:00Z\n", i%3/2, i%40, i)
	}
	moment.WriteString("0,s1,3,2026-11-03T00:00:00Z\n")
	at := mustStage(t, "label: {column: y, matures: 48h, at: ts}\ndrop: [ts]\n", moment.String())
	must.Equal(t, said(at, WarnUnripe), "", "300 rows of one moment and one 48 hours later")

	// Of 500 rows, one an hour, 200 are as old as 300 hours: fewer than the 300 that are not.
	s := mustStage(t, "label: {column: y, matures: 300h, at: ts}\ndrop: [ts]\n", lateTable(500, 500))
	if got := said(s, WarnUnripe); !strings.Contains(got, "only 200 of 500 rows") {
		t.Errorf("the warnings are %q, want that only 200 of 500 rows are ripe", got)
	}
}

// TestSampledRowsAreRipe: negative rows that sampling leaves out count among those that are old enough. Of 900 rows,
// one an hour, the first 600 are as old as 300 hours, and 300 are not. Sampling keeps about 40 of the 400 negative ones
// of the first, so that fewer rows are left than are too young. That is no sign of a wrong newest row, so nothing is
// said.
func TestSampledRowsAreRipe(t *testing.T) {
	s := mustStage(t, "label: {column: y, matures: 300h, at: ts}\ndrop: [ts]\nsample: {rows: 100, negatives: 0.1}\n",
		lateTable(900, 900))
	if n := s.Manifest.TableRows(dataset.TrainSplit); n >= 300 || s.Manifest.About.Unripe.Rows != 300 {
		t.Fatalf("%d rows are left, %d are too young; the test needs fewer than 300, and 300", n,
			s.Manifest.About.Unripe.Rows)
	}
	must.Equal(t, said(s, WarnUnripe), "", "with two thirds of the rows old enough, the warning")
}
