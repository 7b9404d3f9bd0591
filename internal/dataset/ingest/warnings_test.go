package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

// codes returns the warnings of a dataset as "code column", sorted.
func codes(s *staged) []string {
	var out []string
	for _, w := range s.Manifest.About.Warnings {
		out = append(out, strings.TrimSpace(w.Code+" "+w.Column))
		if w.Text == "" {
			out = append(out, "a warning without a text")
		}
	}
	slices.Sort(out)
	return out
}

// TestWarnings: of a table, just these columns get a warning: the constant ones, the empty one, those with a value of
// their own in each row (key and number), and those that tell the label. key, a column of texts, is dropped as well,
// since almost all of its values are unique.
//
// Others get none: noise; sameOrNot, which has one value or none; real, whose numbers differ in every row but are no
// whole ones; and code, an id that repeats. An empty column is a feature if the spec lists it under numeric:.
func TestWarnings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	b.WriteString("y,noise,same,sameText,sameOrNot,empty,key,number,real,code,leak,leakText,twin\n")
	for i := range 4000 {
		y := rng.IntN(2)
		// leak tells the label in all but one of 500 rows: 0 to .9 stands for 0, and 1 to 1.9 for 1. leakText has 20
		// texts for each label, and twin has one.
		leak := float64(y) + rng.Float64()*0.9
		if rng.IntN(500) == 0 {
			leak = rng.Float64() * 2
		}
		fmt.Fprintf(&b, "%d,%d,5,x,%s,,%016x,%d,%.12f,c%03d,%.3f,%s%d,%s\n", y, rng.IntN(10), []string{"", "1"}[i%2],
			rng.Uint64(), i*7+3, rng.Float64(), rng.IntN(600), leak, []string{"n", "p"}[y], rng.IntN(20),
			[]string{"n", "p"}[y])
	}
	s := mustStage(t, "label: y\n", b.String())
	want := []string{"all_missing empty", "constant same", "constant sameText", "dropped key", "id_like key",
		"id_like number", "leak leak", "leak leakText", "leak twin"}
	if got := codes(s); !slices.Equal(got, want) {
		t.Errorf("the warnings: got  %q\nwant %q", got, want)
	}
	s = mustStage(t, "label: y\nnumeric: [empty]\n", b.String())
	if f := s.feature(t, "empty"); f.Kind != dataset.Numeric || f.Bins != 2 || f.MissingBin != 1 || f.Range != nil {
		t.Errorf("an empty column that the spec says is numeric: got %+v; want two bins, the second for missing "+
			"values, and no range", f)
	}
}

// TestConstantInTheSampleAlone: a column of texts gets the warning that it is constant only if all rows have the same
// text, not if the sampled ones do. 100 of 2,000 rows are sampled, so the one row to which a case gives another text is
// most likely not among them; three such rows are tried.
func TestConstantInTheSampleAlone(t *testing.T) {
	for _, other := range []int{500, 1501, 42, -1} { // -1: no row
		csv := csvOf("y,x,z", 2000, func(i int) string {
			x := "a"
			if i == other {
				x = "b"
			}
			return fmt.Sprintf("%d,%s,%d", i/7%2, x, i%9)
		})
		s := mustStage(t, "label: y\nsample_rows_for_bins: 100\n", csv)
		if got := slices.Contains(codes(s), "constant x"); got != (other < 0) {
			t.Errorf("row %d has another text than all others: warned of a constant: %t, want %t", other, got,
				other < 0)
		}
	}
}

// TestNoLeakByMemory: a column of 250 rare categories is not taken for a leak of a random label, though a model could
// memorise the few rows of each category, three on average. The table has fewer than 1,000 rows, hence few_rows.
func TestNoLeakByMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	csv := csvOf("y,rare,z", 700, func(_ int) string {
		return fmt.Sprintf("%d,%d,%d", rng.IntN(2), rng.IntN(250), rng.IntN(3))
	})
	if got := codes(mustStage(t, "label: y\ncategorical: [rare]\n", csv)); !slices.Equal(got,
		[]string{"few_rows"}) {
		t.Errorf("a column of rare categories: warned of %q; want few_rows only", got)
	}
}

// TestLeakOfARegression: a column from which a numeric label can be computed is a leak; one that is only related to
// it is not. The label's standard deviation is 50, and that of the noise in related is 20: it explains
// 50²/(50²+20²), 86 %, of the variance, where leakScore is 99 %.
func TestLeakOfARegression(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	csv := csvOf("y,copy,related", 3000, func(_ int) string {
		y := rng.NormFloat64() * 50
		return fmt.Sprintf("%.4f,%.4f,%.4f", y, 3*y+1, y+rng.NormFloat64()*20)
	})
	if got := codes(mustStage(t, "label: y\n", csv)); !slices.Equal(got, []string{"leak copy"}) {
		t.Errorf("a copy of a numeric label: warned of %q; want leak only", got)
	}
}

// TestSplitWarnings: a split of few rows gets a warning, and so does one whose share of positive rows differs much from
// train's. Of 12,000 rows, every hundredth, 120, is calib, and fewer than 1,000 (fewRows) are few. test has three times
// train's share of positive rows. valid has 11 instead of 10 %, which gets no warning: a share has to be beyond 1.5
// times train's.
func TestSplitWarnings(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,x,part\n")
	rng := rand.New(rand.NewPCG(4, 1))
	for i := range 12_000 {
		part, rate := "train", 0.1
		switch {
		case i%10 == 0:
			part, rate = "test", 0.3
		case i%100 == 1:
			part = "calib"
		case i%5 == 2:
			part, rate = "valid", 0.11
		}
		y := 0
		if rng.Float64() < rate {
			y = 1
		}
		fmt.Fprintf(&b, "%d,%d,%s\n", y, rng.IntN(5), part)
	}
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\n", b.String())
	if got := codes(s); !slices.Equal(got, []string{"few_rows", "rate_differs"}) ||
		!strings.HasPrefix(s.Manifest.About.Warnings[0].Text, "calib has only 120 rows") ||
		!strings.Contains(s.Manifest.About.Warnings[1].Text, "of test are positive") {
		t.Errorf("got the warnings %+v, want few_rows of calib and rate_differs", s.Manifest.About.Warnings)
	}
}

// TestFolded: AUC and R2 of a single feature's predictions agree with their definitions, computed row by row and pair
// by pair. A row is predicted by the mean label of its bin in the other folds, as if leakPrior more rows of the bin had
// the mean label of all bins. Counting labels of 0 and 1 gives the same sums as adding them up.
func TestFolded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const n = 400
	// A feature of six bins whose positive rows are the more frequent the higher the bin.
	train := &trainSample{}
	bins := make([]uint8, n)
	for i := range n {
		bins[i] = uint8(rng.IntN(6))
		y := float32(0)
		if rng.IntN(8) < int(bins[i]) {
			y = 1
		}
		train.labels, train.folds = append(train.labels, y), append(train.folds, leakFold(int64(i)))
	}

	// Predict each row by the rows of its bin in other folds.
	predicted := make([]float64, n)
	for i := range n {
		sum, rows, all, allRows := 0.0, 0.0, 0.0, 0.0
		for j := range n {
			if train.folds[j] == train.folds[i] {
				continue
			}
			all, allRows = all+float64(train.labels[j]), allRows+1
			if bins[j] == bins[i] {
				sum, rows = sum+float64(train.labels[j]), rows+1
			}
		}
		predicted[i] = (sum + leakPrior*all/allRows) / (rows + leakPrior)
	}

	// The AUC is the share of pairs of a positive and a negative row that are in the right order.
	right, pairs, mean := 0.0, 0.0, 0.0
	for i := range n {
		mean += float64(train.labels[i]) / n
		for j := range n {
			if train.labels[i] == 1 && train.labels[j] == 0 {
				pairs++
				switch {
				case math.Abs(predicted[i]-predicted[j]) < 1e-12:
					right += 0.5
				case predicted[i] > predicted[j]:
					right++
				}
			}
		}
	}

	// R2 compares the squared errors with those of the mean.
	rest, variance := 0.0, 0.0
	for i := range n {
		rest += math.Pow(float64(train.labels[i])-predicted[i], 2)
		variance += math.Pow(float64(train.labels[i])-mean, 2)
	}

	// Compare.
	f, counted := &folded{}, &folded{}
	f.all.groupLabels(bins, train)
	if counted.all.groupBinary(bins, train); counted.all != f.all {
		t.Error("groupBinary counts other sums than groupLabels, want the same for labels 0 and 1")
	}
	f.fold(bins, train)
	if got := f.auc(); math.Abs(got-right/pairs) > 1e-9 {
		t.Errorf("AUC %v, want %v", got, right/pairs)
	}
	if got := f.r2(); math.Abs(got-(1-rest/variance)) > 1e-9 {
		t.Errorf("R2 %v, want %v", got, 1-rest/variance)
	}
}

// TestNumbersThatGoOnWithTime: if rows are ordered by time, a column of numbers that keeps growing is dropped, unless
// the spec asks for it. A column that comes back, weekday, is a feature in any case. In a random order, and with
// encodings off, none is dropped. There is no learner here, which might tell that a column helps:
// stager.TestColumnsThatGoOnWithTime has one.
func TestNumbersThatGoOnWithTime(t *testing.T) {
	long(t)
	rng := rand.New(rand.NewPCG(5, 1))
	csv := csvOf("y,at,serial,month,weekday,id", 6000, func(i int) string {
		return fmt.Sprintf("%d,%d,%d,%d,%d,k%d", rng.IntN(2), i, 10*i+rng.IntN(10), i/600, i/100%7, rng.IntN(50))
	})
	const byTime = "label: y\nsplit: {by: time, column: at, train: 0.7, test: 0.3}\n"
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"by time":      {byTime, []string{"dropped month", "dropped serial"}},
		"asked for":    {byTime + "encodings: {keys: [[id, month]]}\n", []string{"dropped serial"}},
		"at random":    {"label: y\ndrop: [at]\nsplit: {by: hash, key: at, train: 0.7, test: 0.3}\n", nil},
		"ranges":       {byTime + "encodings: {keys: [[id, month~]]}\n", []string{"dropped serial"}},
		"numeric":      {byTime + "numeric: [serial]\n", []string{"dropped month"}},
		"switched off": {byTime + "encodings: none\n", nil},
	} {
		s := mustStage(t, tc.spec, csv)
		got := slices.DeleteFunc(codes(s), func(c string) bool { return !strings.HasPrefix(c, "dropped") })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		s.feature(t, "weekday") // fails if there is none
	}
}

// hinted returns the columns that have a warning of the given code, sorted.
func hinted(s *staged, code string) []string {
	var out []string
	for _, w := range s.Manifest.About.Warnings {
		if w.Code == code {
			out = append(out, w.Column)
		}
	}
	slices.Sort(out)
	return out
}

// said returns the texts of the warnings of the given code, of any if it is empty, in lines of "column: text".
func said(s *staged, code string) string {
	out := ""
	for _, w := range s.Manifest.About.Warnings {
		if code == "" || w.Code == code {
			out += strings.TrimPrefix(w.Column+": "+w.Text+"\n", ": ")
		}
	}
	return out
}

// names returns the names of the dataset's features, in their order.
func (s *staged) names() (out []string) {
	for _, f := range s.Manifest.Features {
		out = append(out, f.Name)
	}
	return out
}

// TestHints: columns of numbers that look like ids, columns with a number that likely stands for a missing value, and
// the key of the split get a hint. All other columns are similar in some way, and get none.
//
// By name, shop_id, campaignId and uid are ids; paid and bid only end like one, and forced_id is listed under numeric:.
// By its numbers, code is an id: 60 numbers from 10,000 to 99,999, far apart, of 100 rows each. solid has no gaps,
// price too many numbers for its rows, and count begins at 0. In amount and years, one number is far from all others:
// -999999 in every 40th row, and 9999 in every 300th. In flag that number is 0, which is no code.
func TestHints(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	sparse := make([]int, 60) // of column code
	for i := range sparse {
		sparse[i] = 10_000 + rng.IntN(90_000)
	}
	var b strings.Builder
	b.WriteString("y,user,shop_id,campaignId,solid,paid,age,hour,price,code,amount,years,count,flag,forced_id," +
		"uid,bid\n")
	for i := range 6000 {
		amount, years := fmt.Sprintf("%.2f", 100*rng.Float64()), fmt.Sprint(18+rng.IntN(60))
		if i%40 == 0 {
			amount = "-999999"
		}
		if i%300 == 7 {
			years = "9999"
		}
		fmt.Fprintf(&b, "%d,u%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,%s,%d,%d,%d,%d,%d\n", i/3%2, i/4, 1+rng.IntN(300),
			1+rng.IntN(9), rng.IntN(50), rng.IntN(40), 18+rng.IntN(60), rng.IntN(24),
			int(1e6*rng.Float64()), sparse[rng.IntN(60)], amount, years, int(rng.ExpFloat64()*3),
			[]int{0, 1000, 1001, 1002, 1003}[rng.IntN(5)], rng.IntN(40), rng.IntN(30), rng.IntN(30))
	}
	s := mustStage(t, "label: y\nnumeric: [forced_id]\nsplit: {by: hash, key: user, train: 0.8, test: 0.2}\n",
		b.String())
	for code, want := range map[string][]string{
		HintIDs:  {"campaignId", "code", "shop_id", "uid"},
		WarnCode: {"amount", "years"},
		HintKey:  {"user"},
	} {
		if got := hinted(s, code); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	if got := said(s, WarnCode); !strings.Contains(got, " sampled rows have -999999, and all others 0") {
		t.Errorf("the warnings are %q, expected that rows of amount have -999999 and all others 0 or more", got)
	}
}

// TestNamedID: a name is that of an id if it ends in the word id, and not if the letters id end another word. In a name
// of capitals alone, as warehouses have them, words are told apart as in one of small letters.
func TestNamedID(t *testing.T) {
	for name, want := range map[string]bool{
		"id": true, "Id": true, "ID": true, "user_id": true, "user.id": true, "userId": true, "userID": true,
		"visitorID": true, "USER_ID": true, "USERID": true, "VISITORID": true, "patientid": true,
		"uid": true, "UID": true,
		"bid": false, "BID": false, "paid": false, "PAID": false, "VALID": false, "GRID": false, "idle": false,
		"price": false, "": false,
	} {
		must.Equal(t, NamedID(name), want, "%q is named like an id", name)
	}
}

// TestDictionariesAreCategories: a column that was categorical in the program that wrote a Parquet file is categorical,
// even if it holds numbers. The encoder reads plain numbers as its categories. testdata/dictionary/make.py wrote the
// files: number and category have the same 7 numbers, half has 5 with fractions, and word 3 texts. All but number were
// categorical in pandas. word, a column of texts, is so by its type already.
func TestDictionariesAreCategories(t *testing.T) {
	for _, file := range []string{"table.parquet", "fastparquet.parquet"} {
		path := filepath.Join("testdata", "dictionary", file)
		info := must.Get(os.Stat(path))(t)
		files := []table.File{{URI: file, Path: path, Bytes: info.Size()}}
		s := stageFiles(t, "label: y\nsplit: {by: random, train: 0.8, test: 0.2}\n", files, Options{})
		for name, want := range map[string]struct {
			kind dataset.Kind
			why  dataset.Why
			of   int
		}{
			"number":   {dataset.Numeric, dataset.WhyType, 0},
			"category": {dataset.Categorical, dataset.WhyDictionary, 7},
			"half":     {dataset.Categorical, dataset.WhyDictionary, 5},
			"word":     {dataset.Categorical, dataset.WhyType, 3},
		} {
			f := s.feature(t, name)
			if f.Kind != want.kind || f.Why != want.why || len(f.Categories) != want.of {
				t.Errorf("%s: %s is %s (%s) with %q; want %s (%s) with %d categories", file, name, f.Kind, f.Why,
					f.Categories, want.kind, want.why, want.of)
			}
		}
		checkEncoder(t, s, files, dataset.CSVSpec{})
	}
}

// TestTrueShares: of a column with more levels than it has bins, the manifest says how many rows are in other levels,
// so that the share of rows of each category can be computed.
//
// ip has 5,401 levels. One of them has a tenth of the rows. The others are the numbers below 6000 but the multiples of
// 10, which are those of the tenth; each has 3 or 4 of the 20,000 rows. 254 categories have a bin: the frequent one
// with its tenth, and 253 with some 5 % of the rows together. So about .85 of the rows are in others (Lumped). The
// number of levels is an estimate, to some 3 %.
func TestTrueShares(t *testing.T) {
	csv := csvOf("y,ip", 20_000, func(i int) string {
		ip := i * 7919 % 6000 // 7919 is a prime, so that all numbers below 6000 come, multiples of 10 where i is one
		if i%10 == 0 {
			ip = 6001 // 10.0.23.113, as 6001 is 23*256 + 113
		}
		return fmt.Sprintf("%d,10.0.%d.%d", i/7%2, ip/256, ip%256)
	})
	s := mustStage(t, "label: y\nencodings: none\nsplit: {by: random, train: 0.8, test: 0.2}\n", csv)
	e := s.Manifest.About.Encodings
	if len(e) != 1 || e[0].Name != "ip" || e[0].Levels < 5000 || e[0].Levels > 6000 || e[0].Kept != 254 ||
		e[0].Lumped < 0.6 || e[0].Lumped > 0.9 {
		t.Fatalf("%+v, want ip with about 5,401 levels, 254 of them kept, and .6 to .9 of the rows in others", e)
	}

	// A category's share of all rows is its share of the rows that have a category, times the share of those.
	f := s.feature(t, "ip")
	total := int64(0)
	for _, n := range f.Counts {
		total += n
	}
	if share := float64(f.Counts[0]) / float64(total) * (1 - e[0].Lumped); f.Categories[0] != "10.0.23.113" ||
		share < 0.095 || share > 0.105 {
		t.Errorf("the most frequent is %s with %.4f of the rows, want 10.0.23.113 with a tenth", f.Categories[0], share)
	}
}

// namedTable returns CSV with a label, a time and columns of the given names. They hold ids, or whole numbers if the
// name ends in #, which is taken off.
func namedTable(rows int, names ...string) string {
	rng := rand.New(rand.NewPCG(11, 5))
	var b strings.Builder
	b.WriteString("y,at")
	for _, name := range names {
		b.WriteString("," + strings.TrimSuffix(name, "#"))
	}
	b.WriteString("\n")
	for range rows {
		fmt.Fprintf(&b, "%d,2026-01-%02d %02d:00:00", rng.IntN(2), 1+rng.IntN(28), rng.IntN(24))
		for i, name := range names {
			if strings.HasSuffix(name, "#") {
				fmt.Fprintf(&b, ",%d", rng.IntN(900))
			} else {
				fmt.Fprintf(&b, ",%c%d", 'a'+i, rng.IntN(60))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// namedSpec begins the specs for namedTable.
const namedSpec = "label: y\nsplit: {by: hash, key: at, train: 0.8, test: 0.2}\n"

// TestNamesAreNotIdentity: a column of the table may be called like a statistic, a range or a derived column. Features
// are told apart by what they are: the encoder gives the bins that were staged, and no two tables have the same parts.
// Only if two features would have the same name is that an error, which says what each is made of.
func TestNamesAreNotIdentity(t *testing.T) {
	long(t)
	for name, tc := range map[string]struct {
		columns []string
		rest    string // of the spec, after namedSpec
		want    string // of the error; empty: none
	}{
		"a pair and a column": {[]string{"a", "b", "a+b"}, "encodings: {keys: [[a, b]], columns: {a+b: categories}}\n",
			""},
		"a pair and a column with a rate": {[]string{"a", "b", "a+b"}, "encodings: {keys: [[a, b]]}\n",
			`the rate of column "a+b" and the rate of column "a" with column "b" are both features called "a+b:rate"`},
		"ranges and a column": {[]string{"age#", "age~"},
			"encodings: {columns: {age: none}, keys: [[age~]]}\n", `"age~" is both `},
		"ranges beside a column": {[]string{"age#", "age~", "b"}, "encodings: {keys: [[age, b]]}\n", ""},
		"a statistic that is a column": {[]string{"a", "a:rate#"}, "",
			`column "a:rate" and the rate of column "a" are both features called "a:rate"`},
		"asked for, beside a column": {[]string{"a", "at.hour#"}, "drop: []\nderive: {at: [hour]}\n",
			`column "at.hour" and the hour of column "at" are both features called "at.hour"`},
		"not asked for, beside a column": {[]string{"a", "at.hour#"}, "encodings: {order: {column: at}}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := namedTable(4000, tc.columns...)
			s, err := tryStage(t, namedSpec+tc.rest, []table.File{writeFile(t, "t.csv", text)}, Options{})
			must.SayAs[*strictyaml.Error](t, "staging", err, tc.want)
			if err != nil {
				return
			}
			checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{})
			var of []string
			for _, table := range s.Manifest.Tables {
				of = append(of, fmt.Sprintf("%+v", table.Of))
			}
			slices.Sort(of)
			if len(slices.Compact(slices.Clone(of))) != len(of) {
				t.Errorf("tables of the same parts, want each once: %q", of)
			}
		})
	}
}

// TestLevelsAreCountedByMeaning: several spellings of an id are one level in the count that the manifest reports, and a
// missing value is none.
func TestLevelsAreCountedByMeaning(t *testing.T) {
	csv := csvOf("y,id", 4000, func(i int) string {
		return fmt.Sprintf("%d,%s", i%2, fmt.Sprintf([]string{"%d", "%d.0", "%d", " %d"}[i%4], 1000+i/4%40))
	})
	s := mustStage(t, "label: y\ncategorical: [id]\nsplit: {by: random, train: 0.8, test: 0.2}\n", csv)
	if got := s.Manifest.About.Encodings; len(got) != 1 || got[0].Levels != 40 {
		t.Errorf("got %+v, want 40 levels of id, which are written in three ways each", got)
	}

	// A missing value is none of them, whether they are categories or have statistics.
	for _, spec := range []string{"encodings: none\n", "encodings: {columns: {id: [rate, count]}}\n",
		"encodings: {columns: {id: categories}}\n"} {
		s := mustStage(t, "label: y\ncategorical: [id]\n"+spec, csv+"1,\n0,\n1,NA\n")
		if got := s.Manifest.About.Encodings; len(got) != 1 || got[0].Levels != 40 {
			t.Errorf("%s: got %+v, want 40 levels: the missing value is none", spec, got)
		}
	}
}

// TestAskedKeysAreMeasured: the gain of a key that the spec asks for is measured, and left out if there are too few
// rows to measure it: 1,000 are needed. The key decides the label, but of its 1,600 levels each has 2.5 rows of 4,000,
// so the gain, a share of the loss, is far below 1.
func TestAskedKeysAreMeasured(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,a,b\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4000 { // the label is the parity of both numbers together; one alone tells nothing
		x, z := rng.IntN(40), rng.IntN(40)
		fmt.Fprintf(&b, "%d,a%d,b%d\n", (x^z)&1, x, z)
	}
	for _, rows := range []int{4000, 500} {
		lines := strings.SplitAfter(b.String(), "\n")[:rows+1]
		s := mustStage(t, "label: y\nencodings: {keys: [[a, b]]}\n", strings.Join(lines, ""))
		i := slices.IndexFunc(s.Manifest.About.Encodings, func(e dataset.EncodingInfo) bool { return e.Name == "a+b" })
		if i < 0 {
			t.Fatalf("want a+b among the encodings, got %+v", s.Manifest.About.Encodings)
		}
		switch gain := s.Manifest.About.Encodings[i].Gain; {
		case rows == 4000 && (gain == nil || *gain < 0.1):
			got := "nothing"
			if gain != nil {
				got = fmt.Sprint(*gain)
			}
			t.Errorf("a+b decides the label, and is said to be worth %s, want 0.1 or more", got)
		case rows == 500 && gain != nil:
			t.Errorf("with 500 rows a+b is said to be worth %v, want nothing said: they are too few", *gain)
		}
	}
}

// hashesOf returns the hashes of the levels of so many rows.
func hashesOf(rows int, level func(i int) uint64) []uint64 {
	out := make([]uint64, rows)
	for i := range out {
		out[i] = level(i)
	}
	return out
}

// TestNested: whether a column's levels are nested in those of another is decided correctly. If they are not, as in
// nearly all pairs of columns, that shows after a small part of the rows. findParents finds the nested pair, and ends
// when its context does.
func TestNested(t *testing.T) {
	// campaign has 20 levels within each of 40 levels of above. A column is nested if at least 99.5 % of the rows have
	// the same level above as the first row of their level: "mostly" differs in one row of 1,000. The others differ in
	// half of the rows or more, so .5 % of all rows, 250, have been seen to differ long before a twentieth is read.
	const rows = 50_000
	above := func(i int) uint64 { return encode.Mix(uint64(i)) % 40 }
	campaign := numberLevels(hashesOf(rows, func(i int) uint64 { return above(i)<<8 | encode.Mix(uint64(i)+7)%20 }))
	for name, tc := range map[string]struct {
		up     []uint64 // by row: the level of the other column
		nested bool
		most   int // rows looked at
	}{
		"advertiser":       {hashesOf(rows, above), true, rows},
		"mostly":           {hashesOf(rows, func(i int) uint64 { return above(i) + uint64((i%1000)/999) }), true, rows},
		"half of the time": {hashesOf(rows, func(i int) uint64 { return above(i) + uint64(i%2) }), false, rows / 20},
		"something else": {hashesOf(rows, func(i int) uint64 { return encode.Mix(uint64(i)+3) % 40 }), false,
			rows / 20},
	} {
		up := numberLevels(tc.up)
		if is, looked := campaign.nestedIn(&up); is != tc.nested || looked > tc.most {
			t.Errorf("%s: nested %v after %d rows, want %v after at most %d", name, is, looked, tc.nested, tc.most)
		}
	}

	// The same two columns as a designer sees them: atom 0 is above, and atom 1 is campaign.
	p := &designer{survey: &survey{}, spec: &dataset.EncodingsSpec{}, parents: map[int]int{}}
	for i, hashes := range [][]uint64{hashesOf(rows, above),
		hashesOf(rows, func(i int) uint64 { return above(i)<<8 | encode.Mix(uint64(i)+7)%20 })} {
		p.columns = append(p.columns, sampledColumn{built: &built{Feature: dataset.Feature{Kind: dataset.Categorical}}})
		p.atoms = append(p.atoms, atom{column: i, exact: true, hashes: hashes})
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := p.findParents(ctx, 2); err != nil || len(p.parents) != 1 || p.parents[1] != 0 {
		t.Errorf("parents by atom: got %v, error %v; want 0 as the parent of 1 alone", p.parents, err)
	}
	cancel()
	if err := p.findParents(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v; want its error", err)
	}
}
